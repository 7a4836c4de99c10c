"""Synthetic graphs: LPGNet's bipartite network, and a twin of every dataset for machines without the real one.

A twin has the original's nodes, edges, class sizes, edges between every two classes (hence its homophily), degree
quantiles, feature width and sparsity. It shares no node, edge or feature with it, and always says that it is a twin.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from edgeveil.graph.catalog import TWIN, Dataset, dataset
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import sample_distinct
from edgeveil.graph.splits import draw
from edgeveil.graph.twin_edges import block_edges, from_quantiles, mixing, split_integer, with_sum
from edgeveil.graph.twin_features import bags, groups_to_labels
from edgeveil.graph.validate import Split
from edgeveil.seeds import stream

__all__ = ["bipartite", "twin"]

Int = NDArray[np.int64]
_FIRST, _SECOND = 500, 400


def bipartite(seed: int = 0) -> Graph:
    """LPGNet App. C.3: 500 + 400 nodes, an edge across with probability 0.05, features that ignore the edges.

    Features are [1, -1] in the first cluster and [-1, 1] in the second, then flipped for 25 % and 62.5 % of the nodes.
    """
    rng = stream(seed, "bipartite")
    return _two_clusters(np.flatnonzero(rng.integers(0, 20, _FIRST * _SECOND) == 0), rng)


def _two_clusters(cells: Int, rng: np.random.Generator) -> Graph:
    first, second = _FIRST, _SECOND
    y = np.repeat(np.arange(2), (first, second))
    edges = np.stack([cells // second, first + cells % second])
    sign = np.where(y == 0, 1.0, -1.0).astype(np.float32)
    sign[rng.permutation(first)[: first // 4]] *= -1
    sign[first + rng.permutation(second)[: second * 5 // 8]] *= -1
    return Graph.from_edges(edges, np.stack([sign, -sign], axis=1), y, name="bipartite")


@lru_cache(maxsize=4)
def twin(name: str) -> Graph:
    """The twin of a dataset: the same graph on every machine."""
    record = dataset(name)
    if record.generated:
        rng = stream(0, "twin", record.name)
        graph = _two_clusters(sample_distinct(_FIRST * _SECOND, record.edges, rng), rng)
        return graph._replace(name=record.name + TWIN, is_twin=True)
    graph = _multilabel(record) if record.multilabel else _single(record)
    return _with_splits(graph, record)


def _single(record: Dataset) -> Graph:
    facts, n = record.twin, record.nodes
    rng = stream(0, "twin", record.name)
    sizes = facts["class_sizes"]
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    degrees = from_quantiles(facts["degrees"], n)[rng.permutation(n)]
    blocks = facts.get("blocks") or mixing(sizes, record.edges, record.homophily or 0.0)
    edges = block_edges(y, degrees, blocks, rng, facts.get("boundary", 0))
    x = bags(y, len(sizes), record.features, facts, rng, _words(record))
    return Graph.from_edges(edges, x, y, name=record.name + TWIN, is_twin=True)


def _multilabel(record: Dataset) -> Graph:
    """Disjoint graphs for training, validation and test; hidden groups drive edges, features and labels."""
    facts, n, count = record.twin, record.nodes, record.twin["groups"]
    rng = stream(0, "twin", record.name)
    parts = facts["parts"]
    group = rng.integers(0, count, n)
    part = np.repeat(np.arange(len(parts)), parts)
    degrees = from_quantiles(facts["degrees"], n)[rng.permutation(n)]
    pieces = []
    for index, edges in enumerate(split_integer(record.edges, parts)):
        nodes = np.flatnonzero(part == index)
        sizes = np.bincount(group[nodes], minlength=count)
        local = with_sum(degrees[nodes], 2 * edges, rng, 1, len(nodes) - 1)
        found = block_edges(group[nodes], local, mixing(sizes.tolist(), edges, record.homophily or 0.0), rng)
        pieces.append(nodes[found])
    x = bags(group, count, record.features, facts, rng, _words(record))
    y = groups_to_labels(group, count, record.classes, rng)
    split = Split(*(part == index for index in range(3)))
    edges_all = np.concatenate(pieces, axis=1)
    return Graph.from_edges(edges_all, x, y, splits={"public": split}, name=record.name + TWIN, is_twin=True)


def _words(record: Dataset) -> np.random.Generator:
    return stream(0, "twin-words", record.twin.get("family", record.name))


def _with_splits(graph: Graph, record: Dataset) -> Graph:
    """The original's stored splits, drawn once and for all by the rule that made the original's."""
    for name, rule in record.twin.get("stored_splits", {}).items():
        graph = graph.with_split(name, draw(graph, rule, seed=int(name) if name.isdigit() else 0))
    return graph.with_split(None)
