"""Which runs to do next: those that decide most printed cells per hour.

A cell that nothing was measured for is worth 1; one whose verdict a further seed may turn, half. Cells share runs, so
they are bought together: at each step the set of missing runs with the largest worth per second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from edgeveil.papers.agreement import LEAST, Comparison
from edgeveil.papers.books import BOOKS, runnable
from edgeveil.papers.judge import comparison
from edgeveil.papers.recipes import Cell, Paper, run_key, seeded
from edgeveil.papers.reproduce import find
from edgeveil.papers.samples import Samples, asked, cell_key, measured
from edgeveil.runs.costs import estimate, speed
from edgeveil.runs.executors import Executor
from edgeveil.runs.run_config import RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import Loader, Progress, sweep

__all__ = ["Spent", "choose", "left", "missing", "spend", "tables_of", "worth"]

MOST_SEEDS = 5
FIRST = 40  # the first slice is this part of the time: nobody knows yet how long a run takes here
FASTEST = 0.1  # estimates are trusted to this factor when runs turn out to be quicker
Missing = dict[tuple[str, int], RunConfig]


def tables_of(name: str) -> list[tuple[Paper, str]]:
    """``lpgnet:7`` as that table, ``lpgnet`` as all of its tables."""
    if ":" in name:
        return [find(name)]
    book = BOOKS.get(name.strip().lower())
    return [find(name)] if book is None else [(book, table) for table in book.tables()]


def worth(cell: Cell, samples: Samples) -> float:
    """What one more seed would tell about a cell."""
    if not runnable(cell) or cell.aside or "published" not in cell.recipes:
        return 0.0
    found = comparison(cell, "published", samples)
    if found is None:
        return 1.0
    kept = samples.cells.get((cell_key(cell.published), "published"))
    settled = found.agrees is None or found.runs >= MOST_SEEDS or (kept is not None and kept.runs >= found.runs)
    return 0.5 if not settled and _undecided(found, cell.published.unit) else 0.0


def _undecided(c: Comparison, unit: str) -> bool:
    error = max(c.pooled, LEAST[unit] / 2) / math.sqrt(c.runs)
    return abs(abs(c.difference) - c.tolerance) < error


def missing(cell: Cell, samples: Samples, seed: int | None = None) -> Missing:
    """The runs of a seed (default: the first incomplete one) that a cell lacks, by run and seed."""
    terms = cell.recipes["published"].terms
    have = [{seed for seed, _ in samples.of(term)} for term in terms]
    if seed is None:
        complete = set.intersection(*have)
        seed = next(s for s in range(len(complete) + 1) if s not in complete)
    lacking = (term.run for term, seeds in zip(terms, have, strict=True) if seed not in seeds)
    return {(run_key(run), seed): seeded(run, seed) for run in lacking}


def left(cells: Iterable[Cell], samples: Samples, seeds: int) -> float:
    """Processor hours, on this machine, of what is missing for so many seeds of some cells."""
    runs: Missing = {}
    for cell in cells:
        kept = samples.cells.get((cell_key(cell.published), "published"))
        done = 0 if kept is None else kept.runs
        if runnable(cell) and "published" in cell.recipes:
            for seed in range(seeds if done < seeds else 0):
                runs |= missing(cell, samples, seed)
    return estimate(runs.values()) * speed() / 3600


@dataclass
class _Group:
    runs: set[tuple[str, int]]
    worth: float = 0.0
    seconds: float = 0.0


def choose(
    cells: Iterable[Cell], samples: Samples, seconds: float, without: Container[tuple[str, int]] = ()
) -> list[RunConfig]:
    """Runs that fit into `seconds` of processor time, the most telling first; none if not even one set fits.

    Cells that need a run of `without` (it failed) are passed over.
    """
    every: Missing = {}
    groups: dict[frozenset[tuple[str, int]], _Group] = {}
    for cell in cells:
        gain = worth(cell, samples)
        lacking = missing(cell, samples) if gain else {}
        if lacking and not any(name in without for name in lacking):
            every |= lacking
            group = groups.setdefault(frozenset(lacking), _Group(set(lacking)))
            group.worth += gain
    costs = {name: estimate([run]) * speed() for name, run in every.items()}
    where: dict[tuple[str, int], list[_Group]] = {}
    for group in groups.values():
        group.seconds = math.fsum(costs[name] for name in group.runs)
        for name in group.runs:
            where.setdefault(name, []).append(group)
    chosen = [every[name] for name in _greedy(list(groups.values()), where, costs, seconds)]
    # GraphPrivatizer's runs that only measure accuracy validate every epoch, and leave the last one's weights behind
    # for those that attack it.
    return sorted(chosen, key=lambda run: bool(run.attacks))


def _greedy(
    open_: list[_Group],
    where: dict[tuple[str, int], list[_Group]],
    costs: dict[tuple[str, int], float],
    seconds: float,
) -> Iterator[tuple[str, int]]:
    while open_:
        fitting = [group for group in open_ if group.seconds <= seconds]
        if not fitting:
            return
        best = max(fitting, key=lambda group: group.worth / max(group.seconds, 1e-9))
        seconds -= best.seconds
        for name in sorted(best.runs):
            yield name
            for group in where[name]:
                group.runs.discard(name)
                group.seconds -= costs[name]
        open_ = [group for group in open_ if group.runs]


@dataclass
class Spent:
    """What a budget bought."""

    runs: int = 0
    failures: dict[str, tuple[str, str]] = field(default_factory=dict)
    before: int = 0
    after: int = 0
    finished: bool = False  # nothing telling is left


def spend(
    name: str,
    store: Store,
    executor: Executor,
    load: Loader,
    seconds: float,
    *,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Spent:
    """Do telling runs until the time is over; the store keeps each, and a second call goes on where this one ended.

    Done in slices of about a tenth: what a slice found decides what the next one does, and how long it took (`pace`:
    seconds that pass per estimated one; costs are rough and cores are shared) how much the next one holds.
    """
    spent, pace, slice_ = Spent(), 1.0, max(seconds / FIRST, 60.0)
    cells = [cell for book, table in tables_of(name) for cell in book.cells(table, "full")]
    samples = deepcopy(measured())
    samples.add_store(store, asked())
    spent.before = _count(cells, samples)
    failed: set[tuple[str, int]] = set()
    end = clock() + seconds
    while (rest := end - clock()) > 0:
        runs = choose(cells, samples, min(slice_, rest) * executor.workers / pace, failed)
        runs = runs or choose(cells, samples, rest * executor.workers / pace, failed)
        if not runs:
            break
        summary = sweep(runs, store, executor, load, plan=f"{name} budget", progress=progress)
        expected = estimate(runs) * speed() / executor.workers
        pace = max((rest - (end - clock())) / max(expected, 1e-9), FASTEST)
        slice_ = max(seconds / 10, 60.0)
        spent.runs += summary.done
        spent.failures |= summary.failures
        failed |= {_name(task.config) for task in summary.tasks if task.id in summary.failures}
        samples.add_store(store, asked())
    spent.after = _count(cells, samples)
    spent.finished = not any(worth(cell, samples) for cell in cells)
    return spent


def _name(config: Mapping[str, Any]) -> tuple[str, int]:
    run = RunConfig.model_validate(config)
    return run_key(run), run.seed


def _count(cells: Iterable[Cell], samples: Samples) -> int:
    return sum(1 for c in cells if "published" in c.recipes and runnable(c) and comparison(c, "published", samples))
