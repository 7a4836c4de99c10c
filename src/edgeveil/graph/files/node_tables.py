"""Lists, features and labels of nodes, by node id where the file has one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import GraphError, StorageError
from edgeveil.graph.files.column_rules import MISSING, is_number
from edgeveil.graph.files.columns import Table, read_table
from edgeveil.graph.files.headers import feature_header, label_header, node_header
from edgeveil.graph.files.ids import plain_ids
from edgeveil.graph.files.table_transform import TableTransform
from edgeveil.graph.npz import read_arrays
from edgeveil.graph.validate import Split

__all__ = ["PARTS", "Features", "Labels", "Reading", "read_features", "read_labels", "read_nodes", "to_classes"]

log = logging.getLogger("edgeveil")
UNLABELLED = MISSING | {"-1"}
PARTS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test", "": ""}


@dataclass(frozen=True)
class Features:
    """A feature matrix and the ids of its rows (None: rows are nodes 0..n-1)."""

    matrix: Any
    ids: list[str] | None
    path: Path
    table: TableTransform | None = None
    said: str = ""  # how the file was read

    @property
    def num_rows(self) -> int:
        return int(self.matrix.shape[0])

    def rows(self, order: list[str]) -> Any:
        """The matrix with one row per node, in node order."""
        if self.ids is None or self.ids == order:
            return self.matrix
        where = {node: i for i, node in enumerate(self.ids)}
        if len(where) != len(self.ids):
            twice = next(node for i, node in enumerate(self.ids) if where[node] != i)
            raise GraphError(f"{self.path.name} has two rows for node {twice!r}; keep one")
        bare = [node for node in order if node not in where]
        if bare:
            raise GraphError(
                f"{self.path.name} has no row for node {bare[0]!r} ({len(bare)} such nodes); "
                "every node needs features: add the rows or drop the nodes' edges"
            )
        return self.matrix[np.array([where[node] for node in order], np.int64)]


@dataclass(frozen=True)
class Reading:
    """What helps to read a table of nodes: other files' ids and the user's own words.

    Where the edge list's cells change how a table is read, who is a node depends on edges: `doubts` says so.
    """

    elsewhere: Set[str] = frozenset()  # cells of the edge list below its first line
    id_column: str | None = None
    delimiter: str | None = None
    label_column: str | None = None
    doubts: list[str] = field(default_factory=list, compare=False)

    def headed(self, table: Table, rule: Callable[[Table, Set[str]], bool]) -> bool:
        """Whether the first line is a header: by the user's word, else by a rule that may look at the edge list."""
        if _told(table, self):
            return True
        found = rule(table, self.elsewhere)
        if found != rule(table, frozenset()):
            self.doubts.append(
                f"that the first line of {table.path.name} is {'a header' if found else 'a node'} follows from the "
                "edge list alone, so that the list of nodes depends on edges; begin the file with a line that names "
                "its columns, node first, or name the --id-column"
            )
        return found


def read_nodes(path: str | Path, how: Reading = Reading()) -> list[str]:  # noqa: B008 - frozen
    """All node ids, one per line or in the id column, each once."""
    table = read_table(path, lambda t: how.headed(t, node_header), how.delimiter)
    at = _id_place(table, how)
    ids = _ids_of(table, at)
    seen = set[str]()
    for node in ids:
        if node in seen:
            raise GraphError(f"{path} lists node {node!r} twice; keep one")
        seen.add(node)
    if not ids:
        raise GraphError(f"{path} lists no node; it needs one id per line")
    return ids


def _said(table: Table, at: int) -> str:
    """How a table was read, in words."""
    header = "a header" if table.names else "no header"
    return f"{table.said}; {header}; ids from {table.name(at)!r}; {table.rows:,} rows"


def _told(table: Table, how: Reading) -> bool:
    """Whether a column that the user names stands in the first row."""
    asked = {name.lower() for name in (how.id_column, how.label_column) if name is not None}
    return bool(asked & {cell.lower() for cell in table.row(0)})


def _id_place(table: Table, how: Reading) -> int:
    """The id column: as told, else the first unless another one holds the edge list's ids and it does not."""
    if how.id_column is not None and (table.names is not None or how.id_column.isdecimal()):
        return table.place(how.id_column, "--id-column")
    shares = [_share(table, at, how.elsewhere) for at in range(table.width)] if how.elsewhere else [1.0]
    best = max(range(len(shares)), key=lambda at: (shares[at], -at))
    if best and shares[0] == 0 and shares[best] >= 0.5 and table.rows > 2:
        log.warning("%s: node ids are taken from %r, which the edge list knows", table.path.name, table.name(best))
        how.doubts.append(
            f"that the ids of {table.path.name} stand in {table.name(best)!r} follows from the edge list alone; name "
            "the --id-column"
        )
        return best
    return 0


def _share(table: Table, at: int, known: Set[str]) -> float:
    cells = plain_ids(table.distinct(at))
    return sum(cell in known for cell in cells) / max(len(cells), 1)


def _ids_of(table: Table, at: int) -> list[str]:
    ids = plain_ids(table.cells(at))
    if "" in ids:
        row = ids.index("") + 1 + (table.names is not None)
        raise GraphError(
            f"{table.path.name}: row {row} lacks a node id in {table.name(at)!r}; fill it in, drop the row, or name "
            "the --id-column"
        )
    return ids


def read_features(path: str | Path, how: Reading = Reading()) -> Features:  # noqa: B008 - frozen
    """npy (dense), npz (dense ``x`` or CSR parts, optional ``node_ids``), or a table with a column of node ids."""
    path = Path(path)
    if path.suffix == ".npy":
        return Features(_load_npy(path), None, path)
    if path.suffix == ".npz":
        return _from_npz(path)
    table = read_table(path, lambda t: how.headed(t, feature_header), how.delimiter)
    if table.width < 2:
        raise GraphError(
            f"{path.name} has one column ({table.said}); features need a node id and at least one more: name the "
            "--delimiter if there is one"
        )
    at = _id_place(table, how)
    ids = _ids_of(table, at)
    columns = {table.name(k): table.text(k) for k in range(table.width) if k != at}
    if len(columns) != table.width - 1:
        raise GraphError(f"{path.name} has two columns of the same name; rename one")
    fitted = TableTransform.fit(
        columns,
        id_column=table.name(at),
        comma=table.delimiter not in (None, ","),
        file=path.name,
        first_row=1 + (table.names is not None),
    )
    matrix = fitted.apply_columns(columns, path.name, 1 + (table.names is not None))
    if not matrix.shape[1]:
        raise GraphError(f"{path.name} holds no usable feature: {'; '.join(fitted.describe())}")
    exact = matrix.astype(np.float32)
    single = bool(np.array_equal(exact, matrix))
    said = _said(table, at)
    return Features(exact if single else matrix, ids, path, fitted, said)


def _load_npy(path: Path) -> NDArray[Any]:
    if not path.is_file():
        raise StorageError(f"no such file: {path}; check the path")
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise StorageError(f"{path} is not a readable array ({error}); write it again with numpy.save") from error
    if array.ndim != 2:
        raise GraphError(f"{path.name} holds an array of shape {array.shape}; features need one row per node")
    return array


def _from_npz(path: Path) -> Features:
    arrays = read_arrays(path)
    ids = [str(node) for node in arrays["node_ids"]] if "node_ids" in arrays else None
    parts = next((p for p in (("x_data", "x_indices", "x_indptr", "x_shape"), ("data", "indices", "indptr", "shape"))
                  if all(key in arrays for key in p)), None)  # fmt: skip
    if parts:
        data, indices, indptr, shape = (arrays[key] for key in parts)
        return Features(sp.csr_matrix((data, indices, indptr), shape=tuple(shape)), ids, path)
    dense = [key for key, value in arrays.items() if value.ndim == 2 and value.dtype.kind in "fiub"]
    if "x" in dense or len(dense) == 1:
        return Features(arrays["x" if "x" in dense else dense[0]], ids, path)
    raise GraphError(f"{path.name} holds {', '.join(arrays) or 'nothing'}; name the features 'x', or save a CSR matrix")


@dataclass(frozen=True)
class Labels:
    """Classes (or 0/1 label columns) by node id, and the parts of a split if the file names them."""

    ids: list[str]
    values: NDArray[Any]  # int64 [rows] or uint8 [rows, L]
    num_classes: int | None
    parts: list[str] | None
    names: tuple[str, ...] | None = None  # of the classes
    said: str = ""  # how the file was read

    def classes(self, order: list[str]) -> NDArray[Any]:
        """Labels in node order; nodes the file does not name are unlabelled (-1, or no label at all)."""
        where = {node: i for i, node in enumerate(order)}
        fill = -1 if self.values.ndim == 1 else 0
        out = np.full((len(order), *self.values.shape[1:]), fill, self.values.dtype)
        at = np.array([where[node] for node in self.ids], np.int64)
        out[at] = self.values
        clash = np.flatnonzero((out[at] != self.values).reshape(len(at), -1).any(axis=1))
        if len(clash):
            raise GraphError(f"node {self.ids[clash[0]]!r} has two different labels; keep one")
        return out

    def masks(self, order: list[str]) -> Split | None:
        """The split of the file's ``split`` column, if it has one."""
        if self.parts is None:
            return None
        part = dict(zip(self.ids, self.parts, strict=True))
        return Split(*(np.array([part.get(node) == name for node in order]) for name in ("train", "val", "test")))


def read_labels(
    path: str | Path,
    known: Container[str] = frozenset(),
    complete: bool = False,
    how: Reading = Reading(),  # noqa: B008
) -> Labels:
    """A node id; then one column of classes (numbers or names) or several of 0/1; optionally ``split``.

    `known` node ids, all of them if `complete`, help to tell a header (`headers.label_header`).
    """
    rule = partial(label_header, known=known, complete=complete)
    table = read_table(path, lambda t: how.headed(t, lambda t, cells: rule(t, elsewhere=cells)), how.delimiter)
    names = [name.lower() for name in table.names or ()]
    at_split = names.index("split") if "split" in names else None
    at_id = _id_place(table, how)
    at_label = [at for at in range(table.width) if at not in (at_split, at_id)]
    if how.label_column is not None:
        at_label = [table.place(how.label_column, "--label-column")]
    if not at_label:
        raise GraphError(f"{path} has no label column ({table.said}); it needs a node id and a class")
    ids = _ids_of(table, at_id)
    parts = None if at_split is None else _parts(table.cells(at_split), Path(path))
    said = _said(table, at_id)
    if len(at_label) > 1:
        values = _multi_hot(table, at_label)
        titles = tuple(table.name(at) for at in at_label) if table.names else None
        return Labels(ids, values, None, parts, titles, said)
    classes, count, titles = to_classes(table.cells(at_label[0]), Path(path))
    return Labels(ids, classes, count, parts, titles, said)


def _parts(cells: list[str], path: Path) -> list[str]:
    out = []
    for cell in cells:
        key = cell.strip().lower()
        if key not in PARTS:
            raise GraphError(f"{path.name}: split {cell!r} is none of train, val, test (or empty)")
        out.append(PARTS[key])
    return out


def _multi_hot(table: Table, places: list[int]) -> NDArray[np.uint8]:
    columns = [table.cells(at) for at in places]
    for at, column in zip(places, columns, strict=True):
        odd = next((row for row, cell in enumerate(column) if cell not in ("0", "1", "0.0", "1.0")), None)
        if odd is not None:
            raise GraphError(
                f"{table.path.name} has several label columns, so they must hold 0 or 1, but there is {column[odd]!r} "
                f"in row {odd + 1 + (table.names is not None)}, column {table.name(at)!r}; name the one with classes: "
                "--label-column"
            )
    return np.array([[cell[0] == "1" for cell in column] for column in columns], np.uint8).T


def to_classes(cells: list[str], path: Path) -> tuple[NDArray[np.int64], int, tuple[str, ...] | None]:
    """Class numbers 0..C-1 as they are; others are numbered in sorted order and keep their names."""
    used = {cell for cell in set(cells) if cell.lower() not in UNLABELLED}
    numeric = bool(used) and all(map(is_number, used))
    ordered = sorted(used, key=float) if numeric else sorted(used)
    if numeric and all(float(cell).is_integer() and float(cell) >= 0 for cell in used):
        numbers = {cell: int(float(cell)) for cell in used}
        if max(numbers.values()) < 2 * len(set(numbers.values())) and min(numbers.values()) == 0:
            return _apply(numbers, cells), max(numbers.values()) + 1, None
    numbers = {cell: i for i, cell in enumerate(ordered)}
    if used:
        log.info("%s: classes %s", path.name, ", ".join(f"{i} = {cell}" for cell, i in numbers.items()))
    return _apply(numbers, cells), len(numbers), tuple(ordered)


def _apply(numbers: dict[str, int], cells: list[str]) -> NDArray[np.int64]:
    return np.fromiter((numbers.get(cell, -1) for cell in cells), np.int64, len(cells))
