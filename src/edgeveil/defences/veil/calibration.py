"""Judging classifiers on validation nodes: temperatures, mixtures, and a guard against gains that are only noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.metrics.utility import predicted

__all__ = ["hits", "is_better", "log_loss", "mixture_weight", "temperature"]

Float = NDArray[np.float64]
TEMPERATURES = np.geomspace(0.05, 20.0, 61)
WEIGHTS = np.linspace(0.0, 1.0, 21)


def log_loss(logits: Float, y: Any) -> float:
    """Mean cross-entropy; over all cells where labels are 0/1 vectors."""
    y = np.asarray(y)
    if y.ndim == 2:
        return float(np.logaddexp(0.0, np.where(y > 0, -logits, logits)).mean())
    top = logits.max(axis=1)
    total = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top
    return float((total - logits[np.arange(len(y)), y]).mean())


def temperature(logits: Float, y: Any) -> float:
    """The divisor of the logits with the least log-loss."""
    return float(min(TEMPERATURES, key=lambda t: log_loss(logits / t, y)))


def mixture_weight(first: Float, second: Float, y: Any) -> float:
    """The share of `second` in a log-linear mixture with the least log-loss."""
    return float(min(WEIGHTS, key=lambda w: log_loss((1 - w) * first + w * second, y)))


def hits(logits: Float, y: Any) -> Float:
    """1 for every node that is classified rightly; the share of right cells where labels are 0/1 vectors."""
    y = np.asarray(y)
    right = predicted(logits, multilabel=y.ndim == 2) == y
    return np.asarray(right.mean(axis=1) if y.ndim == 2 else right, np.float64)


def is_better(candidate: Float, incumbent: Float, y: Any) -> bool:
    """Whether the candidate's gain in validation accuracy, node by node, exceeds its own standard error."""
    gain = hits(candidate, y) - hits(incumbent, y)
    if len(gain) < 2:
        return False
    return bool(gain.mean() > gain.std(ddof=1) / math.sqrt(len(gain)))
