"""``edgeveil inspect``: how own files were read, and what an audit will meet."""

from __future__ import annotations

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
)

EXAMPLE = "Example: edgeveil inspect --edges payments.csv --features customers.csv --labels segments.csv"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(inspect)


def inspect(
    graph: GraphName = None,
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
    """Print how each file was read, what its columns became, and facts about the graph. For its owner: not private."""
    from edgeveil.audits.inspection import inspection

    found = load_graph(
        graph, edges=edges, features=features, labels=labels, nodes=nodes, header=header, data_root=data_root,
        columns={"id_column": id_column, "source": source, "target": target, "label_column": label_column,
                 "delimiter": delimiter}, quiet=True,
    )  # fmt: skip
    for line in inspection(found):
        typer.echo(line)
