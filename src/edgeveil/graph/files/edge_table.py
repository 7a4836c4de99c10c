"""Edge lists with arbitrary node ids: which columns matter, and what an undirected unweighted graph cannot keep."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import GraphError
from edgeveil.graph.files.column_rules import is_number
from edgeveil.graph.files.columns import Table
from edgeveil.graph.files.headers import DIRECTIONS, NO_ENDS, SOURCES, TARGETS, WEIGHTS, edge_header
from edgeveil.graph.files.ids import plain_ids

__all__ = ["EdgeTable", "NodeIndex", "read_edges"]

log = logging.getLogger("edgeveil")
Int = NDArray[np.int64]

_YES = {"directed", "true", "1", "yes", "->"}


class NodeIndex:
    """Node ids in order of first appearance, and their numbers."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def add(self, codes: Int, ids: list[str]) -> Int:
        """The numbers of these distinct ids, new ones appended, spread to the rows by `codes`."""
        numbers = self.numbers
        known = (numbers.setdefault(node, len(numbers)) for node in plain_ids(ids))
        return np.fromiter(known, np.int64, len(ids))[codes]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)


class EdgeTable(NamedTuple):
    """Edges by node number, whether weights were given, and whether the file calls its edges directed."""

    edges: Int
    weights: bool
    directed: bool
    said: str = ""  # how the file was read


def read_edges(
    raw: Table,
    index: NodeIndex,
    *,
    known: Set[str] = frozenset(),
    complete: bool = False,
    header: bool | None = None,
    source: str | None = None,
    target: str | None = None,
) -> EdgeTable:
    """Find the source and target columns and register their ids in `index`.

    `known`, `complete` and `header` decide whether the first line names the columns (`headers.edge_header`); `source`
    and `target` name the columns. Else they are found by their names, by the `known` ids in them, or are the first two.
    """
    path = raw.path
    if raw.width < 2:
        raise GraphError(
            f"{path.name} has one column ({raw.said}); an edge list needs a source and a target column: name the "
            "--delimiter if there is one"
        )
    named = any(name is not None and not name.isdecimal() for name in (source, target))
    table = raw if raw.names is not None else _headed(raw, known, complete, True if named else header)
    ends = _ends(table, known, source, target)
    edges = np.stack([index.add(*table.coded(at)) for at in ends])
    if "" in index.numbers:
        empty = edges == index.numbers[""]
        row = int(np.flatnonzero(empty.any(axis=0))[0])
        at = ends[0] if empty[0, row] else ends[1]
        raise GraphError(
            f"{path.name}: edge {row} lacks a node id (row {row + 1 + (table.names is not None)}, column "
            f"{table.name(at)!r}); fill it in or drop the row"
        )
    others = [at for at in range(table.width) if at not in ends]
    weights, directed = _extras(table, others)
    shown = " and ".join(repr(table.name(at)) for at in ends)
    said = f"{table.said}; {'a header' if table.names else 'no header'}; edges from {shown}; {table.rows:,} rows"
    return EdgeTable(edges, weights, directed, said)


def _headed(table: Table, known: Set[str], complete: bool, header: bool | None) -> Table:
    """The table with its first line as names, if it is a header."""
    first, below = table.row(0), table.below()
    order = (
        sorted(range(table.width), key=lambda at: (not _matches(below, at, known), at)) if known else range(table.width)
    )
    columns = [[first[at], *(below.distinct(at) if below.rows else ())] for at in order]
    return table.headed() if edge_header(columns, table.path, known=known, complete=complete, given=header) else table


def _matches(table: Table, at: int, known: Set[str]) -> bool:
    """Whether most ids of a column are known nodes."""
    cells = plain_ids(table.distinct(at)) if table.rows else []
    return 2 * sum(cell in known for cell in cells) >= len(cells) > 0


def _ends(table: Table, known: Set[str], source: str | None, target: str | None) -> tuple[int, int]:
    names = [name.lower() for name in table.names or ()]
    start = None if source is None else table.place(source, "--source")
    end = None if target is None else table.place(target, "--target")
    start = start if start is not None else next((names.index(n) for n in SOURCES if n in names), None)
    end = end if end is not None else next((names.index(n) for n in TARGETS if n in names), None)
    open_ = [at for at in range(table.width) if at not in (start, end)]
    wanted = 2 - (start is not None) - (end is not None)
    fewer = [at for at in open_ if not (names and names[at] in NO_ENDS)]
    open_ = fewer if len(fewer) >= wanted else open_
    likely = [at for at in open_ if _matches(table, at, known)] if known and len(open_) > 1 else []
    rest = iter(dict.fromkeys([*likely, *open_]))
    start = next(rest, None) if start is None else start
    end = next(rest, None) if end is None else end
    if start is None or end is None or start == end:
        raise GraphError(
            f"{table.path.name}: source and target must be two columns; name them with --source and --target"
        )
    if source is None and target is None and not likely and not set(names) & {*SOURCES, *TARGETS}:
        _check_first_two(table, (start, end))
    return start, end


def _check_first_two(table: Table, ends: tuple[int, int]) -> None:
    """Refuse two columns without a common node where another pair of columns has them: edges of edge ids."""
    if table.width < 3:
        return
    cells = [set(table.distinct(at)) for at in range(table.width)]
    if cells[ends[0]] & cells[ends[1]]:
        return
    pairs = [(a, b) for a in range(table.width) for b in range(a) if len(cells[a] & cells[b]) > 1 and (b, a) != ends]
    if pairs:
        b, a = pairs[0][1], pairs[0][0]
        raise GraphError(
            f"{table.path.name}: are the edges between {table.name(ends[0])!r} and {table.name(ends[1])!r}, which have "
            f"no node in common, or between {table.name(b)!r} and {table.name(a)!r}? Say --source and --target"
        )


def _extras(table: Table, others: list[int]) -> tuple[bool, bool]:
    weights = directed = False
    ignored = []
    for at in others:
        name = table.names[at].lower() if table.names else ""
        values = set(table.distinct(at))
        if name in DIRECTIONS:
            directed = bool({value.lower() for value in values} & _YES)
        elif name in WEIGHTS or (not table.names and all(map(is_number, values))):
            weights = weights or {float(v) for v in values if is_number(v)} != {1.0}
        else:
            ignored.append(table.name(at))
    if ignored:
        log.warning("%s: ignored columns %s; a graph keeps only its edges", table.path.name, ", ".join(ignored))
    return weights, directed
