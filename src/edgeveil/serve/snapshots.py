"""Snapshots: the one act of the server that spends epsilon.

Order of events, each safe to be the last one: the request is validated; epsilon is charged (durable); the private
statistic is computed and saved beside the others (atomic move, fsync); the snapshot is entered in the ledger; only
then is anything answered. A crash leaves a charge without a snapshot: asking again with the same Idempotency-Key goes
on with that charge, and whatever was saved first is what counts, so one charge never yields two answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from edgeveil.defences.renew import named_as, renew, renewal_epsilon
from edgeveil.errors import StorageError, UsageError
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import exact
from edgeveil.privacy.ledger.edges import LIMIT, hash_edges
from edgeveil.privacy.ledger.ledger import Spend
from edgeveil.privacy.ledger.overlap import Bill
from edgeveil.privacy.ledger.units import UNLIMITED, Cost, cost_of, to_units
from edgeveil.release.identity import release_identity
from edgeveil.release.release import Release
from edgeveil.serve.engine import Engine, check_reach
from edgeveil.serve.problems import Problem
from edgeveil.serve.server_ledger import Ledger

__all__ = ["SnapshotRequest", "Snapshots"]

log = logging.getLogger("edgeveil")


@dataclass(frozen=True, eq=False)
class SnapshotRequest:
    """A new or changed private graph and what may be spent on it.

    `edge_set` names the edges that pay. Snapshots of the same edge set add up; a different name claims that no edge is
    shared, which only the owner of the graphs can know.
    """

    name: str
    edges: NDArray[np.int64]
    num_nodes: int
    features: NDArray[np.float64] | None = None
    epsilon: float | None = None
    edge_set: str | None = None
    shared: bool = False
    node_ids: NDArray[Any] | None = None

    def digest(self) -> str:
        """Content hash: the same token may only come back with the same request."""
        state = hashlib.sha256(f"{self.name}|{self.num_nodes}|{self.epsilon}|{self.edge_set}".encode())
        state.update(np.ascontiguousarray(self.edges).tobytes())
        state.update(b"" if self.features is None else np.ascontiguousarray(self.features).tobytes())
        state.update(b"shared" if self.shared else b"")
        state.update(b"" if self.node_ids is None else json.dumps(self.node_ids.tolist()).encode())
        return state.hexdigest()

    def graph(self) -> Graph:
        """The validated graph."""
        return Graph.from_edges(
            self.edges, x=self.features, num_nodes=self.num_nodes, name=self.name, node_ids=self.node_ids
        )


class Snapshots:
    """The served release and its snapshots: engines in memory, releases on disk, charges in the ledger.

    `caps` gives the epsilon of every edge set the operator has declared; no other can be charged. `tenants` says who
    may spend on an edge set, if not everybody. `named` is False when the operator left the edge set's name open.
    """

    def __init__(
        self,
        release: Release,
        ledger: Ledger,
        folder: Path,
        edge_set: str,
        caps: Mapping[str, float | None],
        reach: float = np.inf,
        *,
        tenants: Mapping[str, frozenset[str]] | None = None,
        named: bool = True,
    ) -> None:
        self._release, self._ledger, self._folder = release, ledger, folder
        self.edge_set, self._caps, self._named = edge_set, dict(caps), named
        self._tenants = tenants or {}
        self.base, self._reach = Engine(release), reach
        self._engines: dict[str, Engine] = {}
        self._readers: dict[str, str | None] = {}
        self._building = threading.Lock()

    # -- start ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Charge the served release itself (once), and check that disk and ledger tell the same story."""
        self._ledger.database.make_tables("CREATE TABLE IF NOT EXISTS shared_snapshots (id VARCHAR(32) PRIMARY KEY)")
        cost, sealed = cost_of(self._release.guarantee), self._ledger.key.seal(release_identity(self._release))
        recorded = self._ledger.of_product(sealed)
        if recorded is not None:
            self._adopt(recorded)
        for edge_set, cap in self._caps.items():
            self._open_edge_set(edge_set, cap, cost if edge_set == self.edge_set and recorded is None else Cost())
        if recorded is None and not cost.free:
            self._ledger.open_account("tenant:owner", "epsilon", UNLIMITED)
            self._ledger.spend(
                tenant="owner", key_id="-", what=f"release {self._release.defence}", edge_set=self.edge_set,
                epsilon=cost.epsilon, delta=cost.delta, unbounded=cost.unbounded, token=f"release-{sealed}",
                digest=sealed,
            )  # fmt: skip
        bill = self._ledger.bills().get(self.edge_set)
        if bill is not None and bill.unbounded:
            log.warning("nothing bounds what edge set %r has told (%s)", self.edge_set, bill.unbounded)
        self._check_disk()

    def _adopt(self, recorded: Spend) -> None:
        """A release made under this ledger was charged when it was made; its edge set keeps the name it had then."""
        if recorded.edge_set == self.edge_set:
            return
        if self._named:
            raise UsageError(
                f"this release is recorded as edge set {recorded.edge_set!r}, the settings call it {self.edge_set!r}: "
                f"set edge_set = {recorded.edge_set!r}"
            )
        self._caps = {recorded.edge_set if name == self.edge_set else name: cap for name, cap in self._caps.items()}
        self.edge_set = recorded.edge_set

    def _check_disk(self) -> None:
        """A snapshot that the ledger does not know means that the ledger is older than the data."""
        for scratch in self._folder.glob(".*-*"):  # of a process that was killed; a living one is done in seconds
            if time.time() - scratch.stat().st_mtime > _FORGOTTEN:
                shutil.rmtree(scratch, ignore_errors=True)
        charged = {charge["id"] for charge in self._ledger.charges()}
        on_disk = {path.name for path in self._folder.glob("*") if (path / "manifest.json").is_file()}
        lost = sorted(name for name in on_disk - charged if not name.startswith("."))
        if lost:
            raise StorageError(
                f"snapshot {lost[0]} in {self._folder} is unknown to the ledger, so the ledger is older than the data: "
                "it would forget what was spent. Restore the latest ledger, or remove the snapshot for good"
            )

    def _open_edge_set(self, edge_set: str, cap: float | None, cost: Cost) -> None:
        """Caps as the operator set them; without one, what is spent and the served release, and nothing more."""
        found, bill = self._ledger.account(f"edges:{edge_set}"), self._ledger.bills().get(edge_set, Bill())
        if edge_set != self.edge_set:
            self._ledger.declare(edge_set, apart=frozenset({self.edge_set}))
        self._ledger.declare(edge_set, tenants=self._tenants.get(edge_set))
        if cap is None and (cost.unbounded or bill.unbounded) and (found is None or found.cap == UNLIMITED):
            self._ledger.open_account(f"edges:{edge_set}", "epsilon", UNLIMITED)
            return
        if cap is None and found is not None and found.cap < UNLIMITED:
            return
        wanted = bill.epsilon + to_units(cost.epsilon) if cap is None else to_units(exact(cap))
        self._ledger.open_account(f"edges:{edge_set}", "epsilon", max(wanted, 0 if found is None else found.used))

    # -- look up --------------------------------------------------------------------------------------------------

    def list(self, tenant: str | None = None) -> list[dict[str, Any]]:
        """Snapshots, oldest first: all, or those that a tenant made or that are shared."""
        with self._ledger.database.read() as connection:
            rows = [dict(row._mapping) for row in connection.execute(text(f"{_SELECT} ORDER BY s.at, s.id"))]
        for row in rows:
            row["shared"] = bool(row["shared"])
        return [row for row in rows if tenant is None or row["shared"] or row["tenant"] == tenant]

    def ready(self, name: str | None, tenant: str | None = None) -> Engine | None:
        """The engine of a snapshot that a tenant may ask, if it is in memory (name None: the served release)."""
        if name is None:
            return self.base
        mine = self._readers.get(name, "") in (None, tenant) or tenant is None
        return self._engines.get(name) if mine else None

    def engine(self, name: str, tenant: str | None = None) -> Engine:
        """The engine of a snapshot that a tenant may ask, loaded from disk when needed.

        Its manifest must be the one entered. Others' snapshots are as unknown as those that do not exist.
        """
        rows = {row["id"]: row for row in self.list(tenant)}
        entered = {name: row["manifest"] for name, row in rows.items()}
        if name not in entered:
            raise Problem(404, "unknown_snapshot", f"there is no snapshot {name[:64]!r}")
        with self._building:
            if name not in self._engines:
                if _manifest_digest(self._folder / name) != entered[name]:
                    raise StorageError(f"{self._folder / name} is not the snapshot that the ledger knows")
                self._readers[name] = None if rows[name]["shared"] else rows[name]["tenant"]
                self._engines[name] = Engine(Release.load(self._folder / name), name)
            return self._engines[name]

    # -- spend ----------------------------------------------------------------------------------------------------

    def epsilon(self, epsilon: float | None) -> float:
        """What a snapshot would cost."""
        return float(renewal_epsilon(self._release, epsilon))

    def check_edge_set(self, edge_set: str | None) -> str:
        """The edge set that pays; only those the operator declared exist."""
        chosen = edge_set or self.edge_set
        if chosen not in self._caps:
            raise Problem(422, "unknown_edge_set", f"edge set {chosen!r} is not declared by the operator")
        return chosen

    def create(self, request: SnapshotRequest, *, tenant: str, key_id: str, token: str) -> tuple[dict[str, Any], Spend]:
        """Charge, compute, save, enter; returns the snapshot and its charge."""
        self._check_features(request)
        graph = named_as(self._release, request.graph())
        cost, key = renewal_epsilon(self._release, request.epsilon, graph), self._ledger.key
        edges = hash_edges(graph, key) if cost else None
        spend = self._ledger.spend(
            tenant=tenant, key_id=key_id, what=f"snapshot {request.name}", epsilon=cost, token=token, edges=edges,
            delta=exact(self._release.guarantee.delta) if cost else 0, large=graph.num_edges > LIMIT,
            edge_set=self.check_edge_set(request.edge_set), digest=key.seal(request.digest()),
        )  # fmt: skip
        found = self._find(spend.id)
        if found is None:
            with self._building:
                found = self._find(spend.id) or self._build(request, graph, spend)
        return found, spend

    def _check_features(self, request: SnapshotRequest) -> None:
        """Before anything of the size of the graph is allocated."""
        if request.features is None:
            if request.num_nodes != self.base.num_nodes:
                raise Problem(
                    422, "bad_shape", f"the graph has {request.num_nodes} nodes: send features of all of them"
                )
            return
        want = [request.num_nodes, self.base.num_features]
        if list(request.features.shape) != want:
            raise Problem(422, "bad_shape", f"features must have shape {want}, got {list(request.features.shape)}")
        check_reach(request.features, self._reach * self.base.largest)

    def _find(self, charge_id: str) -> dict[str, Any] | None:
        with self._ledger.database.read() as connection:
            row = connection.execute(text(f"{_SELECT} WHERE s.charge_id = :c"), {"c": charge_id}).first()
        return None if row is None else {**row._mapping, "shared": bool(row.shared)}

    def _build(self, request: SnapshotRequest, graph: Graph, spend: Spend) -> dict[str, Any]:
        path = self._folder / spend.id  # named after its charge: one charge, one folder
        if not (path / "manifest.json").is_file():
            try:
                self._publish(renew(self._release, graph, epsilon=request.epsilon), path)
            except Exception:
                self._ledger.settle(spend.id, "failed")
                raise
        row: dict[str, Any] = {"i": spend.id, "n": request.name, "e": spend.edge_set, "m": graph.num_nodes}
        row["d"] = _manifest_digest(path)
        # A process that entered it first has won (IntegrityError); its manifest is the one that counts.
        with contextlib.suppress(IntegrityError), self._ledger.database.write() as connection:
            row["t"] = self._ledger.database.now(connection, keep=True)
            connection.execute(
                text(
                    "INSERT INTO snapshots (id, charge_id, at, name, edge_set, num_nodes, manifest) "
                    "VALUES (:i, :i, :t, :n, :e, :m, :d)"
                ),
                row,
            )
            connection.execute(text("UPDATE charges SET status = 'done' WHERE id = :i"), {"i": spend.id})
            if request.shared:
                connection.execute(text("INSERT INTO shared_snapshots (id) VALUES (:i)"), {"i": spend.id})
        found = self._find(spend.id)
        assert found is not None
        return found

    def _publish(self, release: Release, path: Path) -> None:
        """Move a finished folder into place; whoever comes second throws his away."""
        scratch = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        try:
            release.save(scratch)
            scratch.rename(path)
        except OSError:
            if not (path / "manifest.json").is_file():
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


_SELECT = (
    "SELECT s.id, s.at, s.name, s.edge_set, s.num_nodes, s.manifest, c.tenant, "
    "CASE WHEN h.id IS NULL THEN 0 ELSE 1 END AS shared FROM snapshots s JOIN charges c ON c.id = s.charge_id "
    "LEFT JOIN shared_snapshots h ON h.id = s.id"
)
_FORGOTTEN = 3600.0


def _manifest_digest(path: Path) -> str:
    try:
        return hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest()
    except OSError as error:
        raise StorageError(f"snapshot {path} cannot be read: {error.strerror or error}") from error
