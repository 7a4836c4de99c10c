"""Own-file formats the other way: edge list, features and labels that `read_graph` reads back to an equal graph."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import scipy.sparse as sp

from edgeveil.errors import GraphError
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import atomic_write, write_arrays

__all__ = ["write_edges", "write_features", "write_labels"]

_MARKS = {".csv": ",", ".tsv": "\t"}


def _ids(graph: Graph) -> list[str]:
    return [str(node) for node in (range(graph.num_nodes) if graph.node_ids is None else graph.node_ids)]


def write_edges(graph: Graph, path: str | Path, mode: int = 0o644) -> Path:
    """``source,target`` rows as csv, tsv or parquet, each undirected edge once, by node id."""
    ids = np.array(_ids(graph), dtype=object)
    u, v = graph.edge_index
    return _write(Path(path), ["source", "target"], [ids[u].tolist(), ids[v].tolist()], mode)


def write_labels(graph: Graph, path: str | Path, mode: int = 0o644) -> Path:
    """Node id, class (or 0/1 columns) and, if a split is active, its part."""
    if graph.y is None:
        raise GraphError(f"{graph.name!r} has no labels to write")
    multi = graph.y if graph.y.ndim == 2 else graph.y[:, None]
    names = ["node", *(["label"] if graph.y.ndim == 1 else [f"label_{i}" for i in range(multi.shape[1])])]
    columns: list[Sequence[Any]] = [_ids(graph), *(column.tolist() for column in multi.T)]
    if graph.class_names is not None and graph.y.ndim == 1:
        columns[1] = ["" if c < 0 else graph.class_names[c] for c in graph.y]
    elif graph.class_names is not None:
        names[1:] = graph.class_names
    if graph.masks is not None:
        names.append("split")
        columns.append([next((p for p in ("train", "val", "test") if getattr(graph.masks, p)[i]), "")
                        for i in range(graph.num_nodes)])  # fmt: skip
    return _write(Path(path), names, columns, mode)


def write_features(graph: Graph, path: str | Path, mode: int = 0o644) -> Path:
    """npz (sparse or dense, with ids), npy (dense, no ids), csv, tsv or parquet (first column: id)."""
    path = Path(path)
    if graph.x is None:
        raise GraphError(f"{graph.name!r} has no features to write")
    if path.suffix == ".npz":
        return write_arrays(path, _npz_parts(graph), mode)
    dense = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    if path.suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, dense, allow_pickle=False)
        atomic_write(path, buffer.getvalue(), mode)
        return path
    outputs = graph.table.outputs if graph.table is not None else [f"f{i}" for i in range(dense.shape[1])]
    names = ["node", *outputs]
    return _write(path, names, [_ids(graph), *(column.tolist() for column in dense.T)], mode)


def _npz_parts(graph: Graph) -> dict[str, Any]:
    x = graph.x
    parts: dict[str, Any] = {"node_ids": np.array(_ids(graph))}
    if sp.issparse(x):
        shape = np.asarray(x.shape, np.int64)
        return parts | {"x_data": x.data, "x_indices": x.indices, "x_indptr": x.indptr, "x_shape": shape}
    return parts | {"x": x}


def _write(path: Path, names: list[str], columns: Iterable[Sequence[Any]], mode: int) -> Path:
    columns = list(columns)
    if path.suffix == ".parquet":
        return _write_parquet(path, names, columns, mode)
    if path.suffix not in _MARKS:
        raise GraphError(f"{path.name} is of an unknown kind {path.suffix!r}; use .csv, .tsv or .parquet")
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=_MARKS[path.suffix], lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    atomic_write(path, buffer.getvalue().encode(), mode)
    return path


def _write_parquet(path: Path, names: list[str], columns: list[Sequence[Any]], mode: int) -> Path:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict(zip(names, columns, strict=True))), buffer)
    atomic_write(path, buffer.getvalue(), mode)
    return path
