"""One-run audits: plant edges by coin, look at one release, guess the coins (Steinke, Nasr and Jagielski 2023).

Canaries are vertex-disjoint non-edges, so they hardly disturb one another, and coins make homophily useless: nothing
but the release itself can tell how they fell.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import nth_missing, num_pairs, rank, sample_distinct, unrank
from edgeveil.graph.upper_triangle import edge_ranks
from edgeveil.privacy.audit_bounds import one_run_bound

__all__ = [
    "Canaries",
    "OneRun",
    "audit_scores",
    "by_rank",
    "degree_strata",
    "heavy_tailed_graph",
    "make_guesses",
    "matched_nodes",
    "plant",
    "plant_pairs",
    "synthetic_graph",
]

Int = NDArray[np.int64]
Float = NDArray[np.float64]


class Canaries(NamedTuple):
    """A graph in which the pairs whose coin is true are edges."""

    graph: Graph
    pairs: Int  # [2, m], u < v, vertex-disjoint
    coins: NDArray[np.bool_]


class OneRun(NamedTuple):
    """Outcome of one audit."""

    canaries: int
    guesses: int
    right: int
    lower_bound: float
    ceiling: float


def synthetic_graph(num_nodes: int = 20_000, num_edges: int = 100_000, seed: int = 0) -> Graph:
    """A uniformly random graph for audits of mechanisms; it needs neither features nor labels."""
    rng = np.random.default_rng(seed)
    empty = Graph.from_edges(np.empty((2, 0), np.int64), num_nodes=num_nodes, name="synthetic")
    return empty.with_edge_ranks(sample_distinct(num_pairs(num_nodes), num_edges, rng))


def heavy_tailed_graph(num_nodes: int, num_edges: int, seed: int = 0) -> Graph:
    """A random graph with a few hubs and many nodes of low degree: ends are drawn with weights 1/rank, shuffled."""
    rng = np.random.default_rng(seed)
    empty = Graph.from_edges(np.empty((2, 0), np.int64), num_nodes=num_nodes, name="heavy-tailed synthetic")
    weights = rng.permutation(1 / np.arange(1, num_nodes + 1))
    return empty.with_edge_ranks(np.sort(_weighted_ranks(num_nodes, num_edges, weights, weights, rng)))


def _weighted_ranks(n: int, count: int, first: Float, second: Float, rng: np.random.Generator) -> Int:
    """Up to `count` distinct pairs in random order, their ends drawn by two weights; fewer if those run dry."""
    ends = [np.cumsum(w) / w.sum() for w in (first, second)]
    found = np.empty(0, np.int64)
    for _ in range(20):
        pairs = np.sort([np.minimum(np.searchsorted(e, rng.random(2 * count)), n - 1) for e in ends], axis=0)
        pairs = pairs[:, pairs[0] != pairs[1]]
        fresh = rank(pairs[0], pairs[1], n)
        both = np.concatenate([found, fresh])
        found = both[np.sort(np.unique(both, return_index=True)[1])]
        if len(found) >= count:
            break
    return found[:count]


def matched_nodes(epsilon: float, edges: int, most: int = 60_000) -> int:
    """Number of nodes at which `edges` edges have the density 1/(1+e^epsilon).

    There EdgeRand lies on as many pairs as there are edges, and LapGraph's cut lies where one kept pair says most.
    """
    pairs = edges * (1 + math.exp(min(epsilon, 40.0)))
    return min(most, math.ceil((1 + math.sqrt(1 + 8 * pairs)) / 2) + 1)


def plant_pairs(graph: Graph, count: int, rng: np.random.Generator) -> Canaries:
    """Choose `count` non-edges, half of them at nodes of high degree, and insert each by a fair coin.

    Unlike those of `plant` they may share nodes: more of them fit, and hubs get many.
    """
    n, free = graph.num_nodes, num_pairs(graph.num_nodes) - graph.num_edges
    if count > free:
        raise InputError(f"{graph.name} has {free} non-edges, too few for {count} canaries; ask for fewer")
    weights = graph.degrees.astype(np.float64) + 1e-9
    hubs = _weighted_ranks(n, count // 2, weights, np.ones(n), rng) if count > 1 else np.empty(0, np.int64)
    hubs = np.sort(hubs[~np.isin(hubs, edge_ranks(graph))])
    rest = nth_missing(
        sample_distinct(free - len(hubs), count - len(hubs), rng), np.sort(np.concatenate([edge_ranks(graph), hubs]))
    )
    ranks = np.sort(np.concatenate([hubs, rest]))
    coins = rng.random(count) < 0.5
    planted = graph.with_edge_ranks(np.sort(np.concatenate([edge_ranks(graph), ranks[coins]])))
    return Canaries(planted, np.stack(unrank(ranks, n)), coins)


def degree_strata(graph: Graph, pairs: Int) -> Int:
    """Public group of every pair: the power of two below the larger degree of its ends."""
    out: Int = np.log2(np.maximum(*graph.degrees[pairs]) + 1).astype(np.int64)
    return out


def plant(graph: Graph, count: int, rng: np.random.Generator) -> Canaries:
    """Choose `count` vertex-disjoint non-edges at random and insert each by a fair coin."""
    nodes = rng.permutation(graph.num_nodes)[: graph.num_nodes // 2 * 2].reshape(2, -1)
    pairs = np.sort(nodes, axis=0)
    pairs = pairs[:, ~graph.has_edges(*pairs)][:, :count]
    if pairs.shape[1] < count:
        raise InputError(
            f"{graph.name} has room for about {pairs.shape[1]} vertex-disjoint canaries, not {count}; "
            "ask for fewer or use a larger graph"
        )
    coins = rng.random(count) < 0.5
    fresh = rank(pairs[0, coins], pairs[1, coins], graph.num_nodes)
    return Canaries(graph.with_edge_ranks(np.sort(np.concatenate([edge_ranks(graph), fresh]))), pairs, coins)


def by_rank(scores: Any) -> NDArray[np.float64]:
    """Signed scores from unsigned ones: each score's average rank, centred, so half speak for "in", half for "out"."""
    scores = np.asarray(scores, np.float64)
    ordered = np.sort(scores)
    middle = (np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")) / 2
    out: NDArray[np.float64] = middle - len(scores) / 2
    return out


def make_guesses(scores: Any, limit: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """+1 (in), -1 (out) or 0 (abstain) per canary: the `limit` scores of largest size, ties in random order.

    A score of zero abstains. The bound holds given the guesses, so how many there are may depend on the release,
    never on the coins; `limit` is fixed before anything is looked at.
    """
    scores = np.asarray(scores, np.float64)
    if not np.isfinite(scores).all():
        raise InputError("canary scores must be finite numbers; one is NaN or infinite")
    order = np.lexsort((rng.random(len(scores)), -np.abs(scores)))[:limit]
    out = np.zeros(len(scores), np.int8)
    out[order] = np.sign(scores[order])
    return out


def audit_scores(
    scores: Any, coins: Any, *, limit: int, miss: float, rng: np.random.Generator, delta: float = 0.0
) -> OneRun:
    """Guess coins from signed scores and bound epsilon from the number of right guesses."""
    coins = np.asarray(coins, bool)
    if np.shape(scores) != coins.shape:
        raise InputError(f"{np.shape(scores)} scores for {coins.shape} coins; give one score per canary")
    guesses = make_guesses(scores, limit, rng)
    made = guesses != 0
    right = int(((guesses > 0) == coins)[made].sum())
    total = int(made.sum())
    bound, most = (one_run_bound(hits, total, len(coins), miss, delta) for hits in (right, total))
    return OneRun(len(coins), total, right, bound, most)
