"""The multi-bit mechanism (LPGNN, Sajadmanesh & Gatica-Perez 2021, Alg. 1 and Eq. 7): features under local privacy.

Each node samples m of its d features without looking at them, sends one randomised bit for each and nothing for the
rest; the server's rectifier makes the estimate unbiased. All nodes but the sampled entries hold the constant
mid-point, so the result is m numbers per node and one row shared by all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.privacy.budget import exact
from edgeveil.privacy.noise import Noise
from edgeveil.privacy.probability import logistic

__all__ = ["BEST_RATE", "check_unit_range", "multi_bit", "rectifier_scale", "sampled_dimensions"]

Int = NDArray[np.int64]
BEST_RATE = 2.18
"""Epsilon per sampled dimension at which the rectified estimate has the least variance (LPGNN Prop. 3)."""
_UNIT = 2**53


def sampled_dimensions(epsilon: float, features: int) -> int:
    """The optimal number m of dimensions a node reports: max(1, min(d, floor(eps / 2.18)))."""
    return max(1, min(features, math.floor(epsilon / BEST_RATE)))


def rectifier_scale(epsilon: float, features: int, sampled: int) -> float:
    """d/(2m) (e^(eps/m) + 1)/(e^(eps/m) - 1): what a reported bit of +-1 stands for on features in [0, 1]."""
    return features / (2 * sampled) / math.tanh(epsilon / sampled / 2)


def _subsets(noise: Noise, rows: int, features: int, sampled: int) -> Int:
    """A uniform set of `sampled` distinct columns per row."""
    if sampled * sampled > features:
        step = max(1, 2**22 // features)
        parts = []
        for start in range(0, rows, step):
            keys = noise.integers(0, 2**62, min(step, rows - start) * features).reshape(-1, features)
            parts.append(np.argpartition(keys, sampled - 1, axis=1)[:, :sampled])
        return np.concatenate(parts) if parts else np.empty((0, sampled), np.int64)
    out = np.asarray(noise.integers(0, features, rows * sampled), np.int64).reshape(rows, sampled)
    while sampled > 1:
        ordered = np.sort(out, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not len(again):
            break
        out[again] = noise.integers(0, features, len(again) * sampled).reshape(-1, sampled)
    return out


def _entries(x: FeatureMatrix, rows: Int, columns: Int) -> NDArray[np.float64]:
    values = np.asarray(x.values[rows, columns], np.float64).ravel()
    return values if x.shift is None else values - x.shift[columns]


def _check_unit(values: NDArray[Any]) -> None:
    if len(values) and not (values.min() >= -1e-9 and values.max() <= 1 + 1e-9):
        raise InputError("the multi-bit mechanism needs features in [0, 1]; scale them with their public range first")


def check_unit_range(x: FeatureMatrix) -> None:
    """Refuse features outside [0, 1] before any noise is drawn."""
    _check_unit(x.toarray().ravel() if x.shift is not None or not x.is_sparse else x.values.data)


def multi_bit(x: FeatureMatrix, epsilon: float, noise: Noise, sampled: int | None = None) -> FeatureMatrix:
    """Unbiased noisy copy of features in [0, 1]; epsilon-LDP for all features of one node together.

    A bit is a coin of bias x, then binary randomised response at eps/m: the published Bernoulli
    (1 + (e^(eps/m) - 1) x)/(e^(eps/m) + 1), in a form whose privacy rests on the second coin alone, which the secure
    source draws exactly.
    """
    n, features = x.shape
    m = sampled_dimensions(epsilon, features) if sampled is None else sampled
    if not 1 <= m <= features:
        raise InputError(f"cannot report {m} of {features} features; choose between 1 and {features}")
    columns = np.sort(_subsets(noise, n, features, m), axis=1).ravel()
    rows = np.repeat(np.arange(n), m)
    values = _entries(x, rows, columns)
    _check_unit(values)
    truth = noise.integers(0, _UNIT, n * m) < values * _UNIT
    lie = noise.bernoulli(logistic(exact(epsilon) / m), n * m)
    signs = np.where(truth ^ lie, 1.0, -1.0)
    scale = rectifier_scale(epsilon, features, m)
    indptr = np.arange(0, n * m + 1, m, dtype=np.int64)
    noisy: Any = sp.csr_matrix((scale * signs, columns, indptr), shape=(n, features))
    return FeatureMatrix(noisy, np.full(features, -0.5))
