"""Edge lists with arbitrary node ids: which columns matter, and what an undirected unweighted graph cannot keep."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import GraphError
from edgeveil.graph.columns import Table, read_table
from edgeveil.graph.headers import SOURCES, TARGETS, edge_header, is_number

__all__ = ["EdgeTable", "NodeIndex", "read_edges"]

log = logging.getLogger("edgeveil")
Int = NDArray[np.int64]

WEIGHTS = ("weight", "weights", "w", "value", "strength")
DIRECTIONS = ("directed", "direction", "type")
_YES = {"directed", "true", "1", "yes", "->"}


class NodeIndex:
    """Node ids in order of first appearance, and their numbers."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def add(self, ids: list[str]) -> Int:
        """The numbers of these ids (blanks around them do not count), new ones appended."""
        numbers = self.numbers
        known = {raw: numbers.setdefault(raw.strip(), len(numbers)) for raw in dict.fromkeys(ids)}
        return np.fromiter(map(known.__getitem__, ids), np.int64, len(ids))

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)


class EdgeTable(NamedTuple):
    """Edges by node number, whether weights were given, and whether the file calls its edges directed."""

    edges: Int
    weights: bool
    directed: bool


def read_edges(
    path: str | Path,
    index: NodeIndex,
    *,
    known: Set[str] = frozenset(),
    complete: bool = False,
    header: bool | None = None,
) -> EdgeTable:
    """Read the source and target columns (by name, else the first two) and register their ids in `index`.

    `known`, `complete` and `header` decide whether the first line names the columns (`headers.edge_header`).
    """
    table = read_table(path, lambda first, second: False)
    if len(table.columns) < 2:
        raise GraphError(f"{path} has one column; an edge list needs a source and a target column")
    if table.names is None:
        table = _headed(table, known, complete, header)
    names = [name.lower() for name in table.names or ()]
    source = next((names.index(n) for n in SOURCES if n in names), 0)
    target = next((names.index(n) for n in TARGETS if n in names), 1 if source == 0 else 0)
    edges = np.stack([index.add(table.columns[at]) for at in (source, target)])
    if "" in index.numbers:
        bare = int(np.flatnonzero((edges == index.numbers[""]).any(axis=0))[0])
        raise GraphError(f"{path}: edge {bare} lacks a node id; fill it in or drop the row")
    others = [at for at in range(len(table.columns)) if at not in (source, target)]
    weights, directed = _extras(table, names, others)
    return EdgeTable(edges, weights, directed)


def _headed(table: Table, known: Set[str], complete: bool, header: bool | None) -> Table:
    """The table with its first line as names, if it is a header."""
    if not edge_header(table.columns, table.path, known=known, complete=complete, given=header):
        return table
    names = tuple(column.pop(0).strip() for column in table.columns)
    return Table(names, table.columns, table.path)


def _extras(table: Table, names: list[str], others: list[int]) -> tuple[bool, bool]:
    weights = directed = False
    ignored = []
    for at in others:
        name = names[at] if names else ""
        values = set(table.columns[at])
        if name in DIRECTIONS:
            directed = bool({value.strip().lower() for value in values} & _YES)
        elif name in WEIGHTS or (not names and all(map(is_number, values))):
            weights = weights or {float(v) for v in values if is_number(v)} != {1.0}
        else:
            ignored.append(name or f"column {at + 1}")
    if ignored:
        log.warning("%s: ignored columns %s; a graph keeps only its edges", table.path.name, ", ".join(ignored))
    return weights, directed
