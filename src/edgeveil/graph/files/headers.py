"""Does the first line of a table name its columns? Every reader of own files asks here.

A header read as data is a node or an edge that does not exist; data read as a header loses one. Where nothing decides,
the question goes back to the user.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Sequence, Set
from pathlib import Path

from edgeveil.errors import GraphError
from edgeveil.graph.files.column_rules import MISSING, is_number
from edgeveil.graph.files.columns import Table

__all__ = [
    "DIRECTIONS",
    "NO_ENDS",
    "SOURCES",
    "TARGETS",
    "WEIGHTS",
    "edge_header",
    "feature_header",
    "label_header",
    "node_header",
]

log = logging.getLogger("edgeveil")
SOURCES = (
    "source",
    "src",
    "from",
    "u",
    "node1",
    "node_1",
    "id_1",
    "head",
    "start",
    "sender",
    "payer",
    "source_id",
    "src_id",
    "from_id",
    "from_node",
    "caller",
    "follower",
    "parent",
)
TARGETS = (
    "target",
    "dst",
    "to",
    "v",
    "node2",
    "node_2",
    "id_2",
    "tail",
    "end",
    "receiver",
    "payee",
    "target_id",
    "dst_id",
    "to_id",
    "to_node",
    "callee",
    "followee",
    "child",
)
NODES = {
    "id",
    "ids",
    "node",
    "nodes",
    "node_id",
    "nodeid",
    "name",
    "user",
    "user_id",
    "uid",
    "vertex",
    "key",
    "customer",
    "account",
    "member",
    "person",
    "client",
}
LABELS = {"label", "labels", "class", "target", "y", "split", "id", "node", "node_id"}
EDGE_IDS = {"edge_id", "edgeid", "edge", "id", "index", "row", "nr", "no", "unnamed: 0", "__index_level_0__", ""}
WEIGHTS = ("weight", "weights", "w", "value", "strength")
DIRECTIONS = ("directed", "direction", "type")
NO_ENDS = {*EDGE_IDS, *WEIGHTS, *DIRECTIONS} - {"w"}  # ends of edges only where no other columns are left
NOTHING: frozenset[str] = frozenset()
Row = Sequence[str]


def edge_header(
    columns: Sequence[Sequence[str]],
    path: Path,
    *,
    known: Set[str] = NOTHING,
    complete: bool = False,
    given: bool | None = None,
) -> bool:
    """Whether the first line of an edge list, given by its columns, names them.

    `known` are node ids from other files, all of them if `complete`; `given` is the user's own word and ends the
    question. A name that stands in the columns again, or in `known`, is a node; names that a list of all nodes lacks,
    above a line of listed ones, are a header. Without such a list, words such as ``source`` are, or text above numbers.
    """
    first = [column[0] for column in columns]
    pair = [cell.strip() for cell in first[:2]]
    if given is not None:
        return given
    word = any(cell.strip().lower() in SOURCES + TARGETS for cell in first)
    if any(cell in known for cell in pair):
        return _agree(False, against=word and all(cell in known for cell in pair), first=first, path=path)
    if any(map(is_number, pair)):
        return word and not all(map(is_number, pair))
    rest = [column[1:] for column in columns[:2]]
    if not rest[0]:
        return word
    if complete or all(_stripped(column) <= known for column in rest):
        below = any(column[0].strip() in known for column in rest)  # else the list is not of these edges: let it fail
        if below and not word:
            log.warning("%s: the first line %r names no known node and is taken as a header", path.name, _shown(first))
        return below or word
    again = any(cell in _stripped(column) for cell in pair for column in rest)
    if word:
        return _agree(True, against=again, first=first, path=path)
    numbers_follow = all(is_number(column[0]) for column in rest)
    return _agree(numbers_follow, against=not again and not numbers_follow, first=first, path=path)


def _stripped(column: Sequence[str]) -> set[str]:
    return {cell.strip() for cell in column}


def _agree(found: bool, *, against: bool, first: Row, path: Path) -> bool:
    if against:
        raise GraphError(
            f"{path.name}: the first line {_shown(first)!r} may be a header or an edge; say --header or --no-header "
            "(in Python header=True or False), name the columns source,target, or list all nodes with --nodes FILE"
        )
    return found


def _shown(first: Row) -> str:
    return ",".join(cell.strip() for cell in first)[:80]


def node_header(table: Table, elsewhere: Container[str] = NOTHING) -> bool:
    """Whether a list of nodes starts with a name for its column."""
    first, second = table.row(0), table.row(1)
    word = first[0].lower()
    if first[0] in elsewhere:
        return False
    if word in NODES or word.endswith("_id") or (bool(second) and not is_number(first[0]) and is_number(second[0])):
        return True
    if not second:
        return False
    below = _below(table, 0)
    known = sum(cell in elsewhere for cell in below)
    return 2 * known >= len(below) > 0 and _shape(first[0]) not in {_shape(cell) for cell in below}


def feature_header(table: Table, elsewhere: Container[str] = NOTHING) -> bool:
    """Whether features start with names: no cell of the first row names a node or looks like what stands below it."""
    first = table.row(0)
    if table.rows < 2:
        return not all(map(is_number, first[1:]))
    if any(cell in elsewhere for cell in first):
        return False
    words = [at for at, cell in enumerate(first) if at and not is_number(cell)]
    if not words or any(first[at].lower() in MISSING for at in words):
        return False
    numbers = (all(is_number(cell) or cell.lower() in MISSING for cell in _below(table, at)) for at in words)
    return any(numbers) or not any(first[at] in _below(table, at) for at in words)


def label_header(table: Table, known: Container[str], complete: bool, elsewhere: Container[str] = NOTHING) -> bool:
    """Whether labels start with names.

    A cell that another file knows as a node is data. With a list of all nodes, a first cell that is no node is a name;
    so is one above nodes that the edge list knows, beside a class that no other node has.
    """
    first, second = table.row(0), table.row(1)
    if any(cell in known or (cell in elsewhere and not is_number(cell)) for cell in first):
        return False
    if complete and not is_number(first[0]):
        return True
    words = {cell.lower() for cell in first}
    if words & LABELS or (not any(map(is_number, first)) and any(map(is_number, second))):
        return True
    below = [_below(table, at) for at in range(table.width)]
    linked = any(2 * sum(cell in elsewhere for cell in cells) >= len(cells) > 0 for cells in below)
    found = linked and not any(cell in cells for cell, cells in zip(first, below, strict=True))
    if found and not any(map(is_number, first)):
        log.warning(
            "%s: the first line %r names no known node and is taken as a header", table.path.name, _shown(first)
        )
        return True
    return False


def _below(table: Table, at: int) -> set[str]:
    return set(table.below().distinct(at))


def _shape(text: str) -> str:
    """Letters and digits in runs: CUST-00821 and CUST-7 are alike."""
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text))
