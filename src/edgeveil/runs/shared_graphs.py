"""Graphs as plain named arrays, so that many processes can look at one copy: memory-mapped files or an object store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Split

__all__ = ["from_arrays", "open_graph", "save_graph", "to_arrays"]

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, Any]


def to_arrays(graph: Graph) -> tuple[Facts, Arrays]:
    """A graph's scalars and arrays; node ids are left behind, because no run needs them."""
    arrays: Arrays = {"indptr": graph.indptr, "indices": graph.indices}
    if sp.issparse(graph.x):
        x = graph.x.tocsr()
        arrays |= {"x.data": x.data, "x.indices": x.indices, "x.indptr": x.indptr}
    elif graph.x is not None:
        arrays["x"] = np.asarray(graph.x)
    if graph.y is not None:
        arrays["y"] = graph.y
    for name, split in graph.splits.items():
        arrays |= {f"split:{part}:{name}": mask for part, mask in split._asdict().items()}
    facts: Facts = {
        "num_classes": graph.num_classes,
        "split": graph.split,
        "splits": list(graph.splits),
        "name": graph.name,
        "is_twin": graph.is_twin,
        "public_nodes": graph.public_nodes,
        "origin": graph.origin,
        "dataset": graph.dataset,
        "width": graph.num_features,
        "fingerprint": graph.fingerprint,
    }
    return facts, arrays


def from_arrays(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Graph:
    """Inverse of `to_arrays`, without copying."""
    n = len(arrays["indptr"]) - 1
    x: Any = arrays.get("x")
    if "x.data" in arrays:
        x = sp.csr_matrix((n, facts["width"]), dtype=arrays["x.data"].dtype)
        x.data, x.indices, x.indptr = arrays["x.data"], arrays["x.indices"], arrays["x.indptr"]
    splits = {k: Split(*(arrays[f"split:{part}:{k}"] for part in Split._fields)) for k in facts["splits"]}
    graph = Graph(
        indptr=arrays["indptr"], indices=arrays["indices"], x=x, y=arrays.get("y"),
        num_classes=facts["num_classes"], splits=MappingProxyType(splits), split=facts["split"],
        name=facts["name"], is_twin=facts["is_twin"], public_nodes=facts["public_nodes"], origin=facts["origin"],
        dataset=facts["dataset"],
    )  # fmt: skip
    graph.__dict__["fingerprint"] = facts["fingerprint"]
    return graph


def save_graph(graph: Graph, folder: Path) -> None:
    """Write one uncompressed file per array, which `open_graph` maps into memory."""
    facts, arrays = to_arrays(graph)
    folder.mkdir(parents=True, exist_ok=True)
    names = {key: f"{number}.npy" for number, key in enumerate(arrays)}
    for key, array in arrays.items():
        np.save(folder / names[key], np.ascontiguousarray(array), allow_pickle=False)
    (folder / "graph.json").write_text(json.dumps({"facts": facts, "files": names}), encoding="utf-8")


def open_graph(folder: Path) -> Graph:
    """Map a saved graph into memory, read-only; every process that does so shares the same pages."""
    index = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    arrays = {
        key: np.asarray(np.load(folder / file, mmap_mode="r", allow_pickle=False))
        for key, file in index["files"].items()
    }
    return from_arrays(index["facts"], arrays)
