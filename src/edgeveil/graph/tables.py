"""A graph from own files: an edge list, and optionally features and labels, joined by node id."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import GraphError
from edgeveil.graph.edge_table import EdgeTable, NodeIndex, read_edges
from edgeveil.graph.graph import Graph
from edgeveil.graph.node_tables import Features, Labels, read_features, read_labels
from edgeveil.graph.validate import Collapsed, collapse_edges

__all__ = ["read_graph"]

log = logging.getLogger("edgeveil")
Int = NDArray[np.int64]


def read_graph(
    edges: str | Path,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    *,
    directed: bool | None = None,
    name: str | None = None,
) -> Graph:
    """Read own files; node ids may be any strings and are kept in `Graph.node_ids`.

    Direction and weights are collapsed and `graph.collapsed` says what was lost. `directed=None` takes the file's word
    (a column ``directed``), else guesses: at least 1 % of the edges given both ways, but not all, means directed.
    Features without ids (npy, npz) belong to the nodes 0..n-1, or to the nodes in the order of the label file.
    """
    edges = Path(edges)
    index = NodeIndex()
    table = read_edges(edges, index)
    y = read_labels(labels) if labels is not None else None
    x = read_features(features) if features is not None else None
    order = _node_order(index, x, y)
    place = _places(index, order)
    pairs = place[table.edges]
    given = y.masks(order) if y is not None else None
    return Graph.from_edges(
        pairs,
        None if x is None else x.rows(order),
        None if y is None else y.classes(order),
        num_nodes=len(order),
        num_classes=None if y is None else y.num_classes,
        splits=None if given is None else {"given": given},
        split=None if given is None else "given",
        name=name or edges.stem,
        node_ids=_ids(order),
        collapsed=_lost(pairs, len(order), table, directed),
    )


def _node_order(index: NodeIndex, x: Features | None, y: Labels | None) -> list[str]:
    """All nodes: numeric ids by number, others as they appear in features, labels, edges."""
    named = [source.ids for source in (x, y) if source is not None and source.ids is not None]
    seen = dict.fromkeys(node for ids in [*named, list(index)] for node in ids)
    if x is not None and x.ids is None:
        return _order_by_rows(seen, x, y)
    order = list(seen)
    if all(node.isdecimal() and str(int(node)) == node for node in order):
        order.sort(key=int)
        if x is None and y is None and int(order[-1]) < 2 * len(order):
            return [str(node) for node in range(int(order[-1]) + 1)]  # gaps are nodes without edges
    return order


def _order_by_rows(seen: dict[str, None], x: Features, y: Labels | None) -> list[str]:
    """Features without ids: row i is node i, or the i-th row of the label file."""
    if all(node.isdecimal() and int(node) < x.num_rows for node in seen):
        return [str(node) for node in range(x.num_rows)]
    if y is not None and len(y.ids) == x.num_rows and len(seen) == x.num_rows:
        return list(y.ids)
    stray = next(node for node in seen if not node.isdecimal() or int(node) >= x.num_rows)
    raise GraphError(
        f"{x.path.name} has {x.num_rows} rows without node ids, so nodes must be 0..{x.num_rows - 1}, but there is "
        f"{stray!r}; use a csv or parquet file with an id column, or list all nodes in the label file"
    )


def _places(index: NodeIndex, order: list[str]) -> Int:
    where = {node: i for i, node in enumerate(order)}
    return np.fromiter((where[node] for node in index), np.int64, len(index))


def _ids(order: list[str]) -> NDArray[Any] | None:
    """The ids, unless they are 0..n-1 anyway."""
    if all(node == str(i) for i, node in enumerate(order)):
        return None
    return np.array(order)


def _lost(pairs: Int, n: int, table: EdgeTable, directed: bool | None) -> Collapsed:
    keys, counted = collapse_edges(pairs, n)
    mixed = 0.01 * len(keys) <= counted.reversed < len(keys)  # a few opposites are slips in an undirected list
    directed = (table.directed or mixed) if directed is None else directed
    return Collapsed(weights=table.weights, one_way=len(keys) - counted.reversed if directed else 0)
