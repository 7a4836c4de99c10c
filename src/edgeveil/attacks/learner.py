"""A small learner for attacks that train: softmax regression on plain arrays, no graph and no model of Alice's.

An attack learns from what its view holds (a shadow graph, known edges and non-edges, answers it paid for), so the wall
stays where it is: what comes in here are numbers Bob has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

from edgeveil.errors import InputError
from edgeveil.release.target import PublicGraph

__all__ = ["Learner", "fit_learner", "labelled_pairs"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Learner:
    """Standardised features times weights: log-odds of classes 0, 1, ... up to a constant per row."""

    mean: Float
    scale: Float
    weights: Float  # [features + 1, classes], the intercept last

    def log_probabilities(self, x: Any) -> Float:
        """One row per example, one column per class."""
        rows = (np.asarray(x, np.float64) - self.mean) / self.scale
        return np.asarray(log_softmax(rows @ self.weights[:-1] + self.weights[-1], axis=1), np.float64)


def fit_learner(x: Any, y: Any, penalty: float = 1e-3) -> Learner:
    """Minimise mean cross-entropy + penalty/2 |weights|^2 (strictly convex, so the fit has no randomness)."""
    rows, labels = np.asarray(x, np.float64), np.asarray(y, np.int64)
    if rows.ndim != 2 or labels.shape != (len(rows),) or not len(rows) or not np.isfinite(rows).all():
        shapes = f"{list(rows.shape)} and {list(labels.shape)}"
        raise InputError(f"a learner needs finite rows [n, d] and n labels, got {shapes}")
    classes = int(labels.max()) + 1
    if labels.min() < 0 or len(np.unique(labels)) < 2:
        raise InputError("a learner needs labels 0, 1, ... of at least two classes")
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale == 0] = 1.0
    rows = np.hstack([(rows - mean) / scale, np.ones((len(rows), 1))])
    truth = np.eye(classes)[labels]
    count = rows.shape[1]

    def loss(flat: Float) -> tuple[float, Float]:
        weights = flat.reshape(count, classes)
        logits = rows @ weights
        total = logsumexp(logits, axis=1)
        value = float((total - (logits * truth).sum(axis=1)).mean() + penalty / 2 * (flat**2).sum())
        slope = rows.T @ (np.exp(logits - total[:, None]) - truth) / len(rows) + penalty * weights
        return value, slope.ravel()

    found = minimize(loss, np.zeros(count * classes), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return Learner(mean, scale, found.x.reshape(count, classes))


def labelled_pairs(shadow: PublicGraph, count: int, rng: np.random.Generator) -> tuple[Int, Int]:
    """At most `count` edges of a public graph and as many non-edges: pairs [2, P] and 1 or 0 for each."""
    edges = np.sort(shadow.edges, axis=0)
    n = shadow.num_nodes
    room = n * (n - 1) // 2 - edges.shape[1]
    some = min(count, edges.shape[1], room)
    if some < 1:
        raise InputError(f"a shadow graph of {n} nodes and {edges.shape[1]} edges has nothing to learn from")
    chosen = edges[:, rng.choice(edges.shape[1], some, replace=False)]
    taken = set((edges[0].astype(np.int64) * n + edges[1]).tolist())
    free: list[Sequence[int]] = []
    while len(free) < some:
        u, v = np.sort(rng.integers(0, n, 2)).tolist()
        if u != v and u * n + v not in taken:
            taken.add(u * n + v)
            free.append((u, v))
    pairs = np.concatenate([chosen, np.array(free, np.int64).T], axis=1).astype(np.int64)
    return pairs, np.repeat([1, 0], some)
