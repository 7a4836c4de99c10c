"""Releases, exports and renewals enter a ledger: refused before any noise, charged what they state, known again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import edgeveil as ev
from edgeveil.cli.main import build_app
from edgeveil.defences.defence import DEFENCES
from edgeveil.defences.defend import make_defence
from edgeveil.defences.lapgraph import LapGraph
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.defences.recorded import planned_cost, record
from edgeveil.defences.renew import renew
from edgeveil.errors import BudgetExceeded, UsageError
from edgeveil.privacy.ledger import open_ledger
from edgeveil.privacy.ledger.units import cost_of, to_units
from edgeveil.release.identity import release_identity

pytestmark = pytest.mark.usefixtures("trained_briefly")


@pytest.fixture
def graph() -> ev.Graph:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 24)
    pairs = rng.integers(0, 24, (2, 50))
    mask = np.arange(24) % 2 == 0
    return ev.Graph.from_edges(
        pairs[:, pairs[0] != pairs[1]], x=rng.random((24, 3)) + y[:, None], y=y, train_mask=mask, test_mask=~mask,
        node_ids=[f"p{i}" for i in range(24)], name="friends",
    )  # fmt: skip


def test_releases_of_one_graph_add_up_and_the_cap_holds_before_noise(
    graph: ev.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    first = ev.defend(graph, "lapgraph", epsilon=1.0, ledger=path)
    ev.defend(graph, "lpgnet-1", epsilon=2.0, ledger=path, edge_set="again", tenant="bob")
    with open_ledger(path) as ledger:
        assert ledger.bills()["friends"].epsilon == ledger.bills()["again"].epsilon == to_units(3.0)
        assert {c["tenant"] for c in ledger.charges()} == {"owner", "bob"}
        known = ledger.of_product(ledger.key.seal(release_identity(first)))
        assert known is not None and known.edge_set == "friends"
        ledger.open_account("edges:friends", "epsilon", to_units(3.5))

    def drawn(*_: Any, **__: Any) -> None:
        raise AssertionError("noise was drawn before the ledger was asked")

    monkeypatch.setattr(LapGraph, "perturb", drawn)
    with pytest.raises(BudgetExceeded):
        ev.defend(graph, "lapgraph", epsilon=1.0, ledger=path)
    with pytest.raises(BudgetExceeded):  # the same edges under a third name
        ev.defend(graph, "lapgraph", epsilon=1.0, ledger=path, edge_set="third")
    with pytest.raises(BudgetExceeded):
        renew(first, graph, epsilon=1.0, ledger=path)
    with open_ledger(path) as ledger:
        assert len(ledger.charges()) == 2


def test_a_cap_on_delta_holds_before_noise(graph: ev.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deltas of releases and renewals add up, and the plan knows them: it used to be found out after the noise."""
    path, kind = tmp_path / "ledger.db", {"epsilon": 1.0, "noise": "gaussian", "delta": 1e-6}
    first = ev.defend(graph, "lpgnet-1", ledger=path, **kind)  # type: ignore[arg-type]
    renew(first, graph, ledger=path)
    with open_ledger(path) as ledger:
        assert 2 * 10**12 <= ledger.bills()["friends"].delta <= 2 * 10**12 + 2  # rounded up
        ledger.open_account("edges:friends", "delta", 25 * 10**11)
    monkeypatch.setattr(LPGNet, "perturb_counts", lambda *_: pytest.fail("noise was drawn before the ledger was asked"))
    for again in (lambda: ev.defend(graph, "lpgnet-1", ledger=path, **kind), lambda: renew(first, graph, ledger=path)):  # type: ignore[arg-type]
        with pytest.raises(BudgetExceeded, match="delta"):
            again()


def test_the_same_people_in_another_order_of_rows_pay_twice(graph: ev.Graph, tmp_path: Path) -> None:
    """Two tenants are told one graph, once with its rows shuffled and without ids, under two names."""
    order, path = np.random.default_rng(0).permutation(graph.num_nodes), tmp_path / "ledger.db"
    bare = replace(graph, node_ids=None)
    for name, told in (("a", bare), ("b", bare.subgraph(order))):
        record(
            path, LapGraph(epsilon=1.0).mechanism_guarantee(), told, "perturb", edge_set=name, tenant=f"tenant-{name}"
        )
    with open_ledger(path) as ledger:
        assert ledger.bills()["a"].epsilon == ledger.bills()["b"].epsilon == to_units(2.0)


def test_a_snapshot_by_rows_of_the_release_is_known_by_its_ids(graph: ev.Graph, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    release = ev.defend(graph, "lapgraph", epsilon=1.0, ledger=path)
    rows = ev.Graph.from_edges(graph.edge_index, num_nodes=graph.num_nodes, name="rows")
    fresh = renew(release, rows, epsilon=1.0, ledger=path, edge_set="rows")
    assert fresh.node_ids is not None and fresh.node_ids.tolist() == graph.node_ids.tolist()  # type: ignore[union-attr]
    with open_ledger(path) as ledger:
        assert ledger.edge_sets()["rows"].identity == "ids" and ledger.overlaps() == [["friends", "rows"]]


def test_an_undefended_or_seeded_release_is_unbounded_for_ever(graph: ev.Graph, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for given in ({"defence": "none"}, {"defence": "lapgraph", "epsilon": 1.0, "seed": 0}):
        ev.defend(graph, ledger=path, edge_set=given["defence"], **given)  # type: ignore[arg-type]
    ev.defend(graph, "mlp", ledger=path, edge_set="mlp")
    with open_ledger(path) as ledger:
        bills = ledger.bills()
        assert bills["none"].unbounded and bills["lapgraph"].unbounded and bills["mlp"].epsilon == 0


def test_a_renewal_pays_for_the_weights_unless_the_ledger_knows_them(graph: ev.Graph, tmp_path: Path) -> None:
    known, unknown = tmp_path / "known.db", tmp_path / "unknown.db"
    release = ev.defend(graph, "lapgraph", epsilon=1.0, ledger=known)
    for path, charged in ((known, 0.5), (unknown, 1.5)):
        made = renew(release, graph, epsilon=0.5, ledger=path)
        with open_ledger(path) as ledger:
            assert ledger.charges()[-1]["amount"] == to_units(charged)
            assert ledger.bills()["friends"].epsilon == to_units(1.5)
    assert made.guarantee.epsilon == 1.5


def test_a_tenant_pays_for_weights_that_only_another_has_paid_for(graph: ev.Graph, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    release = ev.defend(graph, "lapgraph", epsilon=1.0, ledger=path, tenant="a")
    renew(release, graph, epsilon=0.5, ledger=path, tenant="b")
    renew(release, graph, epsilon=0.5, ledger=path, tenant="a")
    with open_ledger(path) as ledger:
        assert [c["amount"] for c in ledger.charges()] == [to_units(e) for e in (1.0, 1.5, 0.5)]


def test_the_plan_is_what_a_release_states(graph: ev.Graph) -> None:
    for name in ("none", "mlp", "edgerand", "lapgraph", "lpgnet-1", "gp-sound", "gp-t", "rr"):
        takes = "epsilon" in DEFENCES.get(name).__dataclass_fields__  # type: ignore[attr-defined]
        defence = make_defence(name, 2.0 if takes else None)
        plan = planned_cost(defence, None, 1)
        stated = cost_of(ev.defend(graph, defence).guarantee)
        assert plan.epsilon == stated.epsilon and bool(plan.unbounded) == bool(stated.unbounded), name
        assert plan.delta == stated.delta, name
    assert planned_cost(make_defence("edgerand", 2.0), None, 2).epsilon == 4
    assert planned_cost(make_defence("lpgnet-1", float("inf")), None, 1).unbounded


def test_python_exports_are_recorded_by_one_line(graph: ev.Graph, tmp_path: Path) -> None:
    mechanism = ev.EdgeRand(epsilon=2.0)
    record(tmp_path / "l.db", mechanism.mechanism_guarantee(), graph, "perturb edgerand")
    with open_ledger(tmp_path / "l.db") as ledger:
        assert ledger.bills()["friends"].epsilon == to_units(Fraction(2))
    with pytest.raises(UsageError, match="edge set's name"):
        record(tmp_path / "l.db", mechanism.mechanism_guarantee(), graph, "perturb", edge_set="no spaces please")


def test_the_commands_record_too(graph: ev.Graph, tmp_path: Path) -> None:
    edges, ids = tmp_path / "edges.csv", tmp_path / "users.csv"
    u, v = graph.edge_index
    edges.write_text("".join(f"p{a},p{b}\n" for a, b in zip(u, v, strict=True)))
    assert graph.y is not None
    ids.write_text("id,label\n" + "".join(f"p{i},{graph.y[i]}\n" for i in range(24)))
    path = tmp_path / "ledger.db"
    run, app = CliRunner(), build_app()
    common = ["--edges", str(edges), "--labels", str(ids), "--ledger", str(path), "--epsilon", "1"]
    done = run.invoke(app, ["perturb", *common, "--out", str(tmp_path / "a")])
    assert done.exit_code == 0, done.output
    with open_ledger(path) as ledger:
        (name,) = ledger.edge_sets()
        ledger.open_account(f"edges:{name}", "epsilon", to_units(1.5))
    refused = run.invoke(app, ["perturb", *common, "--out", str(tmp_path / "b"), "--edge-set", "other"])
    assert isinstance(refused.exception, BudgetExceeded) and not (tmp_path / "b").exists()
    shuffled = replace(graph, y=None)
    record(path, ev.EdgeRand(epsilon=0.5).mechanism_guarantee(), shuffled, "perturb", edge_set="python")
    with open_ledger(path) as ledger:
        assert ledger.overlaps() == [sorted([name, "python"])]  # the same people, read by two doors
