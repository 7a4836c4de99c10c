"""The figures that papers print, as data: one `Published` per printed number."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from edgeveil.errors import UnknownNameError

__all__ = ["DOUBTS", "PAPERS", "Published", "find_table", "published", "tables"]

PAPERS = ("linkteller", "lpgnet", "graphprivatizer", "blink")
DOUBTS = {
    "L1": "Table XXI prints the unconstrained block twice; Table XII(b) shows that the high-degree one differs",
    "L2": "precision and recall of these cells cannot both be right for any subset",
    "L3": "Table XII(b) contradicts Tables I and IX for the vanilla GCN",
    "P1": "this summary table contradicts the full table it summarises",
    "P5": "the printed standard deviation does not fit its neighbours",
    "G2": "GAT and GCN are swapped in this table, compared with Table 8",
    "G3": "this table and Tables 9 or 12 disagree in sign or size",
    "G4": "Table 1(b) contradicts Table 6 for Amazon Photo",
    "G5": "the reference cell of a difference should be 0",
}


@dataclass(frozen=True)
class Published:
    """One printed number and what identifies it; empty strings mean that the table has no such column.

    `unit` is ``pct``, ``fraction``, ``auc100`` or ``s``; `runs` is how many runs it averages, if stated.
    """

    paper: str
    table: str
    dataset: str
    model: str
    mechanism: str
    epsilon: str
    degree: str
    belief: str
    layers: str
    alpha: str
    delta: str
    attack: str
    metric: str
    mean: float
    std: float | None
    runs: int | None
    unit: str
    doubt: str


@cache
def published(paper: str) -> tuple[Published, ...]:
    """Every figure of one paper, in printed order."""
    if paper not in PAPERS:
        raise UnknownNameError("paper", paper, PAPERS)
    return tuple(cell for cell in _read() if cell.paper == paper)


@cache
def _read() -> tuple[Published, ...]:
    raw = gzip.decompress((files("edgeveil.papers") / "data" / "published.csv.gz").read_bytes()).decode()
    return tuple(_cells(csv.DictReader(io.StringIO(raw))))


def _cells(rows: csv.DictReader[str]) -> Iterator[Published]:
    for row in rows:
        mean, std, runs = row.pop("mean"), row.pop("std"), row.pop("runs")
        spread = float(std) if std else None
        yield Published(**row, mean=float(mean), std=spread, runs=int(runs) if runs else None)


def tables(paper: str) -> tuple[str, ...]:
    """Names of a paper's tables that have printed figures, in order of first appearance."""
    return tuple(dict.fromkeys(cell.table for cell in published(paper)))


def find_table(paper: str, table: str) -> tuple[Published, ...]:
    """The figures of one table; ``text:G2`` names figures quoted in running text. Case does not matter."""
    known = {name.lower(): name for name in tables(paper)}
    name = known.get(table.strip().lower())
    if name is None:
        raise UnknownNameError(f"table of {paper}", table, known.values())
    return tuple(cell for cell in published(paper) if cell.table == name)
