"""Lists, features and labels of nodes, by node id where the file has one."""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import GraphError, StorageError
from edgeveil.graph.columns import Table, read_table
from edgeveil.graph.headers import feature_header, is_number, label_header, node_header
from edgeveil.graph.npz import read_arrays
from edgeveil.graph.validate import Split

__all__ = ["Features", "Labels", "read_features", "read_labels", "read_nodes"]

log = logging.getLogger("edgeveil")
UNLABELLED = {"", "-1", "na", "nan", "none", "null", "?"}
PARTS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test", "": ""}


@dataclass(frozen=True)
class Features:
    """A feature matrix and the ids of its rows (None: rows are nodes 0..n-1)."""

    matrix: Any
    ids: list[str] | None
    path: Path

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


def read_nodes(path: str | Path) -> list[str]:
    """All node ids, one per line or in the first column, each once."""
    table = read_table(path, node_header)
    ids = [cell.strip() for cell in table.columns[0]]
    if "" in ids:
        raise GraphError(f"{path}: row {ids.index('') + 1} lacks a node id; fill it in or drop the row")
    seen = set[str]()
    for node in ids:
        if node in seen:
            raise GraphError(f"{path} lists node {node!r} twice; keep one")
        seen.add(node)
    if not ids:
        raise GraphError(f"{path} lists no node; it needs one id per line")
    return ids


def read_features(path: str | Path) -> Features:
    """npy (dense), npz (dense ``x`` or CSR parts, optional ``node_ids``), csv/tsv/parquet (first column: node id)."""
    path = Path(path)
    if path.suffix == ".npy":
        return Features(_load_npy(path), None, path)
    if path.suffix == ".npz":
        return _from_npz(path)
    table = read_table(path, feature_header)
    if len(table.columns) < 2:
        raise GraphError(f"{path} has one column; features need a node id and at least one number")
    try:
        matrix = np.array([np.array(column, dtype=object).astype(np.float64) for column in table.columns[1:]]).T
    except ValueError:
        raise GraphError(_bad_cell(table)) from None
    exact = matrix.astype(np.float32)
    single = bool(np.array_equal(exact, matrix, equal_nan=True))
    return Features(exact if single else matrix, [cell.strip() for cell in table.columns[0]], path)


def _bad_cell(table: Table) -> str:
    for at, column in enumerate(table.columns[1:], start=1):
        for row, cell in enumerate(column):
            if not is_number(cell):
                name = table.names[at] if table.names else f"column {at + 1}"
                return (
                    f"{table.path.name}: feature {name!r} of node {table.columns[0][row]!r} is {cell!r}, not a number"
                )
    return f"{table.path.name} holds features that are not numbers"


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


def read_labels(path: str | Path, known: Container[str] = frozenset(), complete: bool = False) -> Labels:
    """First column: node id; then one column of classes (numbers or names) or several of 0/1; optionally ``split``.

    `known` node ids, all of them if `complete`, help to tell a header (`headers.label_header`).
    """
    table = read_table(path, lambda first, second: label_header(first, second, known, complete))
    names = [name.lower() for name in table.names or ()]
    at_split = names.index("split") if "split" in names else None
    at_label = [at for at in range(1, len(table.columns)) if at != at_split]
    if not at_label:
        raise GraphError(f"{path} has no label column; it needs a node id and a class")
    ids = [cell.strip() for cell in table.columns[0]]
    parts = None if at_split is None else _parts(table.columns[at_split], Path(path))
    columns = [[cell.strip() for cell in table.columns[at]] for at in at_label]
    if len(columns) > 1:
        values = _multi_hot(columns, Path(path))
        return Labels(ids, values, None, parts)
    classes, count = _to_classes(columns[0], Path(path))
    return Labels(ids, classes, count, parts)


def _parts(cells: list[str], path: Path) -> list[str]:
    out = []
    for cell in cells:
        key = cell.strip().lower()
        if key not in PARTS:
            raise GraphError(f"{path.name}: split {cell!r} is none of train, val, test (or empty)")
        out.append(PARTS[key])
    return out


def _multi_hot(columns: list[list[str]], path: Path) -> NDArray[np.uint8]:
    for column in columns:
        odd = next((cell for cell in column if cell not in ("0", "1", "0.0", "1.0")), None)
        if odd is not None:
            raise GraphError(f"{path.name} has several label columns, so they must hold 0 or 1, but there is {odd!r}")
    return np.array([[cell[0] == "1" for cell in column] for column in columns], np.uint8).T


def _to_classes(cells: list[str], path: Path) -> tuple[NDArray[np.int64], int]:
    """Class numbers 0..C-1 as they are; any other numbers or names are numbered in sorted order."""
    used = {cell for cell in set(cells) if cell.lower() not in UNLABELLED}
    numeric = bool(used) and all(map(is_number, used))
    ordered = sorted(used, key=float) if numeric else sorted(used)
    if numeric and all(float(cell).is_integer() and float(cell) >= 0 for cell in used):
        numbers = {cell: int(float(cell)) for cell in used}
        if max(numbers.values()) < 2 * len(set(numbers.values())) and min(numbers.values()) == 0:
            return _apply(numbers, cells), max(numbers.values()) + 1
    numbers = {cell: i for i, cell in enumerate(ordered)}
    if used:
        log.info("%s: classes %s", path.name, ", ".join(f"{i} = {cell}" for cell, i in numbers.items()))
    return _apply(numbers, cells), len(numbers)


def _apply(numbers: dict[str, int], cells: list[str]) -> NDArray[np.int64]:
    return np.fromiter((numbers.get(cell, -1) for cell in cells), np.int64, len(cells))
