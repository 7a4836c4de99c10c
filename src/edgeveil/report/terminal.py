"""The audit in a terminal: the verdict and one table."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from edgeveil.audits.cells import Cell, label
from edgeveil.report.audit_data import AuditData
from edgeveil.report.compare import Comparison
from edgeveil.report.compare import table as comparison_rows
from edgeveil.report.figures import percent
from edgeveil.report.judged import Baselines, baselines, best_defence, gain_text, judged, sweet_spot
from edgeveil.report.next_steps import next_steps
from edgeveil.report.page import ordered
from edgeveil.report.verdict import verdict

__all__ = ["ALLOWS", "SWEET", "print_audit", "print_comparison", "table_rows"]

STATUS_STYLE = {"sound": "green", "refuted": "red", "none": "yellow"}
SWEET = "★ sweet spot: more useful than anything without edges, leaking less than no defence, both beyond the noise."
ALLOWS = "ε allows: the share of edges that no attack, tried or not, can exceed at 1 % false alarms."
NUMBERS = ("utility", "gain", "edges found", "ε allows", "AUC", "AP")


def table_rows(data: AuditData, cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of the summary; an audit of one existing model has no sweet spot and no utility."""
    bare, _ = baselines(cells)
    best = best_defence(cells)
    head = ["release", "utility", "gain", "edges found", "ε allows", "by", "AUC", "AP", "guarantee", "sweet spot"]
    body = []
    for cell in cells:
        star = "★ best" if cell == best else "★" if sweet_spot(cell, bare) else ""
        body.append([
            cell.label, _number(cell.utility), gain_text(cell.gain), percent(cell.leakage, 1), percent(cell.allowed, 1),
            cell.attack, _number(cell.auc), _number(cell.average_precision), cell.promise, star,
        ])  # fmt: skip
    if data.settings.get("existing"):
        keep = [i for i, title in enumerate(head) if title not in ("utility", "gain", "sweet spot")]
        return [head[i] for i in keep], [[row[i] for i in keep] for row in body]
    return head, body


def print_audit(data: AuditData) -> None:
    """Print to standard output; colours only on a terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    cells = judged(data)
    twin = " (synthetic twin)" if data.graph["is_twin"] else ""
    table = Table(title=f"{data.graph['name']}{twin}: {data.settings.get('summary', '')}", title_justify="left")
    head, body = table_rows(data, ordered(cells))
    for name in head:
        table.add_column(name, justify="right" if name in NUMBERS else "left")
    for row in body:
        table.add_row(*(f"[{STATUS_STYLE[c]}]{c}[/]" if c in STATUS_STYLE else c for c in row))
    console.print(table)
    if "sweet spot" in head:
        console.print(SWEET)
    console.print(ALLOWS)
    for name, value, said in Baselines(data).table():
        console.print(f"  {name}: {value} ({said})")
    for line in coin_lines(data):
        console.print(f"  {line}")
    console.print("For the owner: not private.\n")
    for line in verdict(data, cells):
        console.print(f"• {line}")
    for command in next_steps(data, cells):
        console.print(f"  {command}", soft_wrap=True)


def print_comparison(found: Comparison) -> None:
    """What moved, in words and in one table."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    head, body = comparison_rows(found)
    shown = Table(title=f"{found.before.graph['name']}, before and after", title_justify="left")
    for name in head:
        shown.add_column(name or "moved", justify="right" if name and name != "release" else "left")
    for row in body:
        shown.add_row(*row)
    console.print(shown)
    console.print("For the owner: not private.\n")
    for line in found.sentences:
        console.print(f"• {line}")


def coin_lines(data: AuditData) -> list[str]:
    """What planted coins proved, and which releases there was no time for."""
    lines = [
        f"proved on planted coins: {label(c['defence'], c['epsilon'])} has epsilon at least {c['lower']:.2f} "
        f"({c['detail']}; {c['attack']})"
        for c in data.coins
        if c.get("lower") is not None
    ]
    missed = [label(c["defence"], c["epsilon"]) for c in data.coins if c.get("lower") is None]
    return lines + ([f"no coins planted for {', '.join(missed)}: raise --minutes"] if missed else [])


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
