"""``edgeveil inspect``: how own files were read, and what an audit will meet."""

from __future__ import annotations

import typer

from edgeveil.cli.option_groups import GraphOptions
from edgeveil.cli.stored_options import StoredOptions

EXAMPLE = "Example: edgeveil inspect --edges payments.csv --features customers.csv --labels segments.csv"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(inspect)


def inspect(*, given: GraphOptions, stored: StoredOptions) -> None:
    """Print how each file was read, what its columns became, and facts about the graph. For its owner: not private."""
    from edgeveil.audits.inspection import inspection
    from edgeveil.audits.stored_audit import stored_inspection

    with stored.opened(given.files, given.nodes, name=given.graph) as graph:
        for line in inspection(given.load(quiet=True)) if graph is None else stored_inspection(graph):
            typer.echo(line)
