"""Datasets by name: the real graphs of the three papers, LPGNet's bipartite graph, and the synthetic twins."""

from __future__ import annotations

from pathlib import Path

from edgeveil.errors import InputError, StorageError, UnknownNameError
from edgeveil.graph import sources
from edgeveil.graph.catalog import TWIN, Dataset, dataset, names
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import read_npz
from edgeveil.graph.sources.folders import find_local
from edgeveil.graph.splits import apply_split
from edgeveil.registry import canonical

__all__ = ["check_statistics", "load"]


def load(
    name: str,
    split: str | int | None = None,
    split_seed: int = 0,
    data_root: str | Path | None = None,
    progress: sources.Progress | None = None,
) -> Graph:
    """Load a dataset by name (``-`` and ``_`` alike) with its default split, a stored one or one drawn by rule.

    Besides the known names, any ``<data root>/<name>/graph.npz`` loads under its folder's name.
    """
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"a dataset is named by a string such as 'cora', got {name!r}")
    key = canonical(name)
    if key.removesuffix(TWIN) not in names():
        graph = _own_folder(name, data_root)
        return graph if split is None else apply_split(graph, split, split_seed)
    record = dataset(key)
    graph = _base(record, key.endswith(TWIN), data_root, progress)._replace(origin=key, dataset=key)
    chosen = record.default_split if split is None else split
    return graph if chosen is None else apply_split(graph, chosen, split_seed)


def _base(record: Dataset, wants_twin: bool, data_root: str | Path | None, progress: sources.Progress | None) -> Graph:
    if wants_twin or record.generated:
        from edgeveil.graph.twins import bipartite, twin

        return twin(record.name) if wants_twin else bipartite()
    found = sources.find(record, data_root, progress)
    graph = read_npz(found.path, name=record.name, split=record.default_split or "given")
    problems = check_statistics(graph, record)
    if problems:
        raise StorageError(f"{found.path} is not {record.name!r}: {'; '.join(problems)}. Remove it or fetch it again.")
    return graph.with_split(None)


def check_statistics(graph: Graph, record: Dataset) -> list[str]:
    """How a graph differs from the published statistics of its dataset (nothing, if it is the real one)."""
    measured = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
    }
    return [
        f"it has {got:,} {what} instead of {getattr(record, what):,}"
        for what, got in measured.items()
        if got != getattr(record, what)
    ]


def _own_folder(name: str, data_root: str | Path | None) -> Graph:
    folders = dict.fromkeys((name, canonical(name), canonical(name).replace("-", "_")))
    plain = [folder for folder in folders if Path(folder).name == folder]
    for folder in plain:
        for _, path in find_local(folder, data_root):
            if path.is_file():
                return read_npz(path, name=canonical(name))
    raise UnknownNameError("dataset", name, [*names(), *(n + TWIN for n in names())])
