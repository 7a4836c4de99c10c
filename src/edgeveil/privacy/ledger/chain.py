"""The journal: every entry's hash covers the one before, so that a ledger can be told from an older copy of itself.

A *head* is the number and the hash of the last entry. Heads that survive elsewhere (beside the release, in the audit
log) prove what a ledger once knew: a ledger that lacks such an entry has forgotten spending and must not be used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from edgeveil.errors import StorageError

__all__ = ["Head", "check", "current", "entries", "extend", "first_hash", "link", "lock", "start"]


class Head(NamedTuple):
    """Which ledger, how many entries, and the hash of the last."""

    ledger: str
    entry: int
    hash: str

    def to_json(self) -> dict[str, Any]:
        """Plain data for a log line or a file."""
        return self._asdict()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Head:
        """Inverse of `to_json`."""
        return cls(str(data["ledger"]), int(data["entry"]), str(data["hash"]))


def first_hash(ledger: str) -> str:
    """The hash before the first entry."""
    return hashlib.sha256(f"edgeveil ledger {ledger}".encode()).hexdigest()


def start(connection: Connection, ledger: str) -> None:
    """The first head, which names the ledger."""
    for name, value in (("ledger", ledger), ("head", f"0 {first_hash(ledger)}")):
        connection.execute(text("INSERT INTO meta (name, value) VALUES (:n, :v)"), {"n": name, "v": value})


def lock(connection: Connection) -> Head:
    """The head, held until the transaction ends; journalled transactions take it first, so that none can deadlock."""
    tail = " FOR UPDATE" if connection.dialect.name == "postgresql" else ""
    return _head(connection, tail)


def current(connection: Connection) -> Head:
    """The head."""
    return _head(connection, "")


def _head(connection: Connection, tail: str) -> Head:
    value = connection.execute(text(f"SELECT value FROM meta WHERE name = 'head'{tail}")).scalar_one()
    ledger = connection.execute(text("SELECT value FROM meta WHERE name = 'ledger'")).scalar_one()
    entry, digest = value.split()
    return Head(ledger, int(entry), digest)


def link(before: str, kind: str, facts: str) -> str:
    """The hash of an entry."""
    return hashlib.sha256(f"{before} {kind} {facts}".encode()).hexdigest()


def extend(connection: Connection, at: int, kind: str, facts: Mapping[str, Any]) -> Head:
    """Add an entry to the journal, inside the transaction that it describes."""
    last = lock(connection)
    body = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    head = Head(last.ledger, last.entry + 1, link(last.hash, kind, body))
    row = {"n": head.entry, "t": at, "k": kind, "f": body, "h": head.hash}
    connection.execute(text("INSERT INTO journal (entry, at, kind, facts, hash) VALUES (:n, :t, :k, :f, :h)"), row)
    connection.execute(text("UPDATE meta SET value = :v WHERE name = 'head'"), {"v": f"{head.entry} {head.hash}"})
    return head


def entries(connection: Connection) -> Iterator[tuple[int, str, str, str]]:
    """All entries, oldest first: number, kind, facts, hash."""
    rows = connection.execute(text("SELECT entry, kind, facts, hash FROM journal ORDER BY entry"))
    for row in rows:
        yield row.entry, row.kind, row.facts, row.hash


def check(connection: Connection, known: Head, where: str) -> None:
    """Refuse a ledger that lacks an entry which it once had; one that went on since is fine."""
    now = current(connection)
    if known.ledger != now.ledger:
        raise StorageError(
            f"{where} remembers ledger {known.ledger[:12]} with {known.entry} entries, but this is ledger "
            f"{now.ledger[:12]}, which knows nothing of what that one granted. Use that ledger; if it is lost, treat "
            f"what it granted as spent (edgeveil ledger edge-set lowers a cap) and remove {where}"
        )
    if known.entry > now.entry:
        raise StorageError(
            f"the ledger is older than what it once recorded: it ends at entry {now.entry}, {where} remembers entry "
            f"{known.entry}. An old copy forgets spending. Restore the latest ledger; if it is lost, treat what is "
            f"missing as spent (edgeveil ledger edge-set lowers a cap) and remove {where}"
        )
    found = now.hash
    if known.entry < now.entry:
        statement = text("SELECT hash FROM journal WHERE entry = :n")
        first = first_hash(now.ledger)
        found = connection.execute(statement, {"n": known.entry}).scalar_one() if known.entry else first
    if found != known.hash:
        raise StorageError(
            f"the ledger has another past than {where} remembers: entry {known.entry} differs, so an old copy was put "
            "back and used. Restore the ledger that this record belongs to"
        )
