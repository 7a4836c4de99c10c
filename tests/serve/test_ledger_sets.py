"""The ledger is an upper bound: the same edges under two names, what nothing bounds, delta, tenants, old ledgers."""

from __future__ import annotations

import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.errors import BudgetExceeded, InputError, StorageError
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee
from edgeveil.privacy.ledger import contents, edges
from edgeveil.privacy.ledger.database import Database
from edgeveil.privacy.ledger.edges import hash_edges
from edgeveil.privacy.ledger.examine import faults
from edgeveil.privacy.ledger.ledger import UnboundedSpend
from edgeveil.privacy.ledger.units import UNLIMITED, cost_of, delta_to_units, to_units
from edgeveil.serve.server_ledger import Ledger

OLD = Path(__file__).parent / "data" / "ledger_schema_2.sql"


def path_graph(first: int, last: int, prefix: str = "n") -> ev.Graph:
    """Nodes first..last in a row, known by name."""
    count = last - first + 1
    pairs = np.stack([np.arange(count - 1), np.arange(1, count)])
    names = [f"{prefix}{i}" for i in range(first, last + 1)]
    return ev.Graph.from_edges(pairs, num_nodes=count, node_ids=names)


def told(ledger: Ledger, name: str, epsilon: float, graph: ev.Graph | None, token: str, **more: Any) -> None:
    hashed = None if graph is None else hash_edges(graph, ledger.key)
    facts: dict[str, Any] = {"tenant": "owner", "key_id": "-", "what": "release", "digest": "d", **more}
    ledger.spend(edge_set=name, epsilon=epsilon, token=token, edges=hashed, **facts)


def open_sets(ledger: Ledger, **caps: float | None) -> None:
    ledger.open_account("tenant:owner", "epsilon", UNLIMITED)
    for name, cap in caps.items():
        ledger.open_account(f"edges:{name}", "epsilon", UNLIMITED if cap is None else to_units(cap))


def check_look_ahead(ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process's charge lands while the edges are compared before the lock: its edges must be seen all the same."""
    open_sets(ledger, a=1.0, b=1.0)
    seen, first = contents.read_shelf, [True]

    def slow(connection: Any) -> contents.Shelf:
        shelf = seen(connection)
        if first and first.pop():
            told(other, "b", 0.6, path_graph(0, 5), "other")
        return shelf

    monkeypatch.setattr(contents, "read_shelf", slow)
    with pytest.raises(BudgetExceeded):
        told(ledger, "a", 0.6, path_graph(0, 5), "mine")
    assert ledger.account("edges:a").used == 0 and ledger.account("edges:b").used == to_units(0.6)
    told(ledger, "a", 0.4, path_graph(0, 5), "less")
    assert ledger.overlaps() == [["a", "b"]] and ledger.bills()["a"].epsilon == to_units(1.0)


def test_a_charge_that_lands_while_edges_are_compared_is_seen(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Ledger(Database(f"sqlite:///{tmp_path / 'ledger.db'}"))
    other.unlock(tmp_path / "ledger.db.key")
    check_look_ahead(ledger, other, monkeypatch)
    other.close()


def test_the_same_edges_under_two_names_add_up(ledger: Ledger) -> None:
    open_sets(ledger, a=3.0, b=3.0, c=3.0)
    told(ledger, "a", 2.0, path_graph(0, 5), "1")
    told(ledger, "c", 3.0, path_graph(20, 25), "2")  # shares nothing: parallel
    told(ledger, "b", 1.0, path_graph(5, 9), "3")  # touches node 5, shares no edge
    assert {n: b.epsilon for n, b in ledger.bills().items()} == {"a": to_units(2), "b": to_units(1), "c": to_units(3)}
    before = ledger.bills(), ledger.charges(), ledger.edge_sets()
    with pytest.raises(BudgetExceeded, match="edges:a"):  # the edge 4-5 has paid 2, would pay 1 + 0.5 more
        told(ledger, "b", 0.5, path_graph(4, 6), "4")
    assert (ledger.bills(), ledger.charges(), ledger.edge_sets()) == before
    ledger.open_account("edges:a", "epsilon", to_units(4.0))
    ledger.open_account("edges:b", "epsilon", to_units(4.0))
    told(ledger, "b", 0.5, path_graph(4, 6), "4")
    assert ledger.bills()["b"].epsilon == ledger.bills()["a"].epsilon == to_units(3.5)
    assert ledger.overlaps() == [["a", "b"]]
    assert not ledger.quote("owner", "a", 0.6).allowed and ledger.quote("owner", "a", 0.5).allowed
    ledger.open_account("edges:a", "epsilon", to_units(9.0))
    with pytest.raises(BudgetExceeded, match="edges:b"):
        told(ledger, "a", 1.0, path_graph(0, 5), "5")


def test_beyond_the_limit_overlap_is_assumed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (edges, contents):
        monkeypatch.setattr(module, "LIMIT", 6)
    open_sets(ledger, a=10.0, b=10.0)
    ledger.declare("b", apart=frozenset({"a"}))
    told(ledger, "a", 2.0, path_graph(0, 5), "1")
    told(ledger, "b", 1.0, path_graph(50, 53), "2")
    assert ledger.bills()["b"].epsilon == to_units(1)
    told(ledger, "a", 2.0, path_graph(8, 11), "3")  # eight edges together
    assert ledger.edge_sets()["a"].identity == "large"
    assert ledger.bills()["b"].epsilon == to_units(5) == ledger.bills()["a"].epsilon


def test_unknown_edges_are_assumed_to_overlap_unless_the_owner_says_not(ledger: Ledger) -> None:
    open_sets(ledger, a=10.0, b=10.0)
    told(ledger, "a", 2.0, None, "1")
    told(ledger, "b", 1.0, path_graph(0, 3), "2")
    assert ledger.bills()["b"].epsilon == to_units(3) == ledger.bills()["a"].epsilon
    ledger.declare("b", apart=frozenset({"a"}))
    assert ledger.bills()["b"].epsilon == to_units(1) and ledger.bills()["a"].epsilon == to_units(2)


def test_what_is_seen_of_an_unknown_set_counts_against_the_owners_word(ledger: Ledger) -> None:
    """A release whose edges nobody told, and snapshots of the same edges under its name and under one declared apart."""
    open_sets(ledger, graph=10.0, annex=10.0)
    told(ledger, "graph", 2.0, None, "1")
    ledger.declare("annex", apart=frozenset({"graph"}))
    told(ledger, "graph", 1.0, path_graph(0, 5), "2")
    told(ledger, "annex", 1.0, path_graph(50, 55), "3")
    assert ledger.edge_sets()["graph"].identity == "unknown:ids" and ledger.bills()["annex"].epsilon == to_units(1)
    told(ledger, "annex", 1.0, path_graph(4, 5), "4")  # this edge was in a snapshot of the other set
    assert ledger.overlaps() == [["annex", "graph"]]
    assert ledger.bills()["annex"].epsilon == ledger.bills()["graph"].epsilon == to_units(5)
    told(ledger, "graph", 1.0, None, "5")
    assert ledger.bills()["annex"].epsilon == to_units(6) and ledger.edge_sets()["graph"].edges == 5
    rows = ev.Graph.from_edges([[0], [1]], num_nodes=4)
    told(ledger, "graph", 1.0, rows, "6")  # known by another kind of name: unknown, and what was held stays
    assert ledger.edge_sets()["graph"].identity == "unknown:ids" and ledger.bills()["annex"].epsilon == to_units(7)
    assert faults(ledger) == []


def test_unbounded_stays_for_ever(ledger: Ledger) -> None:
    open_sets(ledger, a=None, b=8.0)
    with pytest.raises(UnboundedSpend, match="edges:b"):
        told(ledger, "b", 0, path_graph(0, 3), "0", unbounded="no guarantee for edges")
    assert not ledger.bills()["b"].unbounded
    told(ledger, "a", 0, path_graph(0, 3), "1", unbounded="no guarantee for edges")
    told(ledger, "a", 1.0, path_graph(0, 3), "2")
    assert ledger.bills()["a"].unbounded == "a: no guarantee for edges"
    with pytest.raises(UnboundedSpend, match="no guarantee"):  # one of its edges has been told without a bound
        told(ledger, "b", 1.0, path_graph(2, 6), "3")
    told(ledger, "b", 1.0, path_graph(3, 6), "4")
    told(ledger, "b", 0, path_graph(0, 3), "5")  # an MLP tells nothing about edges
    assert not ledger.bills()["b"].unbounded
    ledger.open_account("edges:a", "epsilon", to_units(100.0))
    with pytest.raises(UnboundedSpend):
        told(ledger, "a", 0.1, path_graph(0, 3), "6")


def test_delta_adds_up_and_has_a_cap(ledger: Ledger) -> None:
    open_sets(ledger, a=100.0)
    for i in range(3):
        told(ledger, "a", 1.0, path_graph(0, 3), f"{i}", delta=Fraction(1, 10**6))
    assert ledger.bills()["a"].delta == delta_to_units(3e-6)
    with pytest.raises(BudgetExceeded, match="delta"):
        told(ledger, "a", 1.0, path_graph(0, 3), "all", delta=1 - 2e-6)
    ledger.open_account("edges:a", "delta", delta_to_units(3.5e-6))
    with pytest.raises(BudgetExceeded, match="asks for delta 1e-06"):
        told(ledger, "a", 1.0, path_graph(0, 3), "more", delta=1e-6)
    assert ledger.bills()["a"].epsilon == to_units(3.0)


def test_edge_sets_are_bound_to_tenants(ledger: Ledger) -> None:
    open_sets(ledger, a=10.0)
    for tenant in ("bob", "eve"):
        ledger.open_account(f"tenant:{tenant}", "epsilon", to_units(5.0))
    ledger.declare("a", tenants=frozenset({"bob"}))
    told(ledger, "a", 1.0, path_graph(0, 3), "1", tenant="bob")
    with pytest.raises(InputError, match="bound to other tenants"):
        told(ledger, "a", 1.0, path_graph(0, 3), "2", tenant="eve")
    told(ledger, "a", 1.0, path_graph(0, 3), "3")  # the owner's own
    assert ledger.bills()["a"].epsilon == to_units(2.0)


@pytest.mark.parametrize(
    ("guarantee", "why"),
    [
        (Guarantee(status="none"), "no guarantee"),
        (Guarantee(status="refuted", claimed_epsilon=1.0, reason="r"), "refuted"),
        (Guarantee(status="sound", claimed_epsilon=1.0, unit="one list entry", randomness=SECURE), "one list entry"),
        (Guarantee(status="sound", claimed_epsilon=1.0, randomness=SEEDED), "seeded"),
    ],
)
def test_what_is_not_known_to_be_bounded_is_unbounded(guarantee: Guarantee, why: str) -> None:
    assert why in cost_of(guarantee).unbounded


def test_costs_of_sound_guarantees() -> None:
    cost = cost_of(Guarantee(status="sound", claimed_epsilon=0.1, delta=1e-6, randomness=SECURE))
    assert (cost.epsilon, cost.delta, cost.unbounded) == (Fraction(1, 10), Fraction(1, 10**6), "")
    assert cost_of(Guarantee(status="sound", claimed_epsilon=0.0, randomness=SEEDED)).free


def test_a_ledger_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as old:
        old.executescript(OLD.read_text())
    old.close()
    ledger = Ledger(Database(f"sqlite:///{path}"))
    ledger.unlock(tmp_path / "ledger.db.key")
    assert [c["amount"] for c in ledger.charges("graph")] == [to_units(2), to_units(1)]
    assert ledger.account("tenant:bob", "queries").used == 5
    # Nobody knows which edges the old names stood for: they may be the same.
    assert {n: b.epsilon for n, b in ledger.bills().items()} == {"graph": to_units(3.5), "annex": to_units(3.5)}
    assert ledger.head().entry == 1 and faults(ledger) == []
    with sqlite3.connect(path) as raw:
        stored = " ".join(token + digest for token, digest in raw.execute("SELECT token, digest FROM charges"))
    raw.close()
    assert "93fa2ba1cdfe26640553fd895e27b772" not in stored  # the plain hash of a release is gone
    with pytest.raises(BudgetExceeded):
        told(ledger, "annex", 0.6, None, "new")
    told(ledger, "annex", 0.5, None, "new")
    ledger.close()


def test_the_key_is_private_and_never_replaced(tmp_path: Path) -> None:
    url, key = f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "ledger.db.key"
    for _ in range(2):
        ledger = Ledger(Database(url))
        ledger.unlock(key)
        secret = ledger.key.secret
        ledger.close()
    assert key.stat().st_mode & 0o777 == 0o600 and bytes.fromhex(key.read_text()) == secret
    assert secret not in (tmp_path / "ledger.db").read_bytes()
    kept = key.read_text()
    for spoilt, message in ((None, "missing"), ("00" * 32, "not the key"), ("zz", "cannot read")):
        key.unlink(missing_ok=True)
        if spoilt is not None:
            key.touch(0o600)
            key.write_text(spoilt)
        ledger = Ledger(Database(url))
        with pytest.raises(StorageError, match=message):
            ledger.unlock(key)
        ledger.close()
    key.write_text(kept)
    key.chmod(0o644)
    ledger = Ledger(Database(url))
    with pytest.raises(StorageError, match="chmod 600"):
        ledger.unlock(key)
    ledger.close()
