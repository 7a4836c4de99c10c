"""Folders on this machine that may hold ``<name>/graph.npz``."""

from __future__ import annotations

import os
from pathlib import Path

from edgeveil.graph.sources.cache import cache_dir

__all__ = ["data_roots", "find_local"]

Root = tuple[str, Path]


def data_roots(data_root: str | Path | None = None) -> list[Root]:
    """The given folder, else ``EDGEVEIL_DATA``, else ``../shared/data`` beside the checkout or the working folder."""
    if data_root is not None:
        return [("data root", Path(data_root).expanduser())]
    given = os.environ.get("EDGEVEIL_DATA")
    if given:
        return [("EDGEVEIL_DATA", Path(given).expanduser())]
    checkout = Path(__file__).resolve().parents[4]
    bases = [checkout] if (checkout / "pyproject.toml").is_file() else []
    folders = [base.parent / "shared" / "data" for base in [*bases, Path.cwd().resolve()]]
    return [("../shared/data", folder) for folder in dict.fromkeys(folders) if folder.is_dir()]


def find_local(folder: str, data_root: str | Path | None = None) -> list[Root]:
    """Every local place of a graph file, in order; the cache comes last."""
    return [(label, root / folder / "graph.npz") for label, root in [*data_roots(data_root), ("cache", cache_dir())]]
