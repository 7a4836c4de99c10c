"""The printed tables judged with the samples kept in the package: nothing is run."""

from __future__ import annotations

from functools import cache

from edgeveil.papers.agreement import Comparison, compare, compare_summary
from edgeveil.papers.books import BOOKS, every_cell
from edgeveil.papers.recipes import Cell, evaluate, scale
from edgeveil.papers.reproduce import Judged, TableResult
from edgeveil.papers.samples import Samples, cell_key, measured
from edgeveil.runs.sweep import Summary

__all__ = ["comparison", "judge", "judged_table"]

UNMEASURED = "not measured"
ROUNDED = 2e-5  # kept means and deviations have five decimals, and a verdict depends on both


def comparison(cell: Cell, variant: str, samples: Samples) -> Comparison | None:
    """A cell's samples against the print; its kept mean and deviation where these stand for more samples."""
    p = cell.published
    found = [scale(p.unit) * value for value in evaluate(cell.recipes[variant], samples.of)]
    kept = samples.cells.get((cell_key(p), variant))
    if kept is not None and kept.runs > len(found):
        return compare_summary(kept.mean, kept.std, kept.runs, p.mean, p.std, p.unit, ROUNDED)
    return compare(found, p.mean, p.std, p.unit) if found else None


def judge(cell: Cell, samples: Samples) -> Judged:
    """One cell with what is known about it."""
    if cell.why:
        return Judged(cell, why=cell.why)
    every = {variant: comparison(cell, variant, samples) for variant in cell.recipes}
    found = {variant: c for variant, c in every.items() if c is not None}
    return Judged(cell, found, "" if found else UNMEASURED)


@cache
def judged_table(paper: str, table: str) -> TableResult:
    """A whole table, with the samples of the package."""
    book = BOOKS[paper]
    cells = tuple(judge(cell, measured()) for cell in every_cell(book, table))
    return TableResult(book, table, "full", book.seeds(table, "full"), cells, Summary())
