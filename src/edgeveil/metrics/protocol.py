"""Whom the papers attack and how they count: node subsets, pair samples and density beliefs.

1. LinkTeller §V-D, inductive: 500 nodes of low, unconstrained or high degree, all pairs among them.
2. He et al. / LinkTeller App. G5, transductive: all edges and as many non-edges.
3. LPGNet §5.1 and GraphPrivatizer §5: 500 edges and 500 non-edges of the unperturbed graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import nth_missing, num_pairs, sample_distinct, unrank
from edgeveil.metrics.ranking import at_count, ranking
from edgeveil.registry import canonical
from edgeveil.seeds import stream

__all__ = [
    "BALANCED_BELIEFS",
    "BELIEFS",
    "SUBSET_SEEDS",
    "THRESHOLDS",
    "PairSample",
    "balanced_pairs",
    "belief_figures",
    "candidates",
    "round_density",
    "sampled_pairs",
    "subset",
    "subset_truth",
]

Int = NDArray[np.int64]
Degree = Literal["low", "unconstrained", "high"]

SUBSET_SEEDS = (42, 2, 82)
BELIEFS: Mapping[str, float] = {"k/4": 0.25, "k/2": 0.5, "k": 1.0, "2k": 2.0, "4k": 4.0}
BALANCED_BELIEFS: Mapping[str, float] = {"k/4": 0.25, "k/2": 0.5, "k": 1.0, "1.5k": 1.5}


@dataclass(frozen=True)
class Threshold:
    """Degrees that count as low (<=) and high (>=); `loops`: the published count includes the self-loop."""

    low: int
    high: int
    loops: bool = False


_TWITCH = Threshold(5, 10)
THRESHOLDS: Mapping[str, Threshold] = {
    **{f"twitch-{c}": _TWITCH for c in ("es", "ru", "de", "fr", "engb")},
    "twitch-ptbr": Threshold(10, 10),
    "flickr": Threshold(15, 30),
    "ppi": Threshold(15, 30),
    "cora": Threshold(3, 4, loops=True),
    "citeseer": Threshold(3, 3, loops=True),
    "pubmed": Threshold(10, 10, loops=True),
}


def thresholds(name: str) -> Threshold | None:
    """The published thresholds of a dataset (a twin uses its original's), or None."""
    return THRESHOLDS.get(canonical(name).removesuffix("-twin"))


def subset(
    graph: Graph,
    degree: Degree = "unconstrained",
    seed: int = 42,
    size: int = 500,
    limits: tuple[int, int] | None = None,
) -> Int:
    """Protocol 1: the authors' very nodes, in the order they were drawn (their pair score depends on it).

    `limits` = (d_low, d_high) overrides the dataset's thresholds; a graph without published ones uses the 25 % and
    75 % points of its degrees.
    """
    chosen, limits = _by_degree(graph, degree, limits)
    if len(chosen) < size:
        raise InputError(
            f"{graph.name} has {len(chosen)} nodes of {degree} degree (low <= {limits[0]}, high >= {limits[1]}), "
            f"fewer than the {size} asked for; pass a smaller size or other limits"
        )
    legacy = np.random.RandomState(seed)  # the generator behind the published subsets
    return legacy.choice(chosen, size, replace=False).astype(np.int64)


def candidates(graph: Graph, degree: Degree = "unconstrained", limits: tuple[int, int] | None = None) -> Int:
    """The nodes of a degree class: all that `subset` draws from."""
    return _by_degree(graph, degree, limits)[0]


def _by_degree(graph: Graph, degree: Degree, limits: tuple[int, int] | None) -> tuple[Int, tuple[int, int]]:
    if degree not in ("low", "unconstrained", "high"):
        raise UnknownNameError("degree class", str(degree), ("low", "unconstrained", "high"))
    known = thresholds(graph.origin)
    degrees = graph.degrees + (known is not None and known.loops)
    if limits is None:
        limits = (known.low, known.high) if known else _quartiles(degrees)
    keep = {"low": degrees <= limits[0], "high": degrees >= limits[1]}.get(degree)
    return (np.arange(graph.num_nodes) if keep is None else np.flatnonzero(keep)), limits


def _quartiles(degrees: Int) -> tuple[int, int]:
    low, high = np.quantile(degrees, [0.25, 0.75])
    return math.floor(low), math.ceil(high)


def subset_truth(graph: Graph, pairs: Any) -> NDArray[np.bool_]:
    """Which of the scored pairs [2, P] are edges of the unperturbed graph."""
    return graph.has_edges(pairs[0], pairs[1])


def round_density(density: float) -> float:
    """One significant digit, half up: 0.00451 -> 0.005, 0.0035 -> 0.004."""
    if not density > 0:
        return 0.0
    power = math.floor(math.log10(density))
    digit = math.floor(density / 10.0**power + 0.5 + 1e-9)
    return float(f"{digit}e{power}")


def belief_figures(
    scores: Any,
    truth: Any,
    beliefs: Mapping[str, float] = BELIEFS,
    *,
    rounded: bool = True,
    rest: tuple[float, float] | None = None,
    weights: Any = None,
) -> dict[str, dict[str, float]]:
    """One row of figures per belief: ranking figures, and precision, recall and F1 of ceil(belief x pairs) pairs.

    The density is edges over pairs among the attacked; `rounded` takes it to one digit, as LinkTeller does.
    ``leakage``, the same at every belief, is the share of the edges found by naming exactly as many pairs as there
    are edges. With `weights` a pair stands for so many, in every count.
    """
    t = np.asarray(truth)
    w = np.ones(len(t)) if weights is None else np.asarray(weights)
    pairs = float(w.sum()) + sum(rest or ())
    edges = float(w[t.astype(bool)].sum()) + (rest[0] if rest else 0)
    density = round_density(edges / pairs) if rounded else edges / pairs
    common = ranking(scores, truth, rest, weights)
    common |= {"leakage": at_count(scores, truth, edges, rest, weights)["recall"]}
    rows = {}
    for name, factor in beliefs.items():
        predicted = min(math.ceil(factor * density * pairs - 1e-9), pairs)
        rows[name] = common | at_count(scores, truth, predicted, rest, weights)
    return rows


@dataclass(frozen=True)
class PairSample:
    """Node pairs [2, P] to attack and which of them are edges."""

    pairs: Int
    truth: NDArray[np.bool_]


def _pairs(graph: Graph, edges: Int, others: Int) -> PairSample:
    truth = np.repeat([True, False], [edges.shape[1], others.shape[1]])
    return PairSample(np.concatenate([edges, others], axis=1), truth)


def balanced_pairs(graph: Graph, seed: int = 0) -> PairSample:
    """Protocol 2: every edge once and as many distinct uniform non-edges."""
    return sampled_pairs(graph, graph.num_edges, graph.num_edges, seed)


def sampled_pairs(
    graph: Graph, edges: int = 500, non_edges: int = 500, seed: int = 0, variant: str = "correct"
) -> PairSample:
    """Protocol 3: uniform edges and uniform non-edges, without repeats.

    ``variant="published"`` re-creates LPGNet's sampling: a random node and then one of its neighbours (edges of
    low-degree nodes weigh more), non-edges that may repeat and may pair a node with itself.
    """
    rng = stream(seed, "pairs", variant)
    if variant == "published":
        return _node_first(graph, edges, non_edges, rng)
    if variant != "correct":
        raise UnknownNameError("variant of the pair sample", variant, ("correct", "published"))
    if edges > graph.num_edges:
        raise InputError(f"asked for {edges} edges, but {graph.name} has {graph.num_edges}; ask for fewer")
    free = num_pairs(graph.num_nodes) - graph.num_edges
    if non_edges > free:
        raise InputError(f"asked for {non_edges} non-edges, but {graph.name} has {free}; ask for fewer")
    chosen = graph.edge_index[:, sample_distinct(graph.num_edges, edges, rng)]
    ranks = nth_missing(sample_distinct(free, non_edges, rng), graph.edge_ranks)
    return _pairs(graph, chosen, np.stack(unrank(ranks, graph.num_nodes)))


def _node_first(graph: Graph, edges: int, non_edges: int, rng: np.random.Generator) -> PairSample:
    linked = np.flatnonzero(graph.degrees)
    if not len(linked) and edges:
        raise InputError(f"{graph.name} has no edge to sample")
    u = rng.choice(linked, edges) if edges else np.empty(0, np.int64)
    a = graph.adjacency
    v = a.indices[a.indptr[u] + rng.integers(0, np.maximum(graph.degrees[u], 1))].astype(np.int64)
    other = np.empty((2, 0), np.int64)
    while other.shape[1] < non_edges:
        fresh = rng.integers(0, graph.num_nodes, (2, non_edges))
        other = np.concatenate([other, fresh[:, ~graph.has_edges(fresh[0], fresh[1])]], axis=1)
    return _pairs(graph, np.stack([u, v]).astype(np.int64), other[:, :non_edges])
