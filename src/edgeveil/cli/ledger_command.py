"""``edgeveil ledger``: who was told what about which edges, whether the ledger is whole, and a copy of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.common import AsJsonLines, words
from edgeveil.errors import EdgeveilError, UsageError

if TYPE_CHECKING:
    from edgeveil.privacy.ledger.ledger import Ledger

Where = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE|URL", envvar="EDGEVEIL_SERVE_LEDGER",
        help="The ledger: an SQLite file or postgresql://host/name; default: ledger.db in edgeveil-state.",
    ),
]  # fmt: skip
DEFAULT = "edgeveil-state/ledger.db"


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="The privacy ledger.", no_args_is_help=True)
    group.command(epilog="Example: edgeveil ledger show ledger.db")(show)
    group.command(epilog="Example: edgeveil ledger verify ledger.db")(verify)
    group.command(epilog="Example: edgeveil ledger backup ledger.db --out copy.db")(backup)
    group.command("edge-set", epilog="Example: edgeveil ledger edge-set cora --ledger ledger.db --epsilon-cap 8")(
        edge_set
    )
    app.add_typer(group, name="ledger")


def _open(where: str | None) -> Ledger:
    from edgeveil.privacy.ledger import open_ledger

    return open_ledger((where or DEFAULT).removeprefix("sqlite:///"), make=False, locked=True)


def show(
    ledger: Where = None,
    as_json: AsJsonLines = False,
) -> None:
    """List the edge sets with what any one of their edges has paid, and who was told what."""
    with _open(ledger) as opened:
        sets, told, head = _edge_sets(opened), _told(opened), opened.head()
        shared = opened.overlaps()
    if as_json:
        for row in (*sets, *told):
            typer.echo(json.dumps(row))
        return
    typer.echo(f"ledger {head.ledger[:12]}, {head.entry} entries, head {head.hash[:12]}")
    for row in sets:
        cap = "no cap" if row["epsilon_cap"] is None else f"cap {row['epsilon_cap']:g}"
        paid = f"unbounded for ever ({row['unbounded']})" if row["unbounded"] else f"epsilon {row['epsilon']:g}"
        who = f", only for {', '.join(row['tenants'])}" if row["tenants"] else ""
        typer.echo(f"edge set {row['edge_set']}: {paid}, delta {row['delta']:g}, {cap}; {row['holds']}{who}")
    for names in shared:
        typer.echo(f"share an edge: {', '.join(names)}")
    for row in told:
        cost = f"unbounded ({row['unbounded']})" if row["unbounded"] else f"epsilon {row['epsilon']:g}"
        delta = f", delta {row['delta']:g}" if row["delta"] else ""
        typer.echo(f"{row['at']}  {row['tenant']} was told {row['edge_set']}: {row['what']}, {cost}{delta}")


def _edge_sets(ledger: Ledger) -> list[dict[str, Any]]:
    from edgeveil.privacy.ledger.units import UNLIMITED, from_delta_units, from_units

    caps = {account.subject: account.cap for account in ledger.accounts("epsilon")}
    bills, out = ledger.bills(), []
    for name, found in sorted(ledger.edge_sets().items()):
        cap, bill = caps.get(f"edges:{name}", 0), bills[name]
        out.append({
            "edge_set": name, "holds": _holds(found.identity, found.edges), "unbounded": bill.unbounded,
            "epsilon": None if bill.unbounded else float(from_units(bill.epsilon)),
            "delta": float(from_delta_units(bill.delta)), "tenants": sorted(found.tenants),
            "epsilon_cap": None if cap >= UNLIMITED else float(from_units(cap)), "apart_from": sorted(found.apart),
        })  # fmt: skip
    return out


def _holds(identity: str, edges: int) -> str:
    named = {
        "": "nothing told yet",
        "unknown": "edges unknown, overlap with every other set is assumed",
        "large": "too many edges to compare, overlap with every other set is assumed",
        "ids": f"{edges:,} edges between nodes known by id",
    }
    if identity.startswith("unknown:"):
        return f"{edges:,} edges and others that are unknown, overlap with every other set is assumed"
    by_row = f"{edges:,} edges between nodes known by row number, overlap is assumed unless you say --apart-from"
    return named.get(identity, by_row)


def _told(ledger: Ledger) -> list[dict[str, Any]]:
    from edgeveil.privacy.ledger.units import from_delta_units, from_units

    return [
        {
            "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(row["at"])), "tenant": row["tenant"],
            "edge_set": row["edge_set"], "what": row["what"], "status": row["status"], "charge": row["id"],
            "epsilon": None if row["unbounded"] else float(from_units(row["amount"])),
            "delta": float(from_delta_units(row["delta"])), "unbounded": row["unbounded"],
        }
        for row in ledger.charges()
    ]  # fmt: skip


def verify(
    ledger: Where = None,
    release: Annotated[
        list[Path] | None, typer.Option(help="A served release: the head kept beside it must be in the ledger.")
    ] = None,
    log: Annotated[
        list[Path] | None, typer.Option(help="An audit log: the last head in it must be in the ledger.")
    ] = None,
) -> None:
    """Check the hash chain, every charge and every sum, and that this is no older copy; exit code 1 if not."""
    from edgeveil.privacy.ledger import require_extra

    require_extra("edgeveil ledger")
    from edgeveil.privacy.ledger.examine import faults
    from edgeveil.privacy.ledger.heads import HeadFile, last_logged

    with _open(ledger) as opened:
        found, heads = faults(opened), 0
        known = [(HeadFile.beside(path).read(), HeadFile.beside(path).path) for path in release or []]
        known += [(last_logged(path), path) for path in log or []]
        for head, where in known:
            if head is None:
                found.append(f"no head of a ledger at {where}")
                continue
            heads += 1
            try:
                opened.check_head(head, str(where))
            except EdgeveilError as error:
                found.append(str(error))
        last = opened.head()
    for fault in found:
        typer.echo(f"fault: {fault}")
    if found:
        raise typer.Exit(1)
    typer.echo(f"in order: {last.entry} entries, head {last.hash}, {heads} surviving heads agree")


def backup(
    ledger: Where = None,
    out: Annotated[Path, typer.Option(help="New file for the copy (SQLite, mode 0600).")] = Path("ledger-backup.db"),
) -> None:
    """Copy the whole ledger while it is in use. Its key is not copied: keep that file apart from the copy."""
    from edgeveil.privacy.ledger import require_extra

    require_extra("edgeveil ledger")
    from edgeveil.privacy.ledger.examine import backup as copy

    with _open(ledger) as opened:
        copy(opened, out)
        entries = opened.head().entry
    typer.echo(f"{out}: {entries} entries; put back later than the next charge it would be refused as too old")


def edge_set(
    name: Annotated[str, typer.Argument(help="The edge set.")],
    ledger: Annotated[str | None, typer.Option(envvar="EDGEVEIL_SERVE_LEDGER", help="The ledger.")] = None,
    epsilon_cap: Annotated[float | None, typer.Option(help="Epsilon that any one edge may cost in total.")] = None,
    delta_cap: Annotated[float | None, typer.Option(help="Delta that any one edge may cost in total.")] = None,
    no_cap: Annotated[bool, typer.Option("--no-cap", help="Sum epsilon and refuse nothing.")] = False,
    tenants: Annotated[str | None, typer.Option(help="Tenants who may spend on it, comma separated.")] = None,
    apart_from: Annotated[
        str | None, typer.Option(help="Edge sets that share no edge with it: your word, where the ledger cannot look.")
    ] = None,
) -> None:
    """Set the caps of an edge set, bind it to tenants, or vouch that it shares no edge with others."""
    from edgeveil.privacy.ledger import open_ledger, require_extra

    require_extra("edgeveil ledger")
    from edgeveil.privacy.ledger.units import UNLIMITED, delta_to_units, to_units

    if no_cap and epsilon_cap is not None:
        raise UsageError("give --epsilon-cap or --no-cap, not both")
    with open_ledger((ledger or DEFAULT).removeprefix("sqlite:///"), locked=True) as opened:
        if epsilon_cap is not None or no_cap:
            cap = UNLIMITED if epsilon_cap is None else to_units(epsilon_cap)
            opened.open_account(f"edges:{name}", "epsilon", cap)
        if delta_cap is not None:
            opened.open_account(f"edges:{name}", "delta", delta_to_units(delta_cap))
        bound = None if tenants is None else frozenset(words(tenants))
        opened.declare(name, tenants=bound, apart=frozenset(words(apart_from) if apart_from else ()))
        rows = [row for row in _edge_sets(opened) if row["edge_set"] == name]
    typer.echo(json.dumps(rows[0]))
