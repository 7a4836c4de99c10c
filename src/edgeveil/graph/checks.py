"""Checking a data folder: every graph file against its checksum, the format and the published statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.errors import EdgeveilError
from edgeveil.graph.catalog import Dataset, dataset, names
from edgeveil.graph.datasets import check_statistics
from edgeveil.graph.npz import PARTS, graph_from_arrays, read_arrays
from edgeveil.graph.sources.conversion import content_digest
from edgeveil.graph.sources.http import digest

__all__ = ["Verdict", "check_file", "check_root"]

EXTRAS = {  # graphs that travel with the data folder but stand for no dataset of the papers
    "lastfm_nofeat": "923286905cc56bd908f9780aa1d83ce161507e731d276e3a46450cd27910dd85",
    "flickr_7575": "e6aef9426a47913e050849a0b383617bc73c8700b1a72dc1328d0b19e1eb77b8",
}


class Verdict(NamedTuple):
    """What a check found: `checksum` is "equal", "repacked" (same content), "differs" or "unknown"."""

    name: str
    path: Path
    checksum: str
    sha256: str
    problems: list[str]
    summary: str

    @property
    def good(self) -> bool:
        return not self.problems


def check_root(root: Path) -> list[Verdict]:
    """A verdict for every ``<name>/graph.npz`` below a folder."""
    return [check_file(path) for path in sorted(root.glob("*/graph.npz"))]


def check_file(path: Path) -> Verdict:
    """Read one graph file and hold it against all that is known of its dataset."""
    folder = path.parent.name
    record = next((dataset(name) for name in names() if dataset(name).folder == folder), None)
    try:
        sha256, arrays = digest(path), read_arrays(path)
    except (EdgeveilError, OSError) as error:
        return Verdict(folder, path, "unreadable", "", [str(error)], "")
    problems = _format_problems(arrays)
    try:
        graph = graph_from_arrays(arrays, folder)
    except (EdgeveilError, KeyError, ValueError, TypeError) as error:
        return Verdict(folder, path, "unreadable", sha256, [*problems, f"not a graph: {error}"], "")
    if record is not None:
        problems += check_statistics(graph, record)
    checksum = _checksum(sha256, arrays, record, folder)
    if checksum == "differs":
        problems.append(f"sha256 {sha256} and content differ from the catalogue's")
    return Verdict(folder, path, checksum, sha256, problems, repr(graph))


def _checksum(sha256: str, arrays: dict[str, Any], record: Dataset | None, folder: str) -> str:
    wanted = record.sha256 if record is not None else EXTRAS.get(folder, "")
    if not wanted:
        return "unknown"
    if sha256 == wanted:
        return "equal"
    same = record is not None and record.content and content_digest(arrays) == record.content
    return "repacked" if same else "differs"


def _format_problems(arrays: dict[str, Any]) -> list[str]:
    """Invariants of the format that building a graph would silently repair."""
    bad = []
    e = arrays.get("edge_index")
    if e is None or e.ndim != 2 or e.shape[0] != 2 or e.dtype.kind != "i":
        return ["edge_index is not an integer array [2, E]"]
    if (e[0] >= e[1]).any():
        bad.append("some edge is not u < v")
    elif e.shape[1] > 1 and not ((np.diff(e[0]) > 0) | ((np.diff(e[0]) == 0) & (np.diff(e[1]) > 0))).all():
        bad.append("edges are not strictly sorted, or repeated")
    if sum(part in arrays for part in PARTS) not in (0, 3):
        bad.append("the set of masks is incomplete")
    if "x_data" in arrays and (arrays["x_data"] == 0).any():
        bad.append("the sparse features hold explicit zeros")
    bad += [
        f"{key} holds {value.dtype}, not numbers or text" for key, value in arrays.items() if value.dtype.kind == "O"
    ]
    return bad
