"""P(edge) of a pair before its own bits are read, learned from all bits by their public law; no edge need be known.

log-odds = constant + one effect per kind of evidence, a step function of its level. The effects maximise the marginal
likelihood of what is shown (empirical Bayes), under a Gaussian prior: effect = slope x how rare so much evidence is,
slope unknown, plus a random walk over levels. They never fall from one level to the next. The density follows from how
much is shown and is held. Everything shown anywhere in the graph takes part, and a sample of the pairs that are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from edgeveil.attacks.posterior.laws import Law
from edgeveil.attacks.posterior.pair_evidence import PairEvidence, Shown

__all__ = ["Prior", "learn"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
RARE = np.r_[0.5, np.geomspace(0.3, 3e-5, 24)]  # a level starts where a pair in so many has more evidence
SAMPLE = 800_000
ROUNDS = 200
WALK = 0.3  # standard deviation of an effect's step from level to level
SLOPES = ((0.0, 0.3), (0.0, 0.3), (1.0, 1.0))  # mean and deviation: neighbours in common, degrees, features
DAMP = 0.7


@dataclass(frozen=True, eq=False)
class Prior:
    """Log-odds by levels of evidence. `fit`: log-likelihood of what is shown, to compare laws."""

    constant: float
    cuts: tuple[Float, ...] = ()
    effects: tuple[Float, ...] = ()
    fit: float = 0.0

    def odds(self, shown: Shown) -> Float:
        """Log-odds of every pair."""
        out = np.full(len(shown), self.constant)
        for cut, effect, value in zip(self.cuts, self.effects, shown.kinds if self.cuts else (), strict=True):
            out += effect[np.searchsorted(cut, value, side="right")]
        return out


@dataclass(frozen=True, eq=False)
class _Points:
    """Pairs alike in levels and in what is shown: how many, and their mean likelihood as edges and as none."""

    design: Float
    many: Float
    edge: Float
    none: Float


def learn(evidence: PairEvidence, law: Law, lists: Any, rng: np.random.Generator) -> Prior:
    """Fit the prior to what is shown among the evidence's nodes."""
    hidden, pairs = _sample(evidence, rng)
    seen, stored = _stored(evidence, lists, rng)
    cuts = tuple(_cuts(values) for values in hidden.kinds)
    shape = tuple(len(c) + 1 for c in cuts)
    rest = ~hidden.either
    parts = [
        _group(seen, law, cuts, shape, np.full(len(seen), stored / max(len(seen), 1))),
        _group(hidden, law, cuts, shape, rest * (pairs - stored) / max(int(rest.sum()), 1)),
    ]
    level, many, edge, none = (np.concatenate(column) for column in zip(*parts, strict=True))
    points = _Points(_design(np.stack(np.unravel_index(level, shape), axis=1), shape), many, edge, none)
    start, stiff = _beliefs(hidden.kinds, cuts)
    weights, fit = _ascend(points, start, stiff, shape, law.density)
    effects = np.split(weights[1:], np.cumsum(shape)[:-1])
    return Prior(float(weights[0]), cuts, tuple(effects), fit)


def _sample(evidence: PairEvidence, rng: np.random.Generator) -> tuple[Shown, int]:
    """Pairs of a few nodes with all others, and how many pairs there are."""
    n = evidence.count
    rows = np.sort(rng.choice(n, min(n, max(1, SAMPLE // n)), replace=False))
    local, j = np.nonzero(np.arange(n)[None, :] != rows[:, None])
    return evidence.of_pairs(rows[local], j), n * (n - 1) // 2


def _stored(evidence: PairEvidence, lists: Any, rng: np.random.Generator) -> tuple[Shown, int]:
    """Pairs that the stored graph shows (those of some nodes, where there are too many), and how many there are."""
    inside = lists[evidence.nodes][:, evidence.nodes]
    upper = sp.triu(inside + inside.T, 1).tocoo()
    i, j = upper.row.astype(np.int64), upper.col.astype(np.int64)
    if len(i) > SAMPLE // 2:
        order = rng.permutation(evidence.count)[i]
        keep = order < np.quantile(order, SAMPLE / 2 / len(i))
        i, j = i[keep], j[keep]
    return evidence.of_pairs(i, j), upper.nnz


def _group(
    shown: Shown, law: Law, cuts: Sequence[Float], shape: tuple[int, ...], weight: Float
) -> tuple[Int, Float, Float, Float]:
    """Levels, number and mean likelihoods of pairs that have the same levels and are shown by as many ends."""
    level = np.ravel_multi_index(
        tuple(np.searchsorted(c, v, side="right") for c, v in zip(cuts, shown.kinds, strict=True)), shape
    )
    keys, at = np.unique(level * 3 + shown.there + shown.back, return_inverse=True)
    many = np.bincount(at, weights=weight, minlength=len(keys)).astype(np.float64)
    sides = [np.bincount(at, weights=weight * side, minlength=len(keys)) for side in law.likelihood(shown)]
    keep = many > 0
    return (keys[keep] // 3).astype(np.int64), many[keep], sides[0][keep] / many[keep], sides[1][keep] / many[keep]


def _design(levels: Int, shape: tuple[int, ...]) -> Float:
    """A column of ones and one for every level of every kind of evidence."""
    parts = [np.ones((len(levels), 1))]
    parts += [np.asarray(levels[:, k][:, None] == np.arange(size), np.float64) for k, size in enumerate(shape)]
    return np.concatenate(parts, axis=1)


def _cuts(values: Float) -> Float:
    """Levels at the quantiles of a sample, fine in the upper tail."""
    out: Float = np.unique(np.quantile(values, 1 - RARE))
    return np.asarray(out[out > values.min()], np.float64)


def _beliefs(kinds: Sequence[Float], cuts: Sequence[Float]) -> tuple[Float, Float]:
    """Mean of the effects before anything is read, and the inverse of their covariance."""
    mean, blocks = [np.zeros(1)], [np.zeros((1, 1))]
    for values, cut, (slope, spread) in zip(kinds, cuts, SLOPES, strict=False):
        above = np.array([1.0, *((values >= c).mean() for c in cut)])
        lift = -0.5 * np.log(np.maximum(above, 1 / len(values)))
        step = np.diff(np.eye(len(lift)), axis=0)
        walk = WALK**2 * np.eye(len(step)) + spread**2 * np.outer(step @ lift, step @ lift)
        mean.append(slope * lift)
        blocks.append(step.T @ np.linalg.solve(walk, step) + 1e-3 * np.eye(len(lift)))
    return np.concatenate(mean), sp.block_diag(blocks).toarray()


def _ascend(points: _Points, start: Float, stiff: Float, shape: tuple[int, ...], density: float) -> tuple[Float, float]:
    """Scoring steps on the penalised likelihood, each made monotone and brought back to the density."""
    design, many = points.design, points.many
    weights = start.copy()
    weights[0] = _constant(design @ weights, many, density)
    for _ in range(ROUNDS):
        odds = design @ weights
        p = 1 / (1 + np.exp(-np.clip(odds, -50, 50)))
        rate = np.maximum(p * points.edge + (1 - p) * points.none, 1e-300)
        slope = (points.edge - points.none) * p * (1 - p) / rate
        gradient = design.T @ (many * slope) - stiff @ (weights - start)
        curve = (design * (many * slope**2)[:, None]).T @ design + stiff + 1e-6 * np.eye(len(weights))
        new = weights + DAMP * np.clip(np.linalg.solve(curve, gradient), -1, 1)
        new = _rising(new, shape)
        new[0] += _constant(design @ new, many, density)
        moved, weights = np.abs(new - weights).max(), new
        if moved < 1e-5:
            break
    off = weights - start
    off[0] = 0.0
    return weights, float((many * np.log(rate)).sum() - 0.5 * off @ stiff @ off)


def _rising(weights: Float, shape: tuple[int, ...]) -> Float:
    """More evidence is never less likely."""
    out, at = weights.copy(), 1
    for size in shape:
        out[at : at + size] = isotonic_regression(out[at : at + size]).x
        at += size
    return out


def _constant(odds: Float, many: Float, density: float) -> float:
    """What brings the mean probability to the density."""
    low, high = -60.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        mean = (many / (1 + np.exp(-np.clip(odds + middle, -50, 50)))).sum() / many.sum()
        low, high = (middle, high) if mean < density else (low, middle)
    return low
