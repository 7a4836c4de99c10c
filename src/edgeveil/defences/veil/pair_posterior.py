"""How likely an observed pair is an edge, when most observed pairs are lies that randomised response told.

Observed pairs mix true edges, a share p of them, with pairs that lied, which are spread like random pairs. With
g(x) = density of public pair features x among edges over that among random pairs, Bayes' rule gives
P(edge | observed, x) = p g / (p g + 1 - p). log g is a sum of one step function per feature; expectation-maximisation
alternates it with the posteriors. p follows from the number of observed pairs alone: with flip probability f and P
pairs, observed = f (P - E) + (1 - f) E. Everything here is post-processing of the noisy pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from edgeveil.graph.feature_neighbours import leading_directions, unit_rows
from edgeveil.graph.pairs import num_pairs, unrank
from edgeveil.graph.row_products import row_products

__all__ = ["FAINT", "Observed", "PublicPairs", "edge_share", "fit_posterior", "told"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
QUANTILES = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995)
SAMPLE = 100_000  # random pairs, and observed pairs that the model is fitted to
ROUNDS = 4
FAINT = 0.03  # share of true edges in the weighted graph below which it is not built
SMOOTH, RIDGE = 4.0, 0.5  # penalties: jumps between neighbouring steps, and size
_CHUNK = 1 << 19


class Observed(NamedTuple):
    """Observed pairs u < v out of `drawn` (some may have been thinned away), under flips of that probability."""

    u: Int
    v: Int
    num_nodes: int
    flip: float
    drawn: int


def edge_share(observed: Observed) -> float:
    """Share of true edges among the kept pairs, as if none had been thinned away."""
    pairs, flip = num_pairs(observed.num_nodes), observed.flip
    edges = max((observed.drawn - flip * pairs) / (1 - 2 * flip), 1.0)
    return float(np.clip((1 - flip) * edges / max(len(observed.u), 1), 1e-6, 1 - 1e-6))


@dataclass(frozen=True, eq=False)
class PublicPairs:
    """Facts about pairs that cost nothing: likeness of features and of predicted classes."""

    rows: Any  # unit feature rows
    chances: Float  # class probabilities of every node, from the edge-free base

    @classmethod
    def of(cls, x: Any, chances: Float) -> PublicPairs:
        return cls(unit_rows(x), chances)

    def cosine(self, u: Int, v: Int) -> Float:
        """Of the feature rows."""
        return row_products(self.rows, u, v)

    def agreement(self, u: Int, v: Int) -> Float:
        """Chance that both ends have the same class."""
        return np.asarray(np.einsum("ij,ij->i", self.chances[u], self.chances[v]), np.float64)

    def classes(self, u: Int, v: Int) -> Int:
        """Number of the unordered pair of likeliest classes."""
        best = self.chances.argmax(axis=1)
        low, high = np.minimum(best[u], best[v]), np.maximum(best[u], best[v])
        return np.asarray(low * self.chances.shape[1] + high, np.int64)

    @cached_property
    def _short(self) -> Any:
        rows = leading_directions(self.rows, 0).astype(np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    def score(self, u: Int, v: Int) -> Float:
        """By which pairs are thinned before they are stored: cosine in the leading directions plus agreement."""
        out = self.agreement(u, v)
        for at in range(0, len(u), _CHUNK):
            part = slice(at, at + _CHUNK)
            out[part] += np.einsum("ij,ij->i", self._short[u[part]], self._short[v[part]])
        return out


@dataclass(frozen=True, eq=False)
class _Steps:
    """A step function of one number; `edges` are its jumps. Classes, which have no order, have steps of their own."""

    edges: Float | None
    size: int

    @classmethod
    def of(cls, random: Float) -> _Steps:
        edges = np.unique(np.quantile(random, QUANTILES))
        return cls(edges, len(edges) + 1)

    def bins(self, values: NDArray[Any]) -> Int:
        if self.edges is None:
            return values.astype(np.int64)
        return np.searchsorted(self.edges, values, side="left").astype(np.int64)


class _LogRatio:
    """log g as a sum of step functions, fitted as a logistic regression of weighted edges against random pairs."""

    def __init__(self, steps: Sequence[_Steps]) -> None:
        self._steps = steps
        self._starts = np.cumsum([0, *(s.size for s in steps)])
        self._values = np.zeros(self._starts[-1])
        self._ordered = np.concatenate([np.full(s.size, s.edges is not None) for s in steps])

    def __call__(self, bins: Sequence[Int]) -> Float:
        out = np.zeros(len(bins[0]))
        for start, own in zip(self._starts, bins, strict=False):
            out += self._values[start + own]
        return out

    def fit(self, seen: Sequence[Int], weights: Float, random: Sequence[Int], times: Float) -> None:
        """Edges with these weights against random pairs that stand for `times` pairs; both weigh one half in all."""
        count = max(float(weights.sum()), 1.0)
        mine, theirs = weights / weights.sum(), times / times.sum()
        joint = np.diff(self._starts)

        def loss(values: Float) -> tuple[float, Float]:
            self._values = values
            a, b = self(seen), self(random)
            value = float(mine @ np.logaddexp(0.0, -a) + theirs @ np.logaddexp(0.0, b))
            pull, push = -mine / (1 + np.exp(a)), theirs / (1 + np.exp(-b))
            slope = np.concatenate([
                np.bincount(x, pull, n) + np.bincount(y, push, n) for x, y, n in zip(seen, random, joint, strict=True)
            ])  # fmt: skip
            jump = np.diff(values) * (self._ordered[1:] & self._ordered[:-1] & self._inside)
            value += (SMOOTH * float(jump @ jump) + RIDGE * float(values @ values)) / count
            slope += 2 * (RIDGE * values + SMOOTH * (np.append(0.0, jump) - np.append(jump, 0.0))) / count
            return value, slope

        self._values = minimize(loss, self._values, jac=True, method="L-BFGS-B", options={"maxiter": 20}).x

    @property
    def _inside(self) -> NDArray[np.bool_]:
        """Which neighbouring coefficients belong to one feature."""
        out = np.ones(self._starts[-1] - 1, dtype=bool)
        out[self._starts[1:-1] - 1] = False
        return out


def fit_posterior(observed: Observed, public: PublicPairs, rng: np.random.Generator, least: float | None) -> Float:
    """P(edge) of every observed pair; `least` is the score below which pairs were thinned.

    Twice: from public facts, then with common neighbours and degrees in the graph that the first time gave. Where that
    graph would be nearly all lies (`FAINT`) no pair is worth hearing, and all get 0.
    """
    share = edge_share(observed)
    u, v = _random_pairs(observed.num_nodes, public, rng, least)
    seen, random = _public(public, observed.u, observed.v), _public(public, u, v)
    classes = public.chances.shape[1] ** 2
    first = _maximise(seen, random, [None, None, classes], share, rng)
    if told(first) < FAINT:
        return np.zeros(len(first))
    graph = _weighted(observed, first)
    seen += _structural(graph, observed.u, observed.v, first)
    random += _structural(graph, u, v, np.zeros(len(u)))
    return _maximise(seen, random, [None, None, classes, None, None], share, rng)


def told(chance: Float) -> float:
    """Expected share of true edges in a graph that weighs every pair by its chance c of being one: sum c^2 / sum c."""
    return float(chance @ chance / max(chance.sum(), 1e-300))


def _random_pairs(n: int, public: PublicPairs, rng: np.random.Generator, least: float | None) -> tuple[Int, Int]:
    """Uniform pairs, of those above the score if pairs were thinned."""
    found_u, found_v, have = [], [], 0
    wanted = min(SAMPLE, 4 * num_pairs(n))
    for _ in range(50):
        u, v = unrank(rng.integers(0, num_pairs(n), wanted), n)
        keep = slice(None) if least is None else public.score(u, v) >= least
        found_u.append(u[keep])
        found_v.append(v[keep])
        have += len(found_u[-1])
        if have >= wanted:
            break
    return np.concatenate(found_u)[:wanted], np.concatenate(found_v)[:wanted]


def _public(public: PublicPairs, u: Int, v: Int) -> list[NDArray[Any]]:
    return [public.cosine(u, v), public.agreement(u, v), public.classes(u, v)]


def _weighted(observed: Observed, weights: Float) -> sp.csr_matrix:
    n = observed.num_nodes
    upper = sp.csr_matrix((weights, (observed.u, observed.v)), shape=(n, n))
    return (upper + upper.T).tocsr()


def _structural(graph: sp.csr_matrix, u: Int, v: Int, own: Float) -> list[NDArray[Any]]:
    """Weighted common neighbours over the root of the degrees, and the degrees; a pair's own weight stays out."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    pull = np.sqrt(np.maximum(degrees[u] - own, 0.0) * np.maximum(degrees[v] - own, 0.0))
    return [row_products(graph, u, v) / np.sqrt(pull + 1.0), pull]


def _maximise(
    seen: Sequence[NDArray[Any]],
    random: Sequence[NDArray[Any]],
    sizes: Sequence[int | None],
    share: float,
    rng: np.random.Generator,
) -> Float:
    """Expectation-maximisation on a sample, then the posterior of every observed pair."""
    steps = [_Steps.of(r) if size is None else _Steps(None, size) for r, size in zip(random, sizes, strict=True)]
    theirs, often = _grouped(steps, [s.bins(r) for s, r in zip(steps, random, strict=True)])
    mine = [s.bins(x) for s, x in zip(steps, seen, strict=True)]
    count = len(mine[0])
    few = np.arange(count) if count <= SAMPLE else rng.choice(count, SAMPLE, replace=False)
    part, times = _grouped(steps, [b[few] for b in mine])
    ratio = _LogRatio(steps)
    ratio.fit(part, times, theirs, often)  # all observed pairs against random ones: the right direction to start
    for _ in range(ROUNDS):
        ratio.fit(part, times * _chance(ratio(part), share), theirs, often)
    return _chance(ratio(mine), share)


def _grouped(steps: Sequence[_Steps], bins: Sequence[Int]) -> tuple[list[Int], Float]:
    """Distinct combinations of steps, and how many pairs have each: the likelihood knows pairs by these alone."""
    codes = np.ravel_multi_index(bins, [s.size for s in steps])
    _, first, times = np.unique(codes, return_index=True, return_counts=True)
    return [b[first] for b in bins], times.astype(np.float64)


def _chance(log_ratio: Float, share: float) -> Float:
    odds = np.log(share / (1 - share)) + log_ratio
    out: Float = 1 / (1 + np.exp(-np.clip(odds, -60.0, 60.0)))
    return out
