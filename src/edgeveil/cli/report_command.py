"""``edgeveil report``: the page again, from a finished audit or the rows of a sweep; or what moved between two."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.audit_command import command_line, hold_gate, read_gate
from edgeveil.cli.common import JunitFile, say
from edgeveil.errors import StorageError, UsageError

if TYPE_CHECKING:
    from edgeveil.report.audit_data import AuditData


EXAMPLE = """Example: edgeveil report audit --out report.html

What moved between two audits: edgeveil report before after --out comparison.html"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(report)


def report(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="An audit's folder, a sweep's store, or rows as JSON Lines.")
    ],
    other: Annotated[
        Path | None, typer.Argument(metavar="[AFTER]", help="A second audit: say what moved from the first to it.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Which dataset of a store with several.")] = None,
    out: Annotated[Path | None, typer.Option(help="The HTML file; default: report.html beside the store.")] = None,
    require: Annotated[str | None, typer.Option(help="Exit 1 unless shown, as in edgeveil audit --require.")] = None,
    junit: JunitFile = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write every figure as an SVG file into this folder.")
    ] = None,
) -> None:
    """Draw the report from numbers that are already there, or compare two audits; nothing is trained or attacked."""
    from edgeveil.report.page import write_figures, write_report
    from edgeveil.report.terminal import print_audit

    clauses = read_gate(require, junit)
    try:
        data = _load(store, dataset)
        after = None if other is None else _load(other, dataset)
    except StorageError as error:
        raise UsageError(str(error)) from error
    if other is not None and after is not None:
        if clauses or figures is not None:
            raise UsageError("--require and --figures are about one audit; leave the other one out")
        _compare(data, after, out or (other if other.is_dir() else other.parent) / "comparison.html")
        return
    print_audit(data)
    target = out or (store if store.is_dir() else store.parent) / "report.html"
    say(f"report: {write_report(data, target).resolve()}")
    if figures is not None:
        say(f"{len(write_figures(data, figures))} figures in {figures}")
    if not hold_gate(data, clauses, junit):
        raise typer.Exit(1)


def _compare(before: AuditData, after: AuditData, out: Path) -> None:
    from edgeveil.report.compare import compare, write_comparison
    from edgeveil.report.terminal import print_comparison

    found = compare(before, after)
    print_comparison(found)
    say(f"comparison: {write_comparison(found, out).resolve()}")


def _load(store: Path, dataset: str | None) -> AuditData:
    from edgeveil.report.audit_data import read_audit

    if store.is_dir() and (store / "audit.json").is_file():
        return read_audit(store / "audit.json")
    if not store.is_file():
        raise UsageError(
            f"{store} is neither an audit's folder nor a store; edgeveil audit and edgeveil sweep make them"
        )
    rows = _json_rows(store) if store.suffix in (".jsonl", ".json") else _store_rows(store)
    return _from_rows(rows, dataset, store)


def _json_rows(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except ValueError as error:
        raise StorageError(f"{path} is not JSON Lines: {error}") from error


def _store_rows(path: Path) -> list[dict[str, Any]]:
    from edgeveil.runs.store import Store

    with Store(path, create=False) as opened:
        return list(opened.rows())


def _from_rows(rows: list[dict[str, Any]], dataset: str | None, store: Path) -> AuditData:
    from edgeveil.audits.cells import LEAKAGE_NOTE
    from edgeveil.report.audit_data import AuditData
    from edgeveil.report.collect import heatmaps, references

    names = list(dict.fromkeys(row["dataset"] for row in rows if row.get("attack")))
    if not names:
        raise UsageError(f"{store} has no row with an attack, so there is nothing to compare")
    if dataset is None and len(names) > 1:
        raise UsageError(f"{store} has rows of {', '.join(names)}; choose one with --dataset")
    chosen = dataset or names[0]
    part = [row for row in rows if row["dataset"] == chosen and row.get("attack")]
    if not part:
        raise UsageError(f"{store} has no rows of {chosen!r}; it has {', '.join(names)}")
    nodes = max((row.get("n_nodes") or 0 for row in part), default=0)
    graph = {
        "name": chosen,
        "is_twin": bool(part[0].get("is_twin")),
        "nodes": nodes,
        "edges": 0,
        "features": 0,
        "classes": 0,
    }
    seeds = len({row.get("seed") for row in part})
    settings = {"nodes": nodes, "summary": f"{len(part):,} rows of {store.name}, {seeds} seed(s)",
                "method": "Drawn from rows that were measured before; each row names its settings and its seed.",
                "command": command_line(sys.argv[1:])}  # fmt: skip
    old = all(row.get("leakage") is None for row in part)
    return AuditData(
        graph=graph, rows=part, settings=settings, heatmaps=heatmaps(part), citations=references(part),
        notes=[LEAKAGE_NOTE] if old else [],
    )  # fmt: skip
