"""``edgeveil inspect``: how own files were read, and what an audit will meet."""

from __future__ import annotations

import typer

from edgeveil.cli.option_groups import GraphOptions

EXAMPLE = "Example: edgeveil inspect --edges payments.csv --features customers.csv --labels segments.csv"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(inspect)


def inspect(given: GraphOptions) -> None:
    """Print how each file was read, what its columns became, and facts about the graph. For its owner: not private."""
    from edgeveil.audits.inspection import inspection

    for line in inspection(given.load(quiet=True)):
        typer.echo(line)
