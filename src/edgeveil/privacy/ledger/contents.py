"""What the ledger keeps of edge sets: their hashes in blocks of a million, and the patterns in which they overlap."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from edgeveil.privacy.ledger.accounts import DELTA, EPSILON
from edgeveil.privacy.ledger.edges import LIMIT, EdgeHashes
from edgeveil.privacy.ledger.overlap import LARGE, UNKNOWN, Bill, Holding, patterns_of

__all__ = ["Content", "EdgeSet", "Shelf", "merge", "read_shelf", "store", "version"]

_PART = 2**20


@dataclass(frozen=True)
class EdgeSet:
    """One row: what the set holds, who may spend on it (nobody named: everybody), and what it was declared to be."""

    name: str
    identity: str = ""
    edges: int = 0
    unbounded: str = ""
    tenants: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


class Shelf(NamedTuple):
    """All edge sets with their sums, and the patterns in which they overlap."""

    sets: dict[str, EdgeSet]
    sums: dict[tuple[str, str], int]
    patterns: frozenset[frozenset[str]]

    def holdings(self) -> list[Holding]:
        """What `bills` needs."""
        return [
            Holding(s.name, s.identity, Bill(self._sum(s.name, EPSILON), self._sum(s.name, DELTA), _why(s)), s.apart)
            for s in self.sets.values()
        ]

    def _sum(self, name: str, resource: str) -> int:
        return self.sums.get((name, resource), 0)

    def charged(self, name: str, epsilon: int, delta: int, unbounded: str, content: Content) -> Shelf:
        """The same after one more charge."""
        sums = dict(self.sums)
        for resource, amount in ((EPSILON, epsilon), (DELTA, delta)):
            sums[name, resource] = self._sum(name, resource) + amount
        old = self.sets[name]
        new = replace(old, identity=content.identity, edges=content.edges, unbounded=old.unbounded or unbounded)
        patterns = frozenset(p for p in self.patterns if name not in p) | content.patterns
        return Shelf({**self.sets, name: new}, sums, patterns)


def _why(found: EdgeSet) -> str:
    return f"{found.name}: {found.unbounded}" if found.unbounded else ""


class Content(NamedTuple):
    """What an edge set holds after a charge; `values` is None when the stored hashes stay as they are."""

    identity: str
    edges: int
    values: NDArray[np.uint64] | None
    patterns: frozenset[frozenset[str]]
    version: int


def read_shelf(connection: Connection) -> Shelf:
    """Everything but the hashes."""
    rows = connection.execute(text("SELECT name, identity, edges, unbounded, tenants, apart FROM edge_sets"))
    sets = {
        row.name: EdgeSet(row.name, row.identity, row.edges, row.unbounded, _names(row.tenants), _names(row.apart))
        for row in rows
    }
    found = connection.execute(
        text("SELECT subject, resource, used FROM accounts WHERE subject LIKE 'edges:%' AND resource <> 'node'")
    )
    sums = {(row.subject.removeprefix("edges:"), row.resource): row.used for row in found}
    patterns = connection.execute(text("SELECT names FROM shared_edges")).scalars()
    return Shelf(sets, sums, frozenset(_names(names) for names in patterns))


def _names(stored: str) -> frozenset[str]:
    return frozenset(json.loads(stored)) if stored else frozenset()


def version(connection: Connection) -> int:
    """Changes whenever any edge set gains edges."""
    return int(connection.execute(text("SELECT value FROM meta WHERE name = 'contents'")).scalar() or 0)


def merge(connection: Connection, shelf: Shelf, name: str, new: EdgeHashes | None, why: str = UNKNOWN) -> Content:
    """What the set holds with `new` added (None: edges that nobody told, or too many to keep). Changes nothing.

    A set whose edges are not all known keeps those that are, so that what they share is seen.
    """
    now, old = version(connection), shelf.sets.get(name, EdgeSet(name))
    mine, kind = frozenset(p for p in shelf.patterns if name in p), _kind(old.identity)
    if old.identity == LARGE or (new is None and why == LARGE):
        return Content(LARGE, 0, np.zeros(0, np.uint64), mine, now)
    if new is None or kind not in ("", new.identity):
        return Content(f"{UNKNOWN}:{kind}" if kind else UNKNOWN, old.edges, None, mine, now)
    identity = f"{UNKNOWN}:{new.identity}" if old.identity.startswith(UNKNOWN) else new.identity
    held = _read(connection, name)
    union = np.union1d(held, new.values)
    if len(union) == len(held) and old.identity == identity:
        return Content(identity, old.edges, None, mine, now)
    if len(union) > LIMIT:
        return Content(LARGE, 0, np.zeros(0, np.uint64), mine, now)
    alike = [s.name for s in shelf.sets.values() if _kind(s.identity) == new.identity and s.name != name]
    patterns = patterns_of(name, union, ((other, _read(connection, other)) for other in sorted(alike)))
    return Content(identity, len(union), union, frozenset(patterns), now)


def _kind(identity: str) -> str:
    """What the nodes of the edges that are held are known by; empty where none are."""
    return "" if identity in (UNKNOWN, LARGE) else identity.removeprefix(f"{UNKNOWN}:")


def _read(connection: Connection, name: str) -> NDArray[np.uint64]:
    statement = text("SELECT hashes FROM edge_hashes WHERE edge_set = :n ORDER BY part")
    parts = [np.frombuffer(bytes(data), "<u8") for data in connection.execute(statement, {"n": name}).scalars()]
    return np.concatenate(parts).astype(np.uint64) if parts else np.zeros(0, np.uint64)


def store(connection: Connection, name: str, content: Content, unbounded: str) -> None:
    """Write what `merge` found, inside the transaction of the charge."""
    row = {"n": name, "i": content.identity, "e": content.edges, "u": unbounded[:200]}
    connection.execute(text("UPDATE edge_sets SET identity = :i, edges = :e, unbounded = :u WHERE name = :n"), row)
    if content.values is None:
        return
    connection.execute(text("DELETE FROM edge_hashes WHERE edge_set = :n"), {"n": name})
    data = content.values.astype("<u8")
    for part, start in enumerate(range(0, len(data), _PART)):
        connection.execute(
            text("INSERT INTO edge_hashes (edge_set, part, hashes) VALUES (:n, :p, :h)"),
            {"n": name, "p": part, "h": data[start : start + _PART].tobytes()},
        )
    _store_patterns(connection, name, content.patterns)
    later = {"v": str(content.version + 1)}
    if not connection.execute(text("UPDATE meta SET value = :v WHERE name = 'contents'"), later).rowcount:
        connection.execute(text("INSERT INTO meta (name, value) VALUES ('contents', :v)"), later)


def _store_patterns(connection: Connection, name: str, patterns: frozenset[frozenset[str]]) -> None:
    for stored in connection.execute(text("SELECT names FROM shared_edges")).scalars().all():
        if name in _names(stored):
            connection.execute(text("DELETE FROM shared_edges WHERE names = :n"), {"n": stored})
    for pattern in sorted(map(sorted, patterns)):
        connection.execute(text("INSERT INTO shared_edges (names) VALUES (:n)"), {"n": json.dumps(pattern)})
