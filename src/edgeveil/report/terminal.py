"""The audit in a terminal: the verdict and one table."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from edgeveil.audits.cells import Cell, summarise
from edgeveil.report.audit_data import AuditData
from edgeveil.report.figures import baselines, percent
from edgeveil.report.page import ordered
from edgeveil.report.verdict import best_defence, sweet_spot, verdict

__all__ = ["print_audit", "table_rows"]

STATUS_STYLE = {"sound": "green", "refuted": "red", "none": "yellow"}
NUMBERS = ("utility", "edges found", "AUC", "AP")


def table_rows(data: AuditData, cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of the summary; an audit of one existing model has no sweet spot and no utility."""
    bare, mlp = baselines(cells)
    best = best_defence(cells)
    head = ["release", "utility", "edges found", "by", "AUC", "AP", "guarantee", "sweet spot"]
    body = []
    for cell in cells:
        star = "★ best" if cell == best else "★" if sweet_spot(cell, bare, mlp) else ""
        body.append([
            cell.label, _number(cell.utility), percent(cell.leakage, 1), cell.attack, _number(cell.auc),
            _number(cell.average_precision), cell.promise, star,
        ])  # fmt: skip
    if data.settings.get("existing"):
        keep = [i for i, title in enumerate(head) if title not in ("utility", "sweet spot")]
        return [head[i] for i in keep], [[row[i] for i in keep] for row in body]
    return head, body


def print_audit(data: AuditData) -> None:
    """Print to standard output; colours only on a terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    cells = summarise(data.rows)
    twin = " (synthetic twin)" if data.graph["is_twin"] else ""
    table = Table(title=f"{data.graph['name']}{twin}: {data.settings.get('summary', '')}", title_justify="left")
    head, body = table_rows(data, ordered(cells))
    for name in head:
        table.add_column(name, justify="right" if name in NUMBERS else "left")
    for row in body:
        table.add_row(*(f"[{STATUS_STYLE[c]}]{c}[/]" if c in STATUS_STYLE else c for c in row))
    console.print(table)
    if "sweet spot" in head:
        console.print("★ sweet spot: more useful than the MLP, leaking less than no defence.")
    console.print("For the owner: not private.\n")
    for line in verdict(data, cells):
        console.print(f"• {line}")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
