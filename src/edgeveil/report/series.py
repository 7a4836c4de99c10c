"""Drawings of reproduced figures: lines with spreads, scatter plots and heat maps in one SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgeveil.errors import StorageError
from edgeveil.papers.draw import Drawing, series_text
from edgeveil.papers.figure_recipes import Panel
from edgeveil.report.style import INK, MARKERS, MUTED, SERIES, canvas, standalone, to_svg

__all__ = ["write_drawing"]

Series = dict[str, list[tuple[Any, float, float]]]


def write_drawing(drawing: Drawing, path: Path) -> None:
    """Write one SVG with a row per panel."""
    count = len(drawing.panels)
    name = drawing.name.replace(":", "-").lower()
    with canvas(name, height=3.6 * count, rows=count) as (figure, axes):
        for axis, (panel, series) in zip(axes if count > 1 else [axes], drawing.panels, strict=True):
            _heat(axis, series) if panel.kind == "heat" else _lines(axis, panel, series)
            axis.set_title(panel.title)
            axis.set_xlabel(panel.x)
            axis.set_ylabel(panel.y)
        image = standalone(to_svg(figure, name, f"{drawing.name}: {drawing.title}", series_text(drawing)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(image, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}; choose another --out") from error


def _lines(axis: Any, panel: Panel, series: Series) -> None:
    flat = {curve.label for curve in panel.curves if curve.flat}
    for number, (label, points) in enumerate(series.items()):
        colour, marker = SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]
        if label in flat:
            axis.axhline(points[0][1], color=colour, linestyle="--", label=label)
            continue
        xs, ys, spreads = zip(*points, strict=True)
        style = "" if panel.kind == "scatter" else "-"
        axis.errorbar(xs, ys, yerr=spreads, color=colour, marker=marker, linestyle=style, label=label, capsize=2)
    if series:
        axis.legend(fontsize="small")


def _heat(axis: Any, series: Series) -> None:
    """Numbers in a grid: readable without colour."""
    names = list(series)
    columns = [str(x) for x, _, _ in series[names[0]]] if names else []
    axis.set_xticks(range(len(columns)), [c.removeprefix("delta ") for c in columns])
    axis.set_yticks(range(len(names)), [n.removeprefix("alpha ") for n in names])
    axis.set_xlim(-0.5, max(len(columns) - 0.5, 0.5))
    axis.set_ylim(-0.5, max(len(names) - 0.5, 0.5))
    for row, name in enumerate(names):
        for column, (_, mean, _) in enumerate(series[name]):
            colour = INK if mean >= 0 else MUTED
            axis.text(column, row, f"{100 * mean:+.1f}", ha="center", va="center", color=colour)
