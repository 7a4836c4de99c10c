"""Real graphs from the files that their authors publish."""

from __future__ import annotations

from pathlib import Path

from edgeveil.errors import EdgeveilError
from edgeveil.graph.catalog import Dataset
from edgeveil.graph.sources.cache import Progress, SourceFailed, cache_dir
from edgeveil.graph.sources.conversion import store
from edgeveil.graph.sources.http import download

__all__ = ["from_upstream"]


def from_upstream(record: Dataset, target: Path, progress: Progress | None = None) -> None:
    """Download every raw file (kept in the cache), convert, check and write the graph file."""
    folder = cache_dir() / "raw" / record.folder
    paths = [download(item.url, folder / Path(item.file).name, item.check, progress) for item in record.upstream]
    try:
        store(record, record.reader, {path.name: path.read_bytes() for path in paths}, target)
    except (EdgeveilError, OSError) as error:
        for path in paths:  # some raw file is not what it should be: the next try fetches all of them anew
            path.unlink(missing_ok=True)
        raise SourceFailed(f"the files of {record.name!r} do not convert: {error}") from error
