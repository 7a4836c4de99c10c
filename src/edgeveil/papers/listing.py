"""The list of tables: what is printed, can be run, is measured, agrees, and how long the rest would take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edgeveil.papers.books import BOOKS, runnable
from edgeveil.papers.draw import figure_runs
from edgeveil.papers.figure_recipes import FIGURES
from edgeveil.papers.judge import judged_table
from edgeveil.papers.recipes import Mode, Paper
from edgeveil.papers.reproduce import TableResult, needed
from edgeveil.papers.run_budget import left
from edgeveil.papers.samples import measured
from edgeveil.runs.costs import estimate, speed
from edgeveil.runs.run_config import RunConfig

__all__ = ["MODES", "Standing", "lines", "standing"]

MODES: tuple[Mode, ...] = ("quick", "default", "full")


@dataclass(frozen=True)
class Standing:
    """Where a table stands. Figures of twins are not measured ones; `counted` leaves out cells that are set aside."""

    printed: int
    runnable: int
    measured: int
    agree: int
    counted: int
    seeds: tuple[int, ...]  # how many samples the measured figures have
    twins: int = 0


def standing(result: TableResult) -> Standing:
    """Count a judged table."""
    own = [j for j in result.cells if runnable(j.cell)]
    known = [j.comparisons["published"] for j in own if "published" in j.comparisons]
    agree, counted = result.agreement()
    return Standing(
        printed=len(result.cells),
        runnable=len(own),
        measured=len(known),
        agree=agree,
        counted=counted,
        seeds=tuple(sorted({c.runs for c in known})),
        twins=sum(1 for j in result.cells if j.comparisons and not runnable(j.cell)),
    )


def lines(cores: int, duration: Callable[[float], str]) -> Iterator[str]:
    """Every table and drawn figure, one line each, with the time that each mode would take."""
    head = f"{'table':<24}{'printed':>8}{'runnable':>9}{'measured':>9}{'agree':>12}{'left':>8}"
    yield head + "".join(f"{mode:>9}" for mode in MODES)
    for book in BOOKS.values():
        for name in book.tables():
            yield _table_line(book, name, cores, duration)
        for figure, (what, _) in FIGURES.get(book.name, {}).items():
            times = (_time(*figure_runs(book.name, figure, mode), cores, duration) for mode in MODES)
            yield f"{f'{book.name}:{figure}':<24}{'drawn':>8}{'':>38}{''.join(times)}  {what}"


def _table_line(book: Paper, name: str, cores: int, duration: Callable[[float], str]) -> str:
    found = standing(judged_table(book.name, name))
    every = list(book.cells(name, "full"))
    hours = left(every, measured(), book.seeds(name, "default"))
    agree = f"{found.agree} of {found.counted}" if found.counted else "-"
    line = f"{f'{book.name}:{name}':<24}{found.printed:>8}{found.runnable:>9}{found.measured:>9}{agree:>12}"
    line += f"{duration(3600 * hours / cores) if hours else '-':>8}"
    for mode in MODES:
        cells = every if mode != "quick" else book.cells(name, mode)
        base = needed((cell for cell in cells if not cell.why), 1, ("published", "correct"))
        line += _time(base, book.seeds(name, mode), cores, duration)
    reasons = {cell.why for cell in every}
    return line + (f"  cannot be run: {min(reasons)}" if "" not in reasons else "")


def _time(runs: list[RunConfig], seeds: int, cores: int, duration: Callable[[float], str]) -> str:
    return f"{duration(estimate(runs) * seeds * speed() / cores) if runs else '-':>9}"
