"""Figures without printed numbers: run what their panels need and give back plain series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgeveil.papers.books import BOOKS
from edgeveil.papers.figure_recipes import FIGURES, Panel
from edgeveil.papers.other_model import panel_with, swap_to
from edgeveil.papers.recipes import Mode, Recipe, Sample, Term, evaluate
from edgeveil.papers.reproduce import needed_recipes, records_of, values_of
from edgeveil.runs.executors import Executor
from edgeveil.runs.run_config import RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import Loader, Progress, sweep

__all__ = ["Drawing", "draw_figure", "figure_runs", "find_figure", "series_text"]


@dataclass(frozen=True)
class Drawing:
    """A measured figure: per panel its description and, per curve, (x, mean, standard deviation) triples."""

    name: str
    title: str
    panels: tuple[tuple[Panel, dict[str, list[tuple[Any, float, float]]]], ...]


def find_figure(name: str) -> tuple[str, str] | None:
    """(paper, figure) when a name means a figure without printed numbers."""
    paper, _, wanted = name.partition(":")
    for figure in FIGURES.get(paper.strip().lower(), {}):
        if figure.lower() == wanted.strip().lower():
            return paper.strip().lower(), figure
    return None


def draw_figure(
    paper: str, figure: str, store: Store, executor: Executor, load: Loader, *, mode: Mode = "default",
    seeds: int | None = None, model: str | None = None, any_code: bool = False, progress: Progress | None = None,
) -> Drawing:  # fmt: skip
    """Run and evaluate every panel, with `model` in place of the paper's; a point that cannot be run is left out."""
    title, build = FIGURES[paper][figure]
    panels, name = build(mode), f"{paper}:{figure}"
    if model is not None:
        other, swap = swap_to(model)
        panels = tuple(panel_with(panel, swap) for panel in panels)
        title, name = f"{title} ({other} in place of the paper's models)", f"{name} with {other}"
    runs = needed_recipes(_recipes(panels), seeds or _seeds(paper, mode))
    summary = sweep(runs, store, executor, load, plan=f"{paper}:{figure}", any_code=any_code, progress=progress)
    found = records_of(store, summary)
    return Drawing(name, title, tuple((panel, _series(panel, found)) for panel in panels))


def figure_runs(paper: str, figure: str, mode: Mode) -> tuple[list[RunConfig], int]:
    """The distinct runs of one seed behind a figure, and how many seeds the mode takes."""
    return needed_recipes(_recipes(FIGURES[paper][figure][1](mode)), 1), _seeds(paper, mode)


def _recipes(panels: Iterable[Panel]) -> Iterator[Recipe]:
    points = (point for panel in panels for curve in panel.curves for point in curve.points)
    return (r for point in points for r in (point.x, point.y) if isinstance(r, Recipe))


def _seeds(paper: str, mode: Mode) -> int:
    table = "XII(a)" if paper == "linkteller" else BOOKS[paper].tables()[0]
    return BOOKS[paper].seeds(table, mode)


def _series(panel: Panel, found: Mapping[str, Any]) -> dict[str, list[tuple[Any, float, float]]]:
    out: dict[str, list[tuple[Any, float, float]]] = {}

    def values(term: Term) -> Mapping[Sample, float]:
        return values_of(term, found)

    for curve in panel.curves:
        for point in curve.points:
            x: Any = _mean(evaluate(point.x, values))[0] if isinstance(point.x, Recipe) else point.x
            mean, spread = _mean(evaluate(point.y, values))
            if not math.isnan(mean):
                out.setdefault(curve.label, []).append((x, mean, spread))
    return out


def _mean(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    if not known:
        return math.nan, math.nan
    mean = math.fsum(known) / len(known)
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in known) / len(known))


def series_text(drawing: Drawing) -> str:
    """Every panel as lines of numbers."""
    lines = [f"{drawing.name}: {drawing.title}"]
    for panel, series in drawing.panels:
        lines += ["", f"{panel.title} ({panel.y} against {panel.x})"]
        for label, points in series.items():
            shown = "  ".join(f"{x if isinstance(x, str) else f'{x:.3g}'}: {m:.3f} ± {s:.3f}" for x, m, s in points)
            lines.append(f"  {label}: {shown}")
        if not series:
            lines.append("  nothing could be run")
    return "\n".join(lines)
