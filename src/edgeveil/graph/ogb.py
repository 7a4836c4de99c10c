"""An Open Graph Benchmark folder as it lies on disk (``raw``, ``split``, ``mapping``), read without OGB's package."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import GraphError
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Collapsed, collapse_edges

__all__ = ["is_ogb", "read_ogb"]

PARTS = {"train": "train", "val": "valid", "test": "test"}


def is_ogb(folder: str | Path) -> bool:
    """Whether a folder has the raw files of a node property dataset."""
    return (Path(folder) / "raw" / "edge.csv.gz").is_file()


def read_ogb(folder: str | Path, name: str | None = None) -> Graph:
    """The graph of an ogbn folder: features, labels (NaN: none), every split, node ids, class names.

    The number of nodes comes from the folder's own list, not from its edges, so nodes are public.
    """
    root = Path(folder)
    if (root / "raw" / "triplet-type-list.csv.gz").exists() or (root / "raw" / "nodetype-has-label.csv.gz").exists():
        raise GraphError(f"{root.name} has several kinds of nodes or edges; a graph here has one kind of each")
    edges = _table(root / "raw" / "edge.csv.gz", np.int64).reshape(-1, 2).T
    nodes = int(_table(root / "raw" / "num-node-list.csv.gz", np.int64).ravel()[0])
    keys, counted = collapse_edges(edges, nodes)
    y = _labels(root / "raw" / "node-label.csv.gz")
    known = np.ones(nodes, bool) if y is None or y.ndim == 2 else y >= 0
    splits = {p.name: _split(p, known) for p in sorted((root / "split").glob("*")) if (p / "train.csv.gz").is_file()}
    features = root / "raw" / "node-feat.csv.gz"
    names = _classes(root / "mapping", y)
    return Graph.from_edges(
        edges,
        _table(features, np.float32).reshape(nodes, -1) if features.is_file() else None,
        y,
        num_nodes=nodes,
        num_classes=None if names is None else len(names),
        class_names=names,
        splits=splits,
        split=next(iter(splits), None),
        name=name or root.name.replace("_", "-"),
        node_ids=_ids(root / "mapping", nodes),
        collapsed=Collapsed(one_way=len(keys) - counted.reversed),
    )


def _table(path: Path, dtype: Any) -> NDArray[Any]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return np.loadtxt(file, delimiter=",", dtype=dtype, ndmin=2)
    except (OSError, EOFError, ValueError) as error:
        raise GraphError(f"cannot read {path}: {error}; an OGB folder keeps its tables in raw/*.csv.gz") from error


def _labels(path: Path) -> Any:
    if not path.is_file():
        return None
    y = _table(path, np.float64)
    if y.shape[1] > 1:
        if np.isnan(y).any():
            raise GraphError(f"{path.name} leaves some of a node's labels open; a node has all its labels here")
        return y.astype(np.int64)
    return np.where(np.isnan(y[:, 0]), -1, y[:, 0]).astype(np.int64)


def _split(folder: Path, labelled: NDArray[np.bool_]) -> dict[str, Any]:
    masks = {}
    for part, file in PARTS.items():
        chosen = _table(folder / f"{file}.csv.gz", np.int64).ravel()
        masks[part] = labelled & np.isin(np.arange(len(labelled)), chosen)
    return masks


def _ids(mapping: Path, nodes: int) -> Sequence[str] | None:
    """What ``nodeidx2...`` calls the nodes, where it names every one of them."""
    ids = _mapping(mapping, "nodeidx2*.csv.gz")
    return [ids[i] for i in range(nodes)] if len(ids) == nodes == len(set(ids.values())) else None


def _classes(mapping: Path, y: Any) -> Sequence[str] | None:
    """What ``labelidx2...`` calls the classes, where it names those that occur."""
    names = _mapping(mapping, "labelidx2*.csv.gz")
    count = 0 if y is None or y.ndim == 2 else int(y.max(initial=-1)) + 1
    whole = sorted(names) == list(range(len(names))) and 0 < count <= len(names) == len(set(names.values()))
    return [names[i] for i in range(len(names))] if whole else None


def _mapping(folder: Path, pattern: str) -> dict[int, str]:
    """A two-column table below a header; empty where the folder has none."""
    path = next(iter(sorted(folder.glob(pattern))), None)
    if path is None:
        return {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return {int(row[0]): row[1] for row in list(csv.reader(file))[1:]}
