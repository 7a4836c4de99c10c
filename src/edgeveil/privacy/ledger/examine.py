"""`edgeveil ledger verify` and `backup`: does the ledger agree with itself, and a copy that is whole."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from edgeveil.errors import StorageError, UsageError
from edgeveil.privacy.ledger import chain
from edgeveil.privacy.ledger.accounts import DELTA, EPSILON
from edgeveil.privacy.ledger.database import Database
from edgeveil.privacy.ledger.ledger import Ledger, charge_facts
from edgeveil.privacy.ledger.migrations import TABLES, inherited

__all__ = ["backup", "faults"]


def faults(ledger: Ledger) -> list[str]:
    """Every disagreement between the journal, the charges and the accounts; empty for a ledger in order."""
    with ledger.database.read() as connection:
        found, charged = _walk(connection)
        rows = [dict(row._mapping) for row in connection.execute(text("SELECT * FROM charges"))]
        for row in rows:
            said = charged.pop(row["id"], None)
            if said is None:
                found.append(f"charge {row['id']} is not in the journal")
            elif said and said != charge_facts(row):
                found.append(f"charge {row['id']} differs from the journal")
        found += [f"charge {name} is in the journal and missing from the table" for name in charged]
        return found + _sums(connection, rows) + _marks(connection, rows)


def _walk(connection: Connection) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Recompute every hash; the charges that the journal tells of (without facts: those older than it)."""
    found: list[str] = []
    charged: dict[str, dict[str, Any]] = {}
    head = chain.current(connection)
    last, number = chain.first_hash(head.ledger), 0
    for entry, kind, facts, digest in chain.entries(connection):
        number += 1
        if entry != number or chain.link(last, kind, facts) != digest:
            return [
                *found,
                f"the journal is broken at entry {number}: something was changed, removed or put in",
            ], charged
        last, data = digest, json.loads(facts)
        if kind == "charge":
            charged[data["id"]] = data
        if kind == "inherited":
            charged |= {name: {} for name in data["charges"]}
            if inherited(connection, data["charges"]) != data["hash"]:
                found.append("charges that are older than the journal were changed")
    if (number, last) != (head.entry, head.hash):
        found.append(f"the journal ends at entry {number}, its head says {head.entry}")
    return found, charged


def _sums(connection: Connection, charges: list[dict[str, Any]]) -> list[str]:
    """Accounts hold the sum of their charges and leases."""
    expected: Counter[tuple[str, str]] = Counter()
    for row in charges:
        for subject in (f"edges:{row['edge_set']}", f"tenant:{row['tenant']}"):
            expected[subject, EPSILON] += row["amount"]
            expected[subject, DELTA] += row["delta"]
    leases = text("SELECT subject, SUM(amount - returned) AS used FROM leases GROUP BY subject")
    for lease in connection.execute(leases):
        expected[lease.subject, "queries"] = int(lease.used)
    rows = connection.execute(text("SELECT subject, resource, used FROM accounts WHERE resource <> 'node'"))
    used = {(row.subject, row.resource): row.used for row in rows}
    return [
        f"account {subject} has used {used.get((subject, resource), 0)} {resource}, its entries say {wanted}"
        for (subject, resource), wanted in sorted((expected | Counter(dict.fromkeys(used, 0))).items())
        if used.get((subject, resource), 0) != wanted
    ]


def _marks(connection: Connection, charges: list[dict[str, Any]]) -> list[str]:
    marked = set(connection.execute(text("SELECT name FROM edge_sets WHERE unbounded <> ''")).scalars())
    told = {row["edge_set"] for row in charges if row["unbounded"]}
    return [f"edge set {name} was told without a bound and is not marked" for name in sorted(told - marked)]


def backup(ledger: Ledger, out: Path) -> Path:
    """A whole copy in an SQLite file (mode 0600), while the ledger is in use; PostgreSQL ledgers too."""
    if out.exists():
        raise UsageError(f"{out} exists; choose another file, so that no older copy is lost")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        if ledger.database.is_sqlite:
            _copy_file(Path(ledger.database.url.removeprefix("sqlite:///")), out)
        else:
            _copy_rows(ledger.database, out)
    except (OSError, sqlite3.Error) as error:
        out.unlink(missing_ok=True)
        raise StorageError(f"cannot write {out}: {error}; nothing was kept") from error
    return out


def _copy_file(source: Path, out: Path) -> None:
    reader, writer = sqlite3.connect(source), sqlite3.connect(out)
    try:
        reader.backup(writer)
    finally:
        writer.close()
        reader.close()


def _copy_rows(source: Database, out: Path) -> None:
    """One consistent view of every table, into a fresh schema."""
    target = Database(f"sqlite:///{out.as_posix()}")
    with source.read() as reader, target.write() as writer:
        for table in TABLES:
            writer.execute(text(f"DELETE FROM {table}"))
            for row in reader.execute(text(f"SELECT * FROM {table}")):
                names = [str(name) for name in row._mapping]
                values = ", ".join(f":{name}" for name in names)
                statement = text(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})")
                writer.execute(statement, dict(zip(names, row, strict=True)))
    target.close()
