"""``edgeveil renew``: let a trained release answer for a new or changed graph, at the cost of one private statistic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgeveil.cli.common import (
    DataRoot,
    Edges,
    Features,
    GraphName,
    NodeFile,
    load_graph,
    open_release,
    remembered,
    say,
)
from edgeveil.cli.option_groups import LedgerOptions, TableOptions
from edgeveil.errors import UsageError

EXAMPLE = "Example: edgeveil renew cora-lapgraph graph.npz --epsilon 1 --out tuesday --ledger ledger.db"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(renew)


def renew(
    *,
    release: Annotated[Path, typer.Argument(metavar="DIR", help="Folder made by `edgeveil release`.")],
    graph: GraphName = None,
    out: Annotated[Path, typer.Option(help="New folder for the renewed release.")] = Path("renewed"),
    epsilon: Annotated[float | None, typer.Option(help="Epsilon of the new statistic; default: the release's.")] = None,
    edges: Edges = None,
    features: Features = None,
    nodes: NodeFile = None,
    tables: TableOptions,
    record_in: LedgerOptions,
    data_root: DataRoot = None,
) -> None:
    """Apply a release to another graph without training again; features are in model space, or the stored ones stay.

    An edge that was in the earlier graph pays for both: the new guarantee states the sum.
    """
    if (out / "manifest.json").exists():
        raise UsageError(f"{out} already holds a release; renewing spends epsilon again, so choose another --out")
    from edgeveil.defences.renew import renew as renewed

    secret = load_graph(
        graph, edges=edges, features=features, nodes=nodes, data_root=data_root, header=tables.header,
        columns=tables.columns,
    )  # fmt: skip
    with remembered(record_in.ledger, out, release):
        made = renewed(
            open_release(release), secret, epsilon=epsilon, **record_in.asked(),
        )  # fmt: skip
        made.save(out)
    say(made.guarantee.statement())
    typer.echo(f"{out}: {made!r}")
