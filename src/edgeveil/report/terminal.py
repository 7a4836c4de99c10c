"""The audit in a terminal: the verdict and one table."""

from __future__ import annotations

import math
import sys

from edgeveil.report.data import AuditData, summarise
from edgeveil.report.figures import baselines, percent
from edgeveil.report.page import ordered
from edgeveil.report.verdict import best_defence, sweet_spot, verdict

__all__ = ["print_audit"]

STATUS_STYLE = {"sound": "green", "refuted": "red", "none": "yellow"}


def print_audit(data: AuditData) -> None:
    """Print to standard output; colours only on a terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    cells = summarise(data.rows)
    bare, mlp = baselines(cells)
    best = best_defence(cells)
    twin = " (synthetic twin)" if data.graph["is_twin"] else ""
    table = Table(title=f"{data.graph['name']}{twin}: {data.settings.get('summary', '')}", title_justify="left")
    for name, justify in (("release", "left"), ("utility", "right"), ("edges found", "right"), ("by", "left"),
                          ("AUC", "right"), ("AP", "right"), ("guarantee", "left"), ("", "left")):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for cell in ordered(cells):
        star = "★ best" if cell == best else "★" if sweet_spot(cell, bare, mlp) else ""
        style = STATUS_STYLE.get(cell.status, "")
        table.add_row(
            cell.label, _number(cell.utility), percent(cell.leakage, 1), cell.attack, _number(cell.auc),
            _number(cell.average_precision), f"[{style}]{cell.status}[/]", star,
        )  # fmt: skip
    console.print(table)
    console.print("★ sweet spot: more useful than the MLP, leaking less than no defence. For the owner: not private.\n")
    for line in verdict(data, cells):
        console.print(f"• {line}")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
