"""Nodes drawn by edges, with how likely each pair was to be drawn: enough true edges where a graph is sparse.

Half of the nodes are the ends of M of the E edges, drawn without replacement; the others are m0 of the n nodes. All
pairs among them are attacked. With a(d) = prod_{i<d} (1 - M/(E-i)), the chance that none of d given edges is drawn, and
A_uv = 1 for an edge,

    P(u, v drawn) = 1 - q1 a(d_u) - q1 a(d_v) + q2 a(d_u + d_v - A_uv),

q1 and q2 the chances that m0 nodes miss one or two given ones. Each pair weighs 1/P (Horvitz & Thompson 1952), and the
weights of edges and of non-edges are brought to the numbers of both in the graph, which its owner knows (Hajek 1971):
figures are consistent for all pairs of the graph, as if every node had been attacked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs, sample_distinct
from edgeveil.metrics.ties import group
from edgeveil.seeds import stream

__all__ = ["EdgeDraw", "draw_by_edges", "leakage_error"]

Int = NDArray[np.int64]
Float = NDArray[np.float64]
NEAR = 0.25  # of the named pairs: how far around the last of them its surroundings reach


@dataclass(frozen=True, eq=False)
class EdgeDraw:
    """The drawn nodes, and from how many edges and nodes they come."""

    nodes: Int
    edges: int
    others: int

    def chances(self, graph: Graph, pairs: Any) -> Float:
        """Probability that both nodes of each pair [2, P] are drawn. Differences of small chances keep their digits."""
        u, v = np.asarray(pairs)
        du, dv = graph.degrees[u], graph.degrees[v]
        union = du + dv - graph.has_edges(u, v)
        met = self._met(graph.num_edges, int(union.max(initial=0)))
        n, m = graph.num_nodes, self.others
        one, both = m / n, m * (m - 1) / (n * (n - 1))
        either = 2 * one - both
        first, second = one + (1 - one) * met[du], one + (1 - one) * met[dv]
        return np.asarray(first + second - (either + (1 - either) * met[union]), np.float64)

    def _met(self, edges: int, most: int) -> Float:
        """1 - a(d) for d = 0..most: the chance that one of d given edges is drawn."""
        left = np.maximum(edges - np.arange(most), self.edges)
        with np.errstate(divide="ignore"):
            return np.concatenate([[0.0], -np.expm1(np.cumsum(np.log1p(-self.edges / left)))])

    def weights(self, graph: Graph, pairs: Any, edges: int) -> Float:
        """Weights of all attacked pairs: those of edges add up to `edges`, the others to the graph's non-edges."""
        truth = graph.has_edges(*np.asarray(pairs))
        weights = 1 / self.chances(graph, pairs)
        for part, total in ((truth, edges), (~truth, num_pairs(graph.num_nodes) - graph.num_edges)):
            if part.any():
                weights[part] *= total / weights[part].sum()
        return weights


def draw_by_edges(graph: Graph, size: int, seed: int) -> EdgeDraw | None:
    """At most `size` nodes; None where there are no more, so that all of them are attacked."""
    if graph.num_nodes <= size:
        return None
    rng = stream(seed, "nodes by edges")
    edges = min(size // 4, graph.num_edges)
    others = size - 2 * edges
    ends = graph.edge_index[:, sample_distinct(graph.num_edges, edges, rng)]
    own = sample_distinct(graph.num_nodes, others, rng)
    return EdgeDraw(np.unique(np.concatenate([ends.ravel(), own])).astype(np.int64), edges, others)


def leakage_error(scores: Any, truth: Any, weights: Float, rest: tuple[float, float] | None = None) -> float:
    """Standard error of the leakage under weights, linearised.

    The number E of named pairs is fixed; the score t of the last one is not. If a share r of the pairs around t are
    edges, L - L0 = (1-r) e_T - r (N/E) e_F for errors e_T, e_F of the shares of edges and of the N non-edges above t.
    """
    groups = group(scores, truth, rest, weights)
    edges = groups.positives
    if not edges or not groups.negatives:
        return math.nan
    near = (groups.hits((1 + NEAR) * edges) - groups.hits((1 - NEAR) * edges)) / (2 * NEAR * edges)
    share = min(max(near, 0.0), 1.0)
    s, t = np.asarray(scores), np.asarray(truth, bool)
    order = np.argsort(-s, kind="stable")
    named = np.zeros(len(s), bool)
    named[order] = np.cumsum(weights[order]) <= edges * (1 + 1e-9)
    found = _variance(named[t], weights[t], edges)
    wrong = _variance(named[~t], weights[~t], groups.negatives)
    return math.sqrt((1 - share) ** 2 * found + (share * groups.negatives / edges) ** 2 * wrong)


def _variance(named: NDArray[np.bool_], weights: Float, total: float) -> float:
    """Of the weighted share of the named."""
    mean = float(weights @ named) / total
    return float((weights**2) @ (named - mean) ** 2) / total**2
