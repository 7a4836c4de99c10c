"""Cluster-degree vectors: how many neighbours every node has in every cluster (LPGNet Alg. 4, before the noise).

Sensitivity. Adding or removing one undirected edge {u, v} changes row u by one in the column of v's cluster and row v
by one in the column of u's cluster, and nothing else, whatever the clusters are. A graph has no loops, so u and v are
different rows and the two cells are different cells, even when both nodes are in one cluster: exactly two counts
change, each by exactly 1. The L1 change of the whole n x C matrix is 2 and its L2 change the root of 2. This needs
every edge to count once, so the file reader refuses to count duplicates twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import GraphError
from edgeveil.graph.edge_chunks import CHUNK, edge_chunks, simple_chunks
from edgeveil.graph.graph import Graph

__all__ = [
    "CELLS",
    "SENSITIVITY",
    "check_clusters",
    "cluster_degrees",
    "cluster_degrees_from_file",
    "count_neighbours",
    "local_cluster_degrees",
]

SENSITIVITY = 2  # in L1
CELLS = 2  # counts that change, each by 1
Int = NDArray[np.int64]
Kind = TypeVar("Kind", bound=np.integer[Any])
Blocks = Iterable[tuple[NDArray[Any], NDArray[Any]]]


def check_clusters(labels: Any, num_nodes: int, num_clusters: int) -> Int:
    """One cluster number in 0..num_clusters-1 for every node."""
    clusters = np.asarray(labels)
    if clusters.shape != (num_nodes,) or clusters.dtype.kind not in "iu":
        raise GraphError(f"clusters must be {num_nodes} whole numbers, one per node, got shape {clusters.shape}")
    if num_nodes and (clusters.min() < 0 or clusters.max() >= num_clusters):
        raise GraphError(f"clusters must lie in 0..{num_clusters - 1}, got {clusters.min()}..{clusters.max()}")
    return clusters.astype(np.int64, copy=False)


def cluster_degrees(graph: Graph, labels: Any, num_clusters: int) -> Int:
    """int64 [n, C] counts in O(E): one bincount over the two ends of every edge, in blocks of bounded memory."""
    clusters = check_clusters(labels, graph.num_nodes, num_clusters)
    return count_neighbours(_blocks(graph), clusters, num_clusters, np.int64)


def cluster_degrees_from_file(path: str | Path, labels: Any, num_clusters: int, chunk: int = CHUNK) -> Int:
    """The same counts from an edge file (text or ``.npy``) that is never held in memory as a whole.

    The counts are exact and private: `degree_vectors.noisy_degrees_from_file` of LPGNet charges and adds noise.

    Node numbers must be 0..n-1 with one label each. Strictly sorted edges with u < v are read once; any other file is
    read several times, one range of nodes after the other, so that duplicates and opposite directions count once.
    """
    nodes = np.size(labels)
    clusters = check_clusters(labels, nodes, num_clusters)
    return count_neighbours(
        simple_chunks(lambda: edge_chunks(Path(path), chunk), nodes, chunk), clusters, num_clusters, np.int64
    )


def local_cluster_degrees(neighbours: Iterable[int], labels: Any, num_clusters: int) -> Int:
    """One node's own row, from its neighbour list and the public clusters of all nodes (LPGNet section 6)."""
    clusters = check_clusters(labels, np.size(labels), num_clusters)
    mine = np.unique(np.asarray(list(neighbours)))
    if not len(mine):
        return np.zeros(num_clusters, np.int64)
    if mine.dtype.kind not in "iu":
        raise GraphError(f"neighbours must be whole node numbers, got {mine.dtype} ({mine[0]!r})")
    if mine[0] < 0 or mine[-1] >= len(clusters):
        wrong = mine[0] if mine[0] < 0 else mine[-1]
        raise GraphError(f"the neighbour list names node {wrong}; the clusters cover 0..{len(clusters) - 1}")
    return np.bincount(clusters[mine], minlength=num_clusters).astype(np.int64)


def _blocks(graph: Graph) -> Iterable[tuple[Int, Int]]:
    """Edge ends in blocks of at most `CHUNK` edges, straight from the stored triangle."""
    for start in range(0, graph.num_edges, CHUNK):
        stop = min(start + CHUNK, graph.num_edges)
        first, last = np.searchsorted(graph.indptr, [start, stop - 1], side="right") - 1
        bounds = np.clip(graph.indptr[first : last + 2], start, stop)
        yield np.repeat(np.arange(first, last + 1), np.diff(bounds)), graph.indices[start:stop].astype(np.int64)


def count_neighbours(blocks: Blocks, clusters: Int, num_clusters: int, kind: type[Kind]) -> NDArray[Kind]:
    """[n, C] counts over edges that pass by once each: one addition per end, however many nodes there are."""
    cells = len(clusters) * num_clusters
    narrow = clusters.astype(np.min_scalar_type(max(num_clusters - 1, 0)))  # more of them fit into the cache
    total, one = np.empty(cells, kind), kind(1)
    total.fill(0)  # unlike np.zeros in huge pages: additions at random places are a quarter faster
    for u, v in blocks:
        for node, other in ((u, v), (v, u)):
            keys = node.astype(np.int64)
            keys *= num_clusters
            keys += narrow[other]
            if 8 * len(keys) < cells:
                np.add.at(total, keys, one)
            else:
                total += np.bincount(keys, minlength=cells)
    return total.reshape(len(clusters), num_clusters)
