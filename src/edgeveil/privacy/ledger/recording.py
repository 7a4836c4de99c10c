"""Recording a release: refuse before any noise is drawn when a cap would break, charge before anything leaves."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edgeveil.errors import UsageError
from edgeveil.graph.graph import Graph
from edgeveil.graph.stored.graph_in_files import StoredGraph
from edgeveil.privacy.ledger import open_ledger
from edgeveil.privacy.ledger.edges import LIMIT, EdgeHashes, EdgeKey, hash_edges
from edgeveil.privacy.ledger.ledger import OWNER, Ledger, Spend
from edgeveil.privacy.ledger.units import UNLIMITED, Cost

__all__ = ["Recorder", "recording"]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")
Graphs = Sequence[Graph | StoredGraph]
_TENANT = re.compile(r"[A-Za-z0-9._@-]{1,80}")


class Recorder:
    """One thing to be told about some graphs, to one tenant, under one edge set's name.

    Accounts that do not exist yet are opened without a cap, and the owner's own has none: everything is summed, and
    only caps that somebody set are held.
    """

    def __init__(self, ledger: Ledger, graphs: Graphs, edge_set: str | None, tenant: str) -> None:
        self.ledger = ledger
        self.edge_set = _edge_set(graphs[0], edge_set)
        if not _TENANT.fullmatch(tenant):
            raise UsageError(f"tenant {tenant!r} must be 1 to 80 letters, digits or ._@-")
        self.tenant = tenant
        self._edges = _hash_all(graphs, ledger.key)
        self._large = sum(graph.num_edges for graph in graphs) > LIMIT
        for subject in (f"edges:{self.edge_set}", f"tenant:{tenant}"):
            if subject == f"tenant:{OWNER}" or ledger.account(subject) is None:
                ledger.open_account(subject, "epsilon", UNLIMITED)

    def check(self, cost: Cost, what: str) -> None:
        """Raise if the charge would be refused; charges nothing."""
        self._spend(cost, what, dry=True)

    def charge(self, cost: Cost, what: str, product: str = "", *, token: str | None = None) -> Spend:
        """Charge, durably; `product` is the identity of the release that may now leave.

        A `token` names the charge: whoever comes back with it, after a crash, finds the charge instead of a second one.
        """
        spend = self._spend(cost, what, token=token)
        if token is None:
            self.settle(spend, product)
        return spend

    def settle(self, spend: Spend, product: str = "") -> None:
        """Note that what was charged for is made."""
        self.ledger.settle(spend.id, "done", self.ledger.key.seal(product) if product else "")

    def _spend(self, cost: Cost, what: str, dry: bool = False, token: str | None = None) -> Spend:
        token = token or secrets.token_hex(16)
        return self.ledger.spend(
            tenant=self.tenant, key_id="-", what=what, edge_set=self.edge_set, epsilon=cost.epsilon, delta=cost.delta,
            unbounded=cost.unbounded, token=token, digest=token, edges=self._edges, large=self._large, dry=dry,
        )  # fmt: skip


@contextmanager
def recording(
    where: str | Path | Ledger,
    graphs: Graphs,
    *,
    edge_set: str | None = None,
    tenant: str = OWNER,
) -> Iterator[Recorder]:
    """A recorder on a ledger (a file, an address, or one that is open already)."""
    ledger = where if isinstance(where, Ledger) else open_ledger(where)
    try:
        yield Recorder(ledger, graphs, edge_set, tenant)
    finally:
        if ledger is not where:
            ledger.close()


def _edge_set(graph: Graph | StoredGraph, given: str | None) -> str:
    if given is not None and not _NAME.fullmatch(given):
        raise UsageError(f"an edge set's name must be 1 to 80 letters, digits or ._-, got {given!r}")
    return given or re.sub(r"[^A-Za-z0-9._-]", "-", graph.name)[:80] or "graph"


def _hash_all(graphs: Graphs, key: EdgeKey) -> EdgeHashes | None:
    """The edges of all graphs together; None when they cannot be kept or are known by different kinds of name."""
    hashed: list[EdgeHashes] = []
    for graph in graphs:
        found = hash_edges(graph, key)
        if found is None or (hashed and found.identity != hashed[0].identity):
            return None
        hashed.append(found)
    return EdgeHashes(hashed[0].identity, np.unique(np.concatenate([h.values for h in hashed])))
