"""Judging classifiers on validation nodes: temperatures, mixtures, and a guard against gains that are only noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.metrics.node_scores import node_scores
from edgeveil.metrics.utility import default_metric, predicted

__all__ = ["is_better", "like_moves", "log_loss", "mixture_weight", "scores", "temperature"]

Float = NDArray[np.float64]
TEMPERATURES = np.geomspace(0.05, 20.0, 61)
WEIGHTS = np.linspace(0.0, 1.0, 21)
UNLIKE = 3.0  # standard errors between two shares of nodes from which they are not taken for one share


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


def scores(logits: Float, y: Any) -> Float:
    """One number per node whose mean is the utility metric of such labels (with a rare class: its F1)."""
    y, classes, several = np.asarray(y), logits.shape[1], np.ndim(y) == 2
    said = predicted(logits, multilabel=several)
    return node_scores(said, y, classes, default_metric(classes, multilabel=several))


def is_better(candidate: Float, incumbent: Float, y: Any) -> bool:
    """Whether the candidate's gain in the utility metric, node by node, exceeds its own standard error."""
    gain = scores(candidate, y) - scores(incumbent, y)
    if len(gain) < 2:
        return False
    return bool(gain.mean() > gain.std(ddof=1) / math.sqrt(len(gain)))


def like_moves(here: tuple[Float, Float], there: tuple[Float, Float], *, multilabel: bool) -> bool:
    """Whether a classifier moves nodes of two graphs from class to class alike; each pair is logits before and after.

    What was judged on nodes of one graph says something about the other only then. No label is needed.
    """
    tables = [_moves(*pair, multilabel=multilabel) for pair in (here, there)]
    sizes = [table.sum() for table in tables]
    shares = [table / size for table, size in zip(tables, sizes, strict=True)]
    pooled = sum(tables) / sum(sizes)
    error = np.sqrt(pooled * (1 - pooled) * sum(1 / size for size in sizes))
    away = ~np.eye(len(pooled), dtype=bool)
    return bool((np.abs(shares[0] - shares[1]) <= UNLIKE * error)[away].all())


def _moves(before: Float, after: Float, *, multilabel: bool) -> Float:
    """How many nodes (cells, where labels are 0/1 vectors) go from which class to which."""
    classes = 2 if multilabel else before.shape[1]
    old, new = (predicted(logits, multilabel=multilabel).ravel() for logits in (before, after))
    return np.bincount(old * classes + new, minlength=classes**2).reshape(classes, classes).astype(np.float64)
