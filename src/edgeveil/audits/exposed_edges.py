"""Which true edges an attacker finds: for the owner's eyes, in a file that only the owner can read."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgeveil.errors import StorageError
from edgeveil.graph.graph import Graph
from edgeveil.runs.records import Record

__all__ = ["write_exposed"]

COLUMNS = ("kind", "defence", "epsilon", "seed", "attack", "u", "v", "rank", "score", "found", "exposure")


def write_exposed(path: Path, graph: Graph, records: Sequence[Record]) -> None:
    """CSV with one line per true edge (its rank and score under the strongest attack) and one per attacked node.

    `found` says whether the edge is among the first k pairs, k being the number of true edges attacked; `exposure` is
    the share of a node's edges that are found. Node names are the graph's own where it has them.
    """
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, restval="")
    table.writeheader()
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    for record in records:
        row, leak = record.rows[0], record.details["leak"]
        base = {key: row[key] for key in ("defence", "epsilon", "seed")} | {"attack": leak["strongest"]}
        for edge in leak["found"]:
            table.writerow({"kind": "edge", **base, **edge, "u": ids[edge["u"]], "v": ids[edge["v"]]})
        for node, share in leak["exposure"].get("shares", {}).items():
            table.writerow({"kind": "node", **base, "u": ids[int(node)], "exposure": share})
    _write_private(path, text.getvalue())


def _write_private(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
