"""`reproduce`: run what a printed table needs, and set ours beside theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edgeveil.errors import UnknownNameError, UsageError
from edgeveil.papers.agreement import Comparison, compare, share
from edgeveil.papers.books import BOOKS, usable
from edgeveil.papers.other_model import cell_with, swap_to
from edgeveil.papers.published import find_table
from edgeveil.papers.recipes import Cell, Mode, Paper, Recipe, Sample, Term, evaluate, run_key, scale, seeded
from edgeveil.runs.executors import Executor
from edgeveil.runs.records import Record
from edgeveil.runs.run_config import RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import Loader, Progress, Summary, stored, sweep

__all__ = ["Judged", "TableResult", "find", "needed", "needed_recipes", "records_of", "reproduce", "values_of"]


@dataclass(frozen=True)
class Judged:
    """A cell with its comparisons by variant; `why` says why there is none."""

    cell: Cell
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True)
class TableResult:
    """A reproduced table. `model`: what stood in for the paper's model; then no cell has a verdict."""

    paper: Paper
    table: str
    mode: Mode
    seeds: int
    cells: tuple[Judged, ...]
    summary: Summary
    rows: tuple[Mapping[str, Any], ...] = ()
    model: str = ""

    def agreement(self, variant: str = "published") -> tuple[int, int]:
        """(agreeing, judged) cells of a variant; cells set aside are not counted."""
        verdicts = [j.comparisons[variant].agrees for j in self.cells if variant in j.comparisons and not j.cell.aside]
        return share(verdicts)


def find(name: str) -> tuple[Paper, str]:
    """``linkteller:I`` as a paper and a table, in its printed spelling."""
    paper, colon, table = name.partition(":")
    book = BOOKS.get(paper.strip().lower())
    if book is None:
        raise UnknownNameError("paper", paper, BOOKS)
    if not colon or not table:
        raise UsageError(f"which table of {book.name}? write {book.name}:{book.tables()[0]}; edgeveil reproduce --list")
    return book, find_table(book.name, table)[0].table


def needed(cells: Iterable[Cell], seeds: int, variants: tuple[str, ...]) -> list[RunConfig]:
    """Distinct runs behind some cells, seed by seed."""
    return needed_recipes(
        (recipe for cell in cells for variant, recipe in cell.recipes.items() if variant in variants), seeds
    )


def needed_recipes(recipes: Iterable[Recipe], seeds: int) -> list[RunConfig]:
    """Distinct runs behind some recipes."""
    bases = {run_key(term.run): term.run for recipe in recipes for term in recipe.terms}
    return [seeded(run, seed) for seed in range(seeds) for run in bases.values()]


def reproduce(
    name: str,
    store: Store,
    executor: Executor,
    load: Loader,
    *,
    mode: Mode = "default",
    variants: tuple[str, ...] = ("published", "correct"),
    seeds: int | None = None,
    keep: Callable[[Cell], bool] | None = None,
    model: str | None = None,
    twins: bool = False,
    any_code: bool = False,
    progress: Progress | None = None,
) -> TableResult:
    """Run a table's cells (those that `keep` admits) and compare each with its printed figure.

    `model` takes the place of the paper's; the figures are then set beside the printed ones and never judged.
    `twins` runs cells whose graph no source has on synthetic twins, set aside.
    """
    paper, table = find(name)
    cells = [cell for cell in paper.cells(table, mode) if keep is None or keep(cell)]
    cells = [usable(cell) for cell in cells] if twins else cells
    other = ""
    if model is not None:
        other, swap = swap_to(model)
        cells = [cell_with(cell, swap) for cell in cells]
    count = seeds or paper.seeds(table, mode)
    runs = needed((c for c in cells if not c.why), count, variants)
    summary = sweep(runs, store, executor, load, plan=f"{name} {mode}", any_code=any_code, progress=progress)
    found = records_of(store, summary)
    failed = {run_key(run): reason for run, reason in _reasons(summary)}
    judged = tuple(_judge(cell, found, failed, variants, theirs=not other) for cell in cells)
    rows = tuple(row for records in found.values() for record in records.values() for row in record.rows)
    return TableResult(paper, table, mode, count, judged, summary, rows, other)


def records_of(store: Store, summary: Summary) -> dict[str, dict[int, Record]]:
    """Finished records of the sweep's runs, by run and seed."""
    found: dict[str, dict[int, Record]] = {}
    for task, record in stored(store, summary):
        run = RunConfig.model_validate(task.config)
        found.setdefault(run_key(run), {})[run.seed] = record
    return found


def values_of(term: Term, found: Mapping[str, Mapping[int, Record]]) -> dict[Sample, float]:
    """What finished records say about a term, sample by sample."""
    values: dict[Sample, float] = {}
    for seed, record in found.get(run_key(term.run), {}).items():
        values |= term.values(seed, record.rows, record.figures)
    return values


def _reasons(summary: Summary) -> Iterable[tuple[RunConfig, str]]:
    by_id = {task.id: task for task in summary.tasks}
    for task_id, (_, reason) in summary.failures.items():
        yield RunConfig.model_validate(by_id[task_id].config), reason.strip().splitlines()[-1]


def _judge(
    cell: Cell,
    found: Mapping[str, Mapping[int, Record]],
    failed: Mapping[str, str],
    variants: tuple[str, ...],
    *,
    theirs: bool,
) -> Judged:
    """`theirs`: the model is the paper's, so that agreement means something."""
    if cell.why:
        return Judged(cell, why=cell.why)
    comparisons, why = {}, ""
    p = cell.published
    for variant, recipe in cell.recipes.items():
        if variant not in variants:
            continue
        samples = [scale(p.unit) * value for value in evaluate(recipe, lambda term: values_of(term, found))]
        if samples:
            made = compare(samples, p.mean, p.std, p.unit)
            comparisons[variant] = made if theirs else replace(made, agrees=None)
        else:
            reasons = [failed[key] for term in recipe.terms if (key := run_key(term.run)) in failed]
            why = why or (reasons[0] if reasons else "the runs gave no such figure")
    return Judged(cell, comparisons, "" if comparisons else why)
