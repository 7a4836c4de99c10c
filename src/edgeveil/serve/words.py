"""The owner's words put in the model's: ids as node numbers, raw tables as features, and names for answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.release.release import Release
from edgeveil.serve.problems import Problem
from edgeveil.serve.wire import Cell, Columns, Named, Query

__all__ = ["in_numbers", "named", "node_numbers", "table_rows"]


def in_numbers(query: Query, release: Release, table: Release, limit: int) -> Query:
    """A question in the owner's words as one in arrays; `table` is the release that knows the raw columns."""
    words = query.words
    if words is None:
        return query
    nodes = query.nodes if words.nodes is None else node_numbers(release, words.nodes, "nodes")
    answer = query.answer if words.answer is None else node_numbers(release, words.answer, "answer")
    features = query.features if words.columns is None else table_rows(table, words.columns, limit)
    asked_by_id = words.nodes is not None or words.answer is not None
    return Query(nodes, features, answer, query.induced, query.snapshot, named=asked_by_id)


def named(release: Release, nodes: NDArray[np.int64]) -> Named:
    """The names that go with an answer about these nodes."""
    ids = nodes if release.node_ids is None else np.asarray(release.node_ids)[nodes]
    return Named([str(node) for node in ids.tolist()], release.class_names, release.multilabel)


def node_numbers(release: Release, names: list[str], what: str) -> NDArray[np.int64]:
    """Numbers of nodes by id, or a 422 that names the first unknown one."""
    try:
        return release.node_numbers(names)
    except InputError as error:
        raise Problem(422, "unknown_node", f"{what}: {error}") from error


def table_rows(release: Release, columns: Columns, limit: int) -> NDArray[np.float64]:
    """Features in model space of a raw table of at most `limit` rows."""
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or not 0 < max(lengths) <= limit:
        raise Problem(422, "bad_input", f"columns: all need the same number of cells, 1 to {limit}")
    try:
        rows = release.transform({k: [_cell(c) for c in v] for k, v in columns.items()})
    except InputError as error:
        raise Problem(422, "bad_input", str(error)) from error
    return np.asarray(rows, np.float64)


def _cell(cell: Cell) -> Cell:
    return str(cell).lower() if isinstance(cell, bool) else cell
