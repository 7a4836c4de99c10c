"""Labels under local privacy: k-ary randomised response (GraphPrivatizer Eq. 6, as in LPGNN) and its matrix."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgeveil.privacy.budget import exact
from edgeveil.privacy.kary import respond
from edgeveil.privacy.noise import Noise

__all__ = ["label_keep", "label_transition", "noisy_labels"]

Int = NDArray[np.int64]


def label_keep(epsilon: float, classes: int) -> float:
    """Probability that a label is reported as it is; 1 for an infinite epsilon."""
    return 1.0 / (1.0 + (classes - 1) * math.exp(-epsilon))


def label_transition(epsilon: float, classes: int) -> NDArray[np.float64]:
    """T with T[y, y'] = P(report y' | label y); the identity for an infinite epsilon."""
    keep = label_keep(epsilon, classes)
    other = (1.0 - keep) / max(classes - 1, 1)
    return np.full((classes, classes), other) + (keep - other) * np.eye(classes)


def noisy_labels(y: Int, classes: int, epsilon: float, noise: Noise) -> Int:
    """Every known label through randomised response; unknown ones (negative) stay unknown."""
    out = np.array(y, np.int64)
    if math.isinf(epsilon):
        return out
    known = np.flatnonzero(out >= 0)
    out[known] = respond(noise, exact(epsilon), out[known], classes)
    return out
