"""``edgeveil keys``: who may ask a server, how much, and until when."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeveil.cli.common import AsJsonLines

if TYPE_CHECKING:
    from edgeveil.privacy.ledger.database import Database

Ledger = Annotated[
    str | None,
    typer.Option(
        envvar="EDGEVEIL_SERVE_LEDGER", help="Database of the server; default: ledger.db in the state folder."
    ),
]
State = Annotated[Path, typer.Option(envvar="EDGEVEIL_SERVE_STATE", help="State folder of the server.")]
STATE = Path("edgeveil-state")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="API keys of a server.", no_args_is_help=True)
    group.command(epilog="Example: edgeveil keys add bob --queries 1000 --days 30")(add)
    group.command("list", epilog="Example: edgeveil keys list --json")(show)
    group.command(epilog="Example: edgeveil keys revoke 8f3a12cd90ab34ef")(revoke)
    group.command(epilog="Example: edgeveil keys clock --reset")(clock)
    app.add_typer(group, name="keys")


def _open(ledger: str | None, state: Path) -> Database:
    from edgeveil.serve import require_extra

    require_extra("edgeveil keys")
    from edgeveil.privacy.ledger.database import Database

    return Database(ledger or f"sqlite:///{(state / 'ledger.db').as_posix()}")


def add(
    tenant: Annotated[str, typer.Argument(help="Who the key belongs to; limits are per tenant.")],
    role: Annotated[str, typer.Option(help="query, curate (may spend epsilon), admin or monitor.")] = "query",
    days: Annotated[float, typer.Option(help="Days until the key expires; 0: never.")] = 365.0,
    queries: Annotated[int | None, typer.Option(help="Query limit Q of the tenant; default: unchanged.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Epsilon the tenant may spend; default: unchanged.")] = None,
    note: Annotated[str, typer.Option(help="Remark shown in lists.")] = "",
    ledger: Ledger = None,
    state: State = STATE,
) -> None:
    """Make a key and print it once; only its hash is kept."""
    database = _open(ledger, state)
    from edgeveil.serve.auth import KeyStore

    text, key = KeyStore(database).add(tenant, role, days=days or None, queries=queries, epsilon=epsilon, note=note)
    typer.echo(text)
    until = "never expires" if key.expires is None else f"expires {_day(key.expires)}"
    typer.echo(f"key {key.id}: tenant {tenant}, role {role}, {until}. It is shown only now.", err=True)


def show(
    as_json: AsJsonLines = False,
    ledger: Ledger = None,
    state: State = STATE,
) -> None:
    """List keys, never the secrets."""
    database = _open(ledger, state)
    from edgeveil.serve.auth import KeyStore

    with database.read() as connection:
        now = database.now(connection)
    for key in KeyStore(database).list():
        if as_json:
            typer.echo(json.dumps({**key.__dict__, "state": key.state(now)}))
        else:
            expires = "never" if key.expires is None else _day(key.expires)
            typer.echo(f"{key.id}  {key.state(now):8}  {key.role:8}  {key.tenant:20}  until {expires}  {key.note}")


def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as in `edgeveil keys list`.")],
    ledger: Ledger = None,
    state: State = STATE,
) -> None:
    """Revoke a key for good; running servers notice within seconds."""
    database = _open(ledger, state)
    from edgeveil.serve.auth import KeyStore

    key = KeyStore(database).revoke(key_id)
    typer.echo(f"key {key.id} of {key.tenant} is revoked")


def clock(
    reset: Annotated[bool, typer.Option("--reset", help="Forget a time that lay in the future.")] = False,
    ledger: Ledger = None,
    state: State = STATE,
) -> None:
    """Show the latest time the ledger has seen; it never runs backwards unless reset here."""
    database = _open(ledger, state)
    if reset:
        typer.echo(f"clock reset to {_day(database.reset_clock())}")
        return
    with database.read() as connection:
        typer.echo(f"latest time seen: {_day(database.now(connection))}, system: {_day(int(time.time()))}")


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
