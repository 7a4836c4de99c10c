"""Utility as a mean over test nodes, so that two models can be compared node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.metrics.utility import f1_scores, rare_class

__all__ = ["imbalanced", "majority_said", "node_scores"]

Float = NDArray[np.float64]
MOST, RATIO = 2 / 3, 10.0


def node_scores(said: Any, y: Any, classes: int, metric: str) -> Float:
    """One number per node whose mean is the metric, and whose spread is that of the metric (first order).

    Accuracy and micro-F1 are shares of right nodes. An F1 is smooth in the counts of its class, F = 2 hits / (said +
    true): a node that moves these counts moves F by (2 [hit] - F ([said] + [true])) / (said + true), its influence.
    """
    said, y = np.asarray(said, np.int64), np.asarray(y, np.int64)
    if y.ndim == 2:
        return _of_labels(said, y, metric)
    if metric in ("accuracy", "micro_f1"):
        right: Float = (said == y).astype(np.float64)
        return right
    if metric not in ("macro_f1", "rare_f1"):
        raise InputError(f"no node-by-node form of the utility metric {metric!r}; use micro_f1, macro_f1 or rare_f1")
    counts = np.bincount(said, minlength=classes) + np.bincount(y, minlength=classes)
    f1, weight = f1_scores(said, y, classes), (counts > 0).astype(np.float64)
    if metric == "rare_f1":
        weight = np.zeros(classes)
        weight[rare_class(y)] = 1.0
    weight /= weight.sum()
    scale = np.divide(weight, counts, out=np.zeros(classes), where=counts > 0) * len(y)
    moved = 2 * (said == y) * scale[y] - f1[said] * scale[said] - f1[y] * scale[y]
    out: Float = float(weight @ f1) + moved
    return out


def _of_labels(said: NDArray[np.int64], y: NDArray[np.int64], metric: str) -> Float:
    """The same for several labels per node: one F1 over all cells, or one per label."""
    if metric == "accuracy":
        share: Float = (said == y).mean(axis=1)
        return share
    if metric not in ("micro_f1", "macro_f1"):
        raise InputError(f"no node-by-node form of {metric!r} for several labels per node; use micro_f1 or macro_f1")
    hits, asked = said * y, said + y
    if metric == "micro_f1":
        hits, asked = hits.sum(axis=1, keepdims=True), asked.sum(axis=1, keepdims=True)
    total = asked.sum(axis=0)
    f1 = np.divide(2 * hits.sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
    moved = np.divide(2 * hits - f1 * asked, total, out=np.zeros(hits.shape), where=total > 0)
    out: Float = (f1 + len(y) * moved).mean(axis=1)
    return out


def majority_said(y: Any, train: Any, size: int) -> NDArray[np.int64]:
    """The answer of somebody who knows only the most frequent class of the training nodes."""
    known = np.asarray(y)[np.asarray(train, dtype=bool)]
    known = known[known >= 0]
    return np.full(size, int(np.bincount(known).argmax()) if len(known) else 0, np.int64)


def imbalanced(y: Any) -> bool:
    """Whether one class holds two thirds of the labelled nodes, or ten times as many as the smallest class.

    The share of right answers then says little: who always names the large class is right most of the time.
    """
    y = np.asarray(y)
    if y.ndim != 1 or not (y >= 0).any():
        return False
    counts = np.bincount(y[y >= 0])
    counts = counts[counts > 0]
    return bool(counts.max() >= MOST * counts.sum() or counts.max() >= RATIO * counts.min())
