"""Does the first line of a table name its columns? Every reader of own files asks here.

A header read as data is a node or an edge that does not exist; data read as a header loses one. Where nothing decides,
the question goes back to the user.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence, Set
from pathlib import Path

from edgeveil.errors import GraphError

__all__ = ["SOURCES", "TARGETS", "edge_header", "feature_header", "is_number", "label_header", "node_header"]

log = logging.getLogger("edgeveil")
SOURCES = ("source", "src", "from", "u", "node1", "node_1", "id_1", "head", "start")
TARGETS = ("target", "dst", "to", "v", "node2", "node_2", "id_2", "tail", "end")
NODES = {"id", "ids", "node", "nodes", "node_id", "nodeid", "name", "user", "user_id", "uid", "vertex", "key"}
LABELS = {"label", "labels", "class", "target", "y", "split", "id", "node", "node_id"}
NOTHING: frozenset[str] = frozenset()
Row = Sequence[str]


def is_number(text: str) -> bool:
    """Whether a cell reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


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


def node_header(first: Row, second: Row) -> bool:
    """Whether a list of nodes starts with a name for its column."""
    return first[0].strip().lower() in NODES or (not is_number(first[0]) and bool(second) and is_number(second[0]))


def feature_header(first: Row, second: Row) -> bool:
    """Whether features start with names: every cell after the id is a number in data."""
    return not all(map(is_number, first[1:]))


def label_header(first: Row, second: Row, known: Container[str] = NOTHING, complete: bool = False) -> bool:
    """Whether labels start with names; with a list of all nodes, a first cell that is no node is a name."""
    if first[0].strip() in known:
        return False
    if complete and not is_number(first[0]):
        return True
    words = {cell.strip().lower() for cell in first}
    return bool(words & LABELS) or (not any(map(is_number, first)) and any(map(is_number, second)))
