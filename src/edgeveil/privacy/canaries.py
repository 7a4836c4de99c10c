"""One-run audits: plant edges by coin, look at one release, guess the coins (Steinke, Nasr and Jagielski 2023).

Canaries are vertex-disjoint non-edges, so they hardly disturb one another, and coins make homophily useless: nothing
but the release itself can tell how they fell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.compact import edge_ranks
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs, rank, sample_distinct
from edgeveil.privacy.audit_bounds import one_run_bound

__all__ = ["Canaries", "OneRun", "audit_scores", "by_rank", "make_guesses", "plant", "synthetic_graph"]

Int = NDArray[np.int64]


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


def synthetic_graph(num_nodes: int = 20_000, num_edges: int = 100_000, seed: int = 0) -> Graph:
    """A uniformly random graph for audits of mechanisms; it needs neither features nor labels."""
    rng = np.random.default_rng(seed)
    empty = Graph.from_edges(np.empty((2, 0), np.int64), num_nodes=num_nodes, name="synthetic")
    return empty.with_edge_ranks(sample_distinct(num_pairs(num_nodes), num_edges, rng))


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
    return OneRun(len(coins), total, right, one_run_bound(right, total, len(coins), miss, delta))
