"""``edgeveil convert``: a graph from one format into another, names included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeveil.cli.common import (
    DataRoot,
    Delimiter,
    Edges,
    Features,
    GraphName,
    Header,
    IdColumn,
    LabelColumn,
    Labels,
    NodeFile,
    Source,
    Target,
    load_graph,
    say,
)
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.graph.graph import Graph

EXAMPLE = """Example: edgeveil convert --edges payments.csv --features customers.csv --labels segments.csv --out g.npz

Back: edgeveil convert g.npz --to parquet --out tables"""
TABLES = ("csv", "tsv", "parquet")


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(convert)


def convert(
    graph: GraphName = None,
    out: Annotated[
        Path, typer.Option(help="A .npz file; an edge list (.csv, .tsv, .parquet); or a folder of tables.")
    ] = Path("graph.npz"),
    to: Annotated[str, typer.Option(help="Format of tables in a folder: csv, tsv or parquet.")] = "csv",
    edges: Edges = None,
    header: Header = None,
    features: Features = None,
    labels: Labels = None,
    nodes: NodeFile = None,
    id_column: IdColumn = None,
    source: Source = None,
    target: Target = None,
    label_column: LabelColumn = None,
    delimiter: Delimiter = None,
    data_root: DataRoot = None,
) -> None:
    """Write a graph in another format. The files hold the private edges and are readable by you only (mode 0600)."""
    if to not in TABLES:
        raise UsageError(f"--to {to}: tables are {', '.join(TABLES)}")
    found = load_graph(
        graph, edges=edges, features=features, labels=labels, nodes=nodes, header=header, data_root=data_root,
        columns={"id_column": id_column, "source": source, "target": target, "label_column": label_column,
                 "delimiter": delimiter},
    )  # fmt: skip
    for path in _write(found, out, to):
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
