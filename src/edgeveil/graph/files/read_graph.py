"""A graph from own files: an edge list, and optionally a node list, features and labels, joined by node id."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import GraphError
from edgeveil.graph.files.column_rules import is_number
from edgeveil.graph.files.columns import Table, read_table
from edgeveil.graph.files.edge_table import EdgeTable, NodeIndex, read_edges
from edgeveil.graph.files.ids import DOUBT, canonical_order, is_index, plain_ids
from edgeveil.graph.files.node_tables import Features, Labels, Reading, read_features, read_labels, read_nodes
from edgeveil.graph.graph import Graph
from edgeveil.graph.ogb import is_ogb, read_ogb
from edgeveil.graph.validate import Collapsed, collapse_edges

__all__ = ["read_graph"]

log = logging.getLogger("edgeveil")
Int = NDArray[np.int64]


def read_graph(
    edges: str | Path,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    *,
    nodes: str | Path | None = None,
    directed: bool | None = None,
    header: bool | None = None,
    name: str | None = None,
    id_column: str | None = None,
    source: str | None = None,
    target: str | None = None,
    label_column: str | None = None,
    delimiter: str | None = None,
) -> Graph:
    """Read own files; node ids may be any strings and are kept in `Graph.node_ids`. A folder is one
    of OGB's or holds parquet files, as an fsspec address does.

    `nodes` lists all nodes, one id per line or in the id column. Without it, features or labels that cover every
    node of the edge list do the same; else the nodes come from the edges, and the graph cannot be published under a
    promise about them (`Graph.public_nodes`); nor can it where only the edge list tells a header from a node. Whole
    numbers are ordered by value; other ids stand in the order of the feature rows, which is how models number them,
    and without features in the order of their characters.

    Direction and weights are collapsed and `graph.collapsed` says what was lost. `directed=None` takes the file's word
    (a column ``directed``), else guesses: at least 1 % of the edges given both ways, but not all, means directed.
    `header` says whether the first line of the edge list names its columns; None finds out, and asks in case of doubt.
    `id_column` (of node tables), `source` and `target` (of the edge list) and `label_column` name columns that cannot
    be told, `delimiter` what separates cells in every file. Features without ids (npy, npz) belong to the nodes 0..n-1,
    or to the nodes in the order of the node or label file; columns of other things become numbers (`Graph.table`).
    """
    address, edges = edges, Path(edges)
    if is_ogb(edges):
        return read_ogb(edges, name)
    raw = read_table(address, delimiter=delimiter)
    how = Reading(_cells(raw), id_column, delimiter, label_column)
    listed = read_nodes(nodes, how) if nodes is not None else None
    x = read_features(features, how) if features is not None else None
    known = {*(listed or ()), *((x and x.ids) or ())}
    y = read_labels(labels, known, bool(known), how) if labels is not None else None
    if x is not None:
        x = replace(x, ids=_row_ids(x, listed, y))
    index = NodeIndex()
    complete = listed is not None or x is not None
    known |= {*((x and x.ids) or ()), *(y.ids if y is not None else ())}
    table = read_edges(raw, index, known=known, complete=complete, header=header, source=source, target=target)
    _check_listed({edges.name: index, **_named(x, y, labels)}, listed, nodes, x)
    order, public = _node_order(index, listed, x, y)
    public = public and not how.doubts
    place = _places(index, order)
    pairs = place[table.edges]
    given = y.masks(order) if y is not None else None
    graph = Graph.from_edges(
        pairs,
        None if x is None else x.rows(order),
        None if y is None else y.classes(order),
        num_nodes=len(order),
        num_classes=None if y is None else y.num_classes,
        splits=None if given is None else {"given": given},
        split=None if given is None else "given",
        name=name or edges.name.partition(".")[0] or edges.stem,
        node_ids=_ids(order),
        collapsed=_lost(pairs, len(order), table, directed),
        public_nodes=public,
        class_names=None if y is None else y.names,
    )
    said = {"edges": f"{edges.name}: {table.said}"}
    if x is not None and features is not None:
        said["features"] = f"{x.path.name}: {x.said or x.path.suffix[1:]}"
    if y is not None and labels is not None:
        said["labels"] = f"{Path(labels).name}: {y.said}"
    if listed is not None and nodes is not None:
        said["nodes"] = f"{Path(nodes).name}: {len(listed):,} nodes"
    if how.doubts:
        said[DOUBT] = "; ".join(how.doubts)
    return graph.with_table(None if x is None else x.table, said)


def _cells(raw: Table) -> set[str]:
    """Every cell of the edge list but the words of its first line, which may be a header."""
    below = raw if raw.names is not None else raw.below()
    found = {cell for at in range(raw.width) for cell in plain_ids(below.distinct(at))} if below.rows else set()
    return (found | set(plain_ids([cell for cell in raw.row(0) if is_number(cell)]))) - {""}


def _row_ids(x: Features, listed: list[str] | None, y: Labels | None) -> list[str]:
    """Whose the feature rows are; edges have no say in it."""
    if x.ids is not None:
        return x.ids
    plain = [str(row) for row in range(x.num_rows)]
    for ids in (listed, None if y is None else y.ids):
        if ids is not None and len(ids) == len(set(ids)) == x.num_rows and set(ids) != set(plain):
            return ids
    return plain


def _named(x: Features | None, y: Labels | None, labels: str | Path | None) -> dict[str, Iterable[str]]:
    out: dict[str, Iterable[str]] = {}
    if x is not None and x.ids is not None:
        out[x.path.name] = x.ids
    if y is not None and labels is not None:
        out[Path(labels).name] = y.ids
    return out


def _check_listed(
    files: Mapping[str, Iterable[str]], listed: list[str] | None, nodes: str | Path | None, x: Features | None
) -> None:
    """Nobody may name a node that the node list lacks; features cover every node."""
    if listed is not None and nodes is not None:
        known, owner, remedy = set(listed), Path(nodes).name, "add it to the list of all nodes, or drop it there"
    elif x is not None and x.ids is not None:
        known, owner = set(x.ids), x.path.name
        remedy = "every node needs features: add the rows or drop the nodes' edges"
        if x.path.suffix in (".npy", ".npz"):
            remedy += (
                f" (a matrix of {x.num_rows} rows without ids covers the nodes 0..{x.num_rows - 1}, or those of a "
                "--nodes or label file of that length, row by row)"
            )
    else:
        return
    for file, ids in files.items():
        strays = [node for node in dict.fromkeys(ids) if node not in known]
        if strays:
            has = "has no row for" if listed is None else "does not list"
            raise GraphError(f"{owner} {has} node {strays[0]!r} ({len(strays)} such nodes in {file}); {remedy}")


def _node_order(
    index: NodeIndex, listed: list[str] | None, x: Features | None, y: Labels | None
) -> tuple[list[str], bool]:
    """All nodes in their order, and whether they are known without the edges."""
    rows = None if x is None else x.ids
    labelled = None if y is None else y.ids
    known = dict.fromkeys(node for ids in (listed, rows, labelled) if ids is not None for node in ids)
    public = bool(known) and all(node in known for node in index)
    order = canonical_order([*known, *index])
    numbers = all(map(is_index, order))
    if rows is not None and not numbers:
        return list(dict.fromkeys(rows)), public
    if order and not known and numbers and int(order[-1]) < 2 * len(order):
        return [str(node) for node in range(int(order[-1]) + 1)], False  # gaps are nodes without edges
    return order, public


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
