"""Checks that turn loose arrays into graph parts, with errors that name the value and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import GraphError

__all__ = ["Collapsed", "Split", "check_features", "check_labels", "check_split", "collapse_edges", "freeze"]

MAX_NODES = 3_037_000_499  # the largest n whose keys u*n+v fit in int64
Bool = NDArray[np.bool_]
Features = Any  # scipy CSR or float ndarray; scipy ships no types


class Split(NamedTuple):
    """Disjoint boolean masks over the nodes."""

    train: Bool
    val: Bool
    test: Bool


class Collapsed(NamedTuple):
    """What was lost when raw edges became simple undirected ones."""

    self_loops: int = 0
    duplicates: int = 0  # the same ordered pair again
    reversed: int = 0  # the second direction of an edge that was given both ways
    weights: bool = False  # the input carried weights, which an unweighted graph cannot keep
    one_way: int = 0  # edges of a directed input that had no opposite

    def __str__(self) -> str:
        lost = [
            f"{self.self_loops:,} self-loops" if self.self_loops else "",
            f"{self.duplicates:,} duplicate edges" if self.duplicates else "",
            f"{self.reversed:,} opposite directions merged" if self.reversed else "",
            f"the direction of {self.one_way:,} edges" if self.one_way else "",
            "all edge weights" if self.weights else "",
        ]
        return "dropped " + ", ".join(filter(None, lost)) if any(lost) else "nothing dropped"


def freeze(array: Any) -> Any:
    """Make an array (or the parts of a CSR matrix) read-only and return it."""
    parts = (array.data, array.indices, array.indptr) if sp.issparse(array) else (array,)
    for part in parts:
        part.setflags(write=False)
    return array


def collapse_edges(edges: Any, num_nodes: int) -> tuple[NDArray[np.int64], Collapsed]:
    """Sorted keys u*n+v (u < v) of the simple undirected graph, and what was collapsed on the way."""
    array = np.asarray(edges)
    if array.ndim != 2 or array.shape[0] != 2:
        hint = " (it looks transposed: pass edges.T)" if array.ndim == 2 and array.shape[1] == 2 else ""
        raise GraphError(f"edges must be an integer array of shape [2, E], got {array.shape}{hint}")
    if array.size and not _whole(array):
        raise GraphError(f"edges must hold whole node numbers, got dtype {array.dtype}; map node ids to 0..n-1 first")
    if num_nodes > MAX_NODES:
        raise GraphError(
            f"{num_nodes} nodes: edges are sorted by 64-bit keys, which suffice for {MAX_NODES} nodes; split the graph"
        )
    array = array.astype(np.int64, copy=False)
    bad = (array < 0) | (array >= num_nodes)
    if bad.any():
        column = int(np.flatnonzero(bad.any(axis=0))[0])
        node = int(array[:, column][bad[:, column]][0])
        raise GraphError(
            f"edge {column} names node {node}, but the graph has nodes 0..{num_nodes - 1}; "
            "fix the edge or pass features/labels for every node"
        )
    u, v = array
    loops = u == v
    u, v = u[~loops], v[~loops]
    directed = _unique_sorted(u * num_nodes + v)
    keys = _unique_sorted(np.minimum(u, v) * num_nodes + np.maximum(u, v))
    return keys, Collapsed(
        self_loops=int(loops.sum()), duplicates=len(u) - len(directed), reversed=len(directed) - len(keys)
    )


def _whole(array: NDArray[Any]) -> bool:
    if array.dtype.kind == "f":
        return bool(np.isfinite(array).all() and (array == np.floor(array)).all())
    return array.dtype.kind in "iu"


def _unique_sorted(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    keys = np.sort(keys)
    keep = np.ones(len(keys), dtype=bool)
    keep[1:] = keys[1:] != keys[:-1]
    return keys[keep]


def check_features(x: Any, num_nodes: int) -> Features:
    """Finite float features as a fresh CSR matrix or array with one row per node."""
    x = sp.csr_matrix(x) if sp.issparse(x) else np.array(x)
    if x.ndim != 2 or x.shape[0] != num_nodes:
        raise GraphError(f"features must have one row per node, [{num_nodes}, F], got shape {tuple(x.shape)}")
    kind = x.dtype.kind
    if kind not in "fiub":
        raise GraphError(f"features must be numbers, got dtype {x.dtype}")
    if x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float32)
    values = x.data if sp.issparse(x) else x
    if not np.isfinite(values).all():
        row, column = _first_bad_cell(x)
        raise GraphError(
            f"feature [{row}, {column}] is {x[row, column]}; features must be finite, so impute or drop such cells"
        )
    if sp.issparse(x):
        x = x.copy()
        x.sum_duplicates()
        x.eliminate_zeros()
        x.sort_indices()
    return x


def _first_bad_cell(x: Any) -> tuple[int, int]:
    if sp.issparse(x):
        at = int(np.flatnonzero(~np.isfinite(x.data))[0])
        return int(np.searchsorted(x.indptr, at, side="right") - 1), int(x.indices[at])
    row, column = np.argwhere(~np.isfinite(x))[0]
    return int(row), int(column)


def check_labels(y: Any, num_nodes: int, num_classes: int | None) -> tuple[NDArray[Any], int]:
    """int64 [n] classes (-1 = unlabelled) or uint8 [n, L] multi-hot labels, and the number of classes."""
    y = np.array(y)
    if y.shape[:1] != (num_nodes,) or y.ndim not in (1, 2):
        raise GraphError(f"labels must have one entry per node ({num_nodes}), got shape {y.shape}")
    if y.dtype.kind == "f" and (not np.isfinite(y).all() or (y != np.floor(y)).any()):
        raise GraphError("labels must be whole class numbers; map class names to 0..C-1 first (-1 = unlabelled)")
    if y.dtype.kind not in "iubf":
        raise GraphError(f"labels must be class numbers, got dtype {y.dtype}; map class names to 0..C-1 first")
    if y.ndim == 2:
        if ((y != 0) & (y != 1)).any():
            raise GraphError("multi-label y must hold only 0 and 1, one column per label")
        return y.astype(np.uint8), y.shape[1]
    y = y.astype(np.int64)
    top = int(y.max()) + 1 if len(y) else 0
    classes = top if num_classes is None else num_classes
    bad = (y < -1) | (y >= classes)
    if bad.any():
        node = int(np.flatnonzero(bad)[0])
        raise GraphError(
            f"node {node} has label {int(y[node])}, but the classes are 0..{classes - 1} (-1 = unlabelled); "
            "relabel it or raise num_classes"
        )
    return y, classes


def check_split(split: Mapping[str, Any] | Split, num_nodes: int, y: NDArray[Any] | None, name: str) -> Split:
    """Three disjoint boolean masks whose nodes all carry a label."""
    given = split._asdict() if isinstance(split, Split) else dict(split)
    masks = {}
    for part in ("train", "val", "test"):
        raw = given.get(part)
        mask = np.zeros(num_nodes, dtype=bool) if raw is None else np.array(raw)
        if mask.dtype != np.bool_ or mask.shape != (num_nodes,):
            raise GraphError(
                f"{part} mask of split {name!r} must be boolean of shape [{num_nodes}], got {mask.dtype} {mask.shape}"
            )
        masks[part] = freeze(mask)
    for a, b in (("train", "val"), ("train", "test"), ("val", "test")):
        both = np.flatnonzero(masks[a] & masks[b])
        if len(both):
            raise GraphError(
                f"split {name!r}: node {both[0]} is in both the {a} and the {b} mask ({len(both)} such nodes); "
                "each node may serve once"
            )
    if y is not None and y.ndim == 1:
        bare = np.flatnonzero((masks["train"] | masks["val"] | masks["test"]) & (y < 0))
        if len(bare):
            raise GraphError(f"split {name!r} uses node {bare[0]}, which has no label; drop it from the masks")
    return Split(**masks)
