"""From raw files of the public collections to the arrays of our graph format. Pure: bytes in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import StorageError
from edgeveil.graph.sources.pickles import read_pickle
from edgeveil.graph.validate import collapse_edges

__all__ = ["READERS", "Raw", "pack", "reader"]

Raw = Mapping[str, bytes]  # file name -> content
Arrays = dict[str, NDArray[Any]]
READERS: dict[str, Callable[[Raw], Arrays]] = {}


def reader(name: str) -> Callable[[Callable[[Raw], Arrays]], Callable[[Raw], Arrays]]:
    """Register a reader under the name that catalogue files use."""

    def wrap(function: Callable[[Raw], Arrays]) -> Callable[[Raw], Arrays]:
        READERS[name] = function
        return function

    return wrap


def pack(edges: Any, x: Any, y: Any, masks: Mapping[str, Any] | None = None) -> Arrays:
    """The arrays of one graph file; direction and repeats are dropped, self-loops kept apart."""
    edges, n = np.asarray(edges, np.int64), len(y)
    keys, _ = collapse_edges(edges, n)
    x = sp.csr_matrix(x, dtype=np.float32)
    x.sum_duplicates()
    x.eliminate_zeros()
    x.sort_indices()
    loops = np.unique(edges[0][edges[0] == edges[1]])
    arrays = {
        "edge_index": np.stack([keys // n, keys % n]).astype(np.int32),
        "x_data": x.data,
        "x_indices": x.indices.astype(np.int32),
        "x_indptr": x.indptr.astype(np.int64),
        "x_shape": np.asarray(x.shape, np.int64),
        "y": np.asarray(y, np.uint8 if np.ndim(y) == 2 else np.int64),
        **{f"{part}_mask": np.asarray(mask, bool) for part, mask in (masks or {}).items()},
    }
    return arrays | ({"self_loops": loops.astype(np.int32)} if len(loops) else {})


def spans(n: int, **parts: Any) -> dict[str, NDArray[np.bool_]]:
    """Masks over n nodes from index arrays."""
    masks = {}
    for part, nodes in parts.items():
        masks[part] = np.zeros(n, dtype=bool)
        masks[part][nodes] = True
    return masks


def _one(raw: Raw, ending: str) -> bytes:
    for name, content in raw.items():
        if name.endswith(ending):
            return content
    raise StorageError(f"the raw files lack one ending in {ending!r}; got {', '.join(sorted(raw)) or 'none'}")


@reader("planetoid")
def planetoid(raw: Raw) -> Arrays:
    """``ind.<name>.{y,allx,ally,tx,ty,graph,test.index}`` with the public split."""
    parts = {key: read_pickle(_one(raw, f".{key}"), key) for key in ("y", "allx", "ally", "tx", "ty", "graph")}
    test = np.array(_one(raw, ".test.index").split(), np.int64)
    known = parts["allx"].shape[0]
    n = int(test.max()) + 1
    place = sp.csr_matrix((np.ones(len(test)), (test - known, np.arange(len(test)))), shape=(n - known, len(test)))
    x = sp.vstack([parts["allx"], place @ parts["tx"]])  # test rows that the source lacks stay empty
    y = np.concatenate([parts["ally"], place @ parts["ty"]]).argmax(axis=1)
    graph = parts["graph"]
    u = np.repeat(list(graph), [len(row) for row in graph.values()])
    v = np.concatenate([np.asarray(row, np.int64) for row in graph.values()])
    train = len(parts["y"])
    return pack(np.stack([u, v]), x, y, spans(n, train=slice(train), val=slice(train, train + 500), test=test))


@reader("linqs-cora")
def linqs_cora(raw: Raw) -> Arrays:
    """``cora.content`` and ``cora.cites``, put into Planetoid's node order, which the public split refers to."""
    classes = (
        "Theory", "Reinforcement_Learning", "Genetic_Algorithms", "Neural_Networks",
        "Probabilistic_Methods", "Case_Based", "Rule_Learning",
    )  # fmt: skip
    with (files("edgeveil.graph") / "catalog" / "cora-linqs-ids.npy").open("rb") as file:
        ids = np.load(file, allow_pickle=False)
    rows = {
        int(row[0]): row for row in (line.split() for line in _one(raw, "cora.content").decode().splitlines()) if row
    }
    ordered = [rows[int(node)] for node in ids]
    words = np.array([row[1:-1] for row in ordered]).astype(np.float32)
    y = np.array([classes.index(row[-1]) for row in ordered])
    order = np.argsort(ids)
    cites = np.array(_one(raw, "cora.cites").split(), np.int64).reshape(-1, 2).T
    edges = order[np.searchsorted(ids, cites, sorter=order)]
    masks = spans(len(ids), train=slice(140), val=slice(140, 640), test=slice(1708, 2708))
    return pack(edges, words, y, masks) | {"linqs_id": ids}
