"""Our graph file: a plain ``.npz`` archive that never holds a pickle and is the same bytes for the same content.

Keys: ``edge_index`` int [2, E] (u < v, sorted); features as CSR (``x_data x_indices x_indptr x_shape``) or dense ``x``;
``y`` int64 [n] or uint8 [n, L]; ``train_mask val_mask test_mask`` bool [n], or [n, k] for k splits; optionally
``node_ids`` and ``meta`` (UTF-8 JSON bytes: name, split names, number of nodes and classes, twin flag, losses, whether
the nodes are public). A file without features, labels and that word counts as one whose nodes come from its edges.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import GraphError, StorageError
from edgeveil.graph.files.table_transform import TableTransform
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Collapsed, Split

__all__ = ["atomic_write", "graph_from_arrays", "read_arrays", "read_npz", "write_arrays", "write_npz"]

Arrays = dict[str, NDArray[Any]]
PARTS = ("train_mask", "val_mask", "test_mask")
_STAMP = (1980, 1, 1, 0, 0, 0)
_BROKEN = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError, NotImplementedError)


def atomic_write(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write all of `content` or nothing: a reader never meets half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}; choose a writable place") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise StorageError(f"cannot write {path}: {error.strerror or error}; choose a writable place") from error


def write_arrays(path: str | Path, arrays: Mapping[str, Any], mode: int = 0o644) -> Path:
    """Write arrays as a reproducible archive: sorted members, fixed time stamps, deflate."""
    path = Path(path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for key in sorted(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(arrays[key]), allow_pickle=False)
            info = zipfile.ZipInfo(f"{key}.npy", _STAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, member.getvalue())
    atomic_write(path, buffer.getvalue(), mode)
    return path


def read_arrays(path: str | Path) -> Arrays:
    """All arrays of an archive; anything unreadable (truncated, pickled, not a zip) is a `StorageError`."""
    path = Path(path)
    if not path.is_file():
        raise StorageError(f"no such graph file: {path}; check the path, or see `edgeveil data list` for dataset names")
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("no zip directory at its end")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
    except _BROKEN as error:
        raise StorageError(
            f"{path} is not a readable graph archive ({error}); it may be truncated or of another format: "
            "fetch or write it again"
        ) from error


def read_npz(path: str | Path, name: str | None = None, split: str = "given") -> Graph:
    """Read a graph file, or the ``graph.npz`` of a folder. `split` names a single unnamed set of masks."""
    path = Path(path)
    path = path / "graph.npz" if path.is_dir() else path
    arrays = read_arrays(path)
    default = path.parent.name if path.name == "graph.npz" else path.stem
    try:
        return graph_from_arrays(arrays, name or "", default or "graph", split)
    except (GraphError, KeyError, ValueError, TypeError) as error:
        what = f"it lacks the array {error}" if isinstance(error, KeyError) else str(error)
        raise StorageError(f"{path} does not hold a valid graph: {what}") from error


def graph_from_arrays(arrays: Arrays, name: str = "", default: str = "graph", split: str = "given") -> Graph:
    """The validated graph behind the arrays of one file."""
    meta: dict[str, Any] = json.loads(arrays["meta"].tobytes()) if "meta" in arrays else {}
    splits = _splits(arrays, meta.get("splits"), split)
    x, y = _features(arrays), arrays.get("y")
    lost = meta.get("collapsed")
    graph = Graph.from_edges(
        arrays["edge_index"],
        x,
        y,
        num_nodes=meta.get("num_nodes"),
        num_classes=meta.get("num_classes") if y is not None and y.ndim == 1 else None,
        splits=splits,
        split=meta.get("split", next(iter(splits), None)),
        name=name or meta.get("name", default),
        is_twin=bool(meta.get("is_twin", False)),
        node_ids=arrays.get("node_ids", arrays.get("linqs_id")),
        public_nodes=bool(meta.get("public_nodes", y is not None or x is not None)),
        class_names=meta.get("class_names"),
    )
    if meta.get("table"):
        graph = graph.with_table(TableTransform.from_json(meta["table"]))
    return graph._replace(collapsed=Collapsed(**lost)) if lost else graph


def _features(arrays: Arrays) -> Any:
    if "x" in arrays:
        return arrays["x"]
    if "x_data" not in arrays:
        return None
    shape = tuple(int(size) for size in arrays["x_shape"])
    indptr, indices = arrays["x_indptr"], arrays["x_indices"]
    if len(shape) != 2 or len(indptr) != shape[0] + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise GraphError("the row starts of the sparse features are inconsistent")
    if not indptr[-1] == len(indices) == len(arrays["x_data"]):
        raise GraphError("the sparse features have parts of different lengths")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise GraphError(f"a sparse feature lies outside the {shape[1]} columns")
    return sp.csr_matrix((arrays["x_data"], indices, indptr), shape=shape)


def _splits(arrays: Arrays, names: list[str] | None, single: str) -> dict[str, Split]:
    if not any(part in arrays for part in PARTS):
        return {}
    masks = [arrays[part] for part in PARTS]
    if masks[0].ndim == 1:
        return {(names or [single])[0]: Split(*masks)}
    columns = masks[0].shape[1]
    return {
        key: Split(*(np.ascontiguousarray(mask[:, k]) for mask in masks))
        for k, key in enumerate(names or map(str, range(columns)))
    }


def write_npz(graph: Graph, path: str | Path, mode: int = 0o644) -> Path:
    """Write a graph so that reading it gives an equal graph (same fingerprint, names, ids and splits)."""
    path = Path(path)
    small = graph.num_nodes <= np.iinfo(np.int32).max
    arrays: dict[str, Any] = {"edge_index": graph.edge_index.astype(np.int32 if small else np.int64)}
    if sp.issparse(graph.x):
        x = graph.x
        arrays |= {"x_data": x.data, "x_indices": x.indices.astype(np.int32), "x_indptr": x.indptr.astype(np.int64)}
        arrays["x_shape"] = np.asarray(x.shape, np.int64)
    elif graph.x is not None:
        arrays["x"] = graph.x
    if graph.y is not None:
        arrays["y"] = graph.y
    if graph.splits:
        stacked = [np.stack(column, axis=1) for column in zip(*graph.splits.values(), strict=True)]
        single = len(graph.splits) == 1
        arrays |= {part: m[:, 0] if single else m for part, m in zip(PARTS, stacked, strict=True)}
    if graph.node_ids is not None:
        ids = graph.node_ids
        arrays["node_ids"] = ids.astype(str) if ids.dtype == object else ids
    meta: dict[str, Any] = {
        "format": 1, "name": graph.name, "num_nodes": graph.num_nodes, "num_classes": graph.num_classes,
        "splits": list(graph.splits), "split": graph.split, "is_twin": graph.is_twin,
        "public_nodes": graph.public_nodes, "collapsed": graph.collapsed._asdict(),
    }  # fmt: skip
    if graph.class_names is not None:
        meta["class_names"] = list(graph.class_names)
    if graph.table is not None:
        meta["table"] = graph.table.to_json()
    arrays["meta"] = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)
    return write_arrays(path, arrays, mode)
