"""``edgeveil convert``: a graph from one format into another, names included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeveil.cli.common import say
from edgeveil.cli.option_groups import GraphOptions
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.graph.graph import Graph

EXAMPLE = """Example: edgeveil convert --edges payments.csv --features customers.csv --labels segments.csv --out g.npz

Back: edgeveil convert g.npz --to parquet --out tables"""
TABLES = ("csv", "tsv", "parquet")


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(convert)


def convert(
    *,
    given: GraphOptions,
    out: Annotated[
        Path, typer.Option(help="A .npz file; an edge list (.csv, .tsv, .parquet); or a folder of tables.")
    ] = Path("graph.npz"),
    to: Annotated[str, typer.Option(help="Format of tables in a folder: csv, tsv or parquet.")] = "csv",
) -> None:
    """Write a graph in another format. The files hold the private edges and are readable by you only (mode 0600)."""
    if to not in TABLES:
        raise UsageError(f"--to {to}: tables are {', '.join(TABLES)}")
    for path in _write(given.load(), out, to):
        say(f"wrote {path}")


def _write(graph: Graph, out: Path, to: str) -> list[Path]:
    from edgeveil.graph.files.writers import write_edges, write_features, write_labels
    from edgeveil.graph.npz import write_npz

    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} exists; choose another --out")
    if out.suffix == ".npz":
        return [write_npz(graph, out, 0o600)]
    if out.suffix[1:] in TABLES:
        return [write_edges(graph, out, 0o600)]
    if out.suffix:
        raise UsageError(f"{out}: unknown format {out.suffix!r}; use .npz, .csv, .tsv, .parquet or a folder")
    if any((out / f"{name}.{to}").exists() for name in ("edges", "features", "labels")):
        raise UsageError(f"{out} already holds tables; choose another --out")
    made = [write_edges(graph, out / f"edges.{to}", 0o600)]
    if graph.x is not None:
        made.append(write_features(graph, out / f"features.{to}", 0o600))
    if graph.y is not None:
        made.append(write_labels(graph, out / f"labels.{to}", 0o600))
    return made
