"""What an auditor learns from LPGNet's statistic: the hooks behind ``edgeveil verify lpgnet``.

The auditor is as strong as differential privacy allows for: it knows the clusters and every edge but the one in
question. Training on the vectors is post-processing and cannot add to what they show.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.degree_vectors import SLICES
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import rank
from edgeveil.privacy.budget import exact

__all__ = ["Perturb", "audit_cases", "canary_scores", "outcomes"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Perturb = Callable[[Int, Fraction], Float]
"""Noisy counts of one query: exact counts and the query's epsilon."""
CLUSTERS = 2


def audit_cases() -> list[tuple[str, Graph, Graph]]:
    """Neighbouring graphs that differ in the edge {0, 1}: alone, on a path, and in a complete graph."""
    path = [(1, 2), (2, 3), (3, 4), (4, 5)]
    full = [(u, v) for u in range(6) for v in range(u) if (u, v) != (1, 0)]
    return [
        (f"6 nodes, {name}", _graph([(0, 1), *edges]), _graph(edges))
        for name, edges in (("one edge or none", []), ("path or broken path", path), ("complete or not quite", full))
    ]


def _graph(edges: list[tuple[int, int]]) -> Graph:
    return Graph.from_edges(np.array(edges, np.int64).reshape(-1, 2).T, num_nodes=6, name="6 nodes")


def outcomes(
    graph: Graph, perturb: Perturb, epsilon: float, layers: int, runs: int, repeats: bool
) -> Sequence[Hashable]:
    """Signs of the evidence for the edge {0, 1} in its two counts of every layer: all that the likelihood ratio uses.

    `repeats`: look at contrasts between slices of nodes instead, where reused noise cancels.
    """
    pair = np.array([[0], [1]])
    known = _setup(graph, pair)
    cost = exact(epsilon) / layers
    if repeats:
        return [tuple(_contrasts(known, pair, perturb(known.true, cost)).ravel()) for _ in range(runs)]
    rows, columns = (part[:, 0] for part in known.cells(pair))
    parts = []
    for _ in range(layers):
        noisy = perturb(np.tile(known.true, (runs, 1)), cost).reshape(runs, *known.true.shape)
        parts.append(noisy[:, rows, columns] - known.expected[rows, columns] - 0.5)
    return [row.tobytes() for row in np.sign(np.concatenate(parts, axis=1)).astype(np.int8)]


def canary_scores(graph: Graph, pairs: Int, perturb: Perturb, epsilon: float, layers: int, repeats: bool) -> Float:
    """Log-likelihood ratio for each pair from one release, or the contrast between slices where noise is reused.

    Pairs whose counts do not all agree abstain: a few sure guesses prove more than many unsure ones.
    """
    known = _setup(graph, pairs)
    cost = exact(epsilon) / layers
    if repeats:
        return np.asarray(_contrasts(known, pairs, perturb(known.true, cost)).sum(axis=0))
    at = known.cells(pairs)
    found = [np.clip(perturb(known.true, cost)[at] - known.expected[at] - 0.5, -0.5, 0.5) for _ in range(layers)]
    total = np.concatenate(found).sum(axis=0)  # between -layers and layers; the log ratio is epsilon/layers times this
    return np.where(np.abs(total) > layers - 1e-9, total * epsilon / layers, 0.0)


class _Known(NamedTuple):
    """What the auditor knows: clusters, and the counts without any of the pairs; `true` is what the mechanism sees."""

    clusters: Int
    true: Int
    expected: Int

    def cells(self, pairs: Int) -> tuple[Int, Int]:
        """Row and column of the two counts that each pair would raise by one."""
        return pairs, self.clusters[pairs[::-1]]


def _setup(graph: Graph, pairs: Int) -> _Known:
    clusters = np.arange(graph.num_nodes) % CLUSTERS
    u, v = np.minimum(*pairs), np.maximum(*pairs)
    without = graph.with_edge_ranks(np.setdiff1d(graph.edge_ranks, rank(u, v, graph.num_nodes)))
    return _Known(clusters, cluster_degrees(graph, clusters, CLUSTERS), cluster_degrees(without, clusters, CLUSTERS))


def _contrasts(known: _Known, pairs: Int, noisy: Float) -> Float:
    """[2, m] for reused noise: +1 where a count stands out from its copies in other slices, -1 where not, 0 unknown.

    Counts at 0 may have been clipped and say nothing.
    """
    rows, columns = known.cells(pairs)
    n = len(noisy)
    noise: Float = np.where(noisy > 0, noisy - known.expected, np.inf)
    step = -(-n // SLICES)
    copies = np.stack([noise[np.minimum(rows % step + k * step, n - 1), columns] for k in range(SLICES)])
    copies[np.arange(SLICES)[:, None, None] == rows // step] = np.inf
    mine = noise[rows, columns]
    gap = np.abs(np.where(np.isinf(copies) | np.isinf(mine), 9.0, copies) - np.where(np.isinf(mine), 0.0, mine))
    present, absent = np.abs(gap - 1).min(axis=0) < 1e-6, gap.min(axis=0) < 1e-6
    return np.asarray(present, np.float64) - np.asarray(absent, np.float64)
