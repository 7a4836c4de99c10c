"""A bound on what answers under changed features can show: readings are counted per node, in the ledger's database.

A *cross-reading* reads a node while the row of another node differs from the stored one; every attack that learns edges
from the model's reactions needs them, whatever the features look like. An *own reading* reads a node under a change of
its own row alone. What is counted is on disk before anything is answered, and it is counted for the edge set, so that
neither a restart, another key nor a newly trained model starts anew. A question that was counted is free ever after, as
long as it gets the same answer: from the same model on the same graph.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from edgeveil.privacy.ledger.database import Database
from edgeveil.serve.engine import Change
from edgeveil.serve.problems import Problem

__all__ = ["Limits", "Mode", "Readings", "crossed"]

Int = NDArray[np.int64]
Mode = Literal["together", "alone"]
ALL = "*"
_CHUNK = 5000
_TABLES = (
    "CREATE TABLE IF NOT EXISTS readings (scope VARCHAR(120) NOT NULL, tenant VARCHAR(80) NOT NULL, "
    "kind VARCHAR(8) NOT NULL, node BIGINT NOT NULL, used BIGINT NOT NULL, PRIMARY KEY (scope, kind, node, tenant))",
    "CREATE TABLE IF NOT EXISTS questions (scope VARCHAR(120) NOT NULL, tenant VARCHAR(80) NOT NULL, "
    "digest VARCHAR(64) NOT NULL, mode VARCHAR(8) NOT NULL, PRIMARY KEY (scope, tenant, digest))",
)


@dataclass(frozen=True)
class Limits:
    """Readings of one node: `cross` by one tenant, `cross_all` by all tenants together, `own` by one tenant."""

    cross: int
    cross_all: int
    own: int


def crossed(change: Change, asked: Int) -> Int:
    """The asked nodes that are read while another node's row differs from the stored one."""
    return asked if len(change.nodes) > 1 else asked[asked != change.nodes[0]]


class Readings:
    """Counters of one server's release."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database, self.limits = database, limits
        self._scope, self._secret = "", b""
        self._lock = threading.Lock()

    def open(self, edge_set: str) -> None:
        """Make the tables where they are missing; `edge_set` is what the counts are about."""
        self._scope = edge_set
        self._database.make_tables(*_TABLES)
        self._secret = self._database.secret()

    def take(self, tenant: str, change: Change, asked: Int, model: str = "") -> Mode:
        """Count one question. ``together``: answer it as asked. ``alone``: each node may see its own change only.

        `model`: the identity of what answers. Raises a 429 when not even that is left for one of the nodes.
        """
        digest, cross = self._digest(change, asked, model), crossed(change, asked)
        own = np.intersect1d(asked, change.nodes)
        with self._lock, self._database.write() as connection:
            known = self._known(connection, tenant, digest)
            if known is not None:
                return known
            mode = self._count(connection, tenant, cross, own)
            row = {"s": self._scope, "t": tenant, "d": digest, "m": mode}
            insert = "INSERT INTO questions (scope, tenant, digest, mode) VALUES (:s, :t, :d, :m)"
            connection.execute(text(insert), row)
        return mode

    def used(self, tenant: str, kind: str, nodes: Iterable[int]) -> dict[int, int]:
        """Readings counted so far; tenant ``*``: of all together."""
        with self._database.read() as connection:
            return self._used(connection, tenant, kind, np.asarray(list(nodes), np.int64))

    def _count(self, connection: Connection, tenant: str, cross: Int, own: Int) -> Mode:
        limits = self.limits
        if self._fits(connection, tenant, "cross", cross, limits.cross) and self._fits(
            connection, ALL, "cross", cross, limits.cross_all
        ):
            for subject in (tenant, ALL):
                self._add(connection, subject, "cross", cross)
            if not len(cross):
                self._count_own(connection, tenant, own)
            return "together"
        self._count_own(connection, tenant, own)
        return "alone"

    def _count_own(self, connection: Connection, tenant: str, own: Int) -> None:
        if not self._fits(connection, tenant, "own", own, self.limits.own):
            raise Problem(
                429, "guard_refused", f"a tenant may ask {self.limits.own} times about a node under changed features, "
                "and one of these nodes has been asked so often; ask about stored features", detector="own",
            )  # fmt: skip
        self._add(connection, tenant, "own", own)

    def _fits(self, connection: Connection, tenant: str, kind: str, nodes: Int, limit: int) -> bool:
        if not len(nodes):
            return True
        return limit > 0 and max(self._used(connection, tenant, kind, nodes).values(), default=0) < limit

    def _used(self, connection: Connection, tenant: str, kind: str, nodes: Int) -> dict[int, int]:
        found: dict[int, int] = {}
        for start in range(0, len(nodes), _CHUNK):
            names = {f"n{i}": int(node) for i, node in enumerate(nodes[start : start + _CHUNK])}
            places = ", ".join(f":{name}" for name in names)
            statement = (
                f"SELECT node, used FROM readings WHERE scope = :s AND tenant = :t AND kind = :k AND node IN ({places})"
            )
            row = {"s": self._scope, "t": tenant, "k": kind, **names}
            found |= {int(r.node): int(r.used) for r in connection.execute(text(statement), row)}
        return found

    def _add(self, connection: Connection, tenant: str, kind: str, nodes: Int) -> None:
        if not len(nodes):
            return
        statement = text(
            "INSERT INTO readings (scope, tenant, kind, node, used) VALUES (:s, :t, :k, :n, 1) "
            "ON CONFLICT (scope, kind, node, tenant) DO UPDATE SET used = readings.used + 1"
        )
        rows = [{"s": self._scope, "t": tenant, "k": kind, "n": int(node)} for node in np.sort(nodes)]
        connection.execute(statement, rows)

    def _known(self, connection: Connection, tenant: str, digest: str) -> Mode | None:
        if connection.dialect.name == "postgresql":  # one question of one edge set at a time, over all processes
            name = int.from_bytes(hashlib.sha256(self._scope.encode()).digest()[:7], "big")
            connection.execute(text(f"SELECT pg_advisory_xact_lock({name})"))
        statement = "SELECT mode FROM questions WHERE scope = :s AND tenant = :t AND digest = :d"
        found: Any = connection.execute(text(statement), {"s": self._scope, "t": tenant, "d": digest}).scalar()
        return found  # type: ignore[no-any-return]

    def _digest(self, change: Change, asked: Int, model: str) -> str:
        """A keyed name of the question: what changes to what, whom the answer is about, and who answers."""
        return hmac.new(self._secret, change.written(asked) + model.encode(), hashlib.sha256).hexdigest()
