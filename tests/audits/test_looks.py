"""Looks: runs are added until decided or the time is up; only the first run is attacked; nothing is run twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeveil.audits.audit import AuditPlan, Found, enough_nodes, judged_by, run_audit
from edgeveil.audits.looks import RUNS_AT_LOOK, look_until_decided
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.runs.executors import Serial
from edgeveil.runs.score import draw_nodes
from edgeveil.runs.store import Store
from zoo import toy

PLAN = AuditPlan(defences=("mlp", "lapgraph"), epsilons=(4.0,), attacks=("lsa2-attr",), nodes=20, split="50:25:25")


def test_every_look_adds_trained_runs_and_draws_its_own_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgeveil.audits.looks.MIN_TEST", 1)
    told: list[str] = []
    with Store(tmp_path / "s.sqlite") as store:
        looked = look_until_decided(PLAN, toy(), None, Serial(), store, minutes=5, tell=told.append)
        again = look_until_decided(PLAN, toy(), None, Serial(), store, minutes=5)
    records = looked.found.records
    assert "first run: 1 of 2 releases" in told[0] and all("s left" in line for line in told)
    assert len(told) == 2 + len(RUNS_AT_LOOK) and looked.runs == RUNS_AT_LOOK[-1]  # 15 test nodes decide nothing
    assert "inside the noise" in looked.stopped
    attacked = {r.config.get("seed", 0) for r in records if r.config.get("attacks")}
    assert attacked == {0} and {r.config.get("split_seed", 0) for r in records} == set(range(looked.runs))
    assert [r.id for r in again.found.records] == [r.id for r in records]


def test_runs_are_not_added_where_test_nodes_are_too_few(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        looked = look_until_decided(PLAN, toy(), None, Serial(), store, minutes=5)
    assert (looked.runs, looked.stopped) == (1, "")


def test_a_look_that_does_not_fit_the_time_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgeveil.audits.looks.MIN_TEST", 1)
    monkeypatch.setattr("edgeveil.audits.looks._seconds", lambda records, cells: 1e9)
    with Store(tmp_path / "s.sqlite") as store:
        looked = look_until_decided(PLAN, toy(), None, Serial(), store, minutes=5)
        assert looked.runs == 1 and "raise --minutes" in looked.stopped
        with pytest.raises(InputError, match="minutes must be > 0"):
            look_until_decided(PLAN, toy(), None, Serial(), store, minutes=0)


def test_the_first_run_is_bounded_too_and_what_is_left_out_is_named(tmp_path: Path) -> None:
    """Baselines always finish; the rest is postponed, said so, and added when there is time."""
    plan = replace(PLAN, epsilons=(1.0, 4.0))
    with Store(tmp_path / "s.sqlite") as store:
        short = look_until_decided(plan, toy(), None, Serial(), store, minutes=1e-6)
        assert [r.config["defence"] for r in short.found.records] == ["mlp"]
        assert "LapGraph at ε = 1, 4" in short.stopped and "Raise --minutes" in short.stopped
        long = look_until_decided(plan, toy(), None, Serial(), store, minutes=5)
    assert (len(long.found.records), long.stopped) == (3, "")


def test_what_cannot_be_recommended_waits_until_the_others_have_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest epsilon of each sound defence tells what it costs; its others follow, then refuted claims."""
    plan = replace(PLAN, defences=("mlp", "gp-t", "lapgraph", "lpgnet-1"), epsilons=(2.0, 4.0))
    ran: list[tuple[str, float | None, int]] = []

    def note(plan: AuditPlan, *args: Any, cells: Any = None, **wishes: Any) -> Found:
        ran.extend(cells)
        return run_audit(plan, *args, cells=cells, **wishes)

    monkeypatch.setattr("edgeveil.audits.looks.run_audit", note)
    with Store(tmp_path / "s.sqlite") as store:
        look_until_decided(plan, toy(), None, Serial(), store, minutes=5)
    assert [c[:2] for c in ran[:3]] == [("mlp", None), ("lapgraph", 4.0), ("lpgnet-1", 4.0)]
    assert [c[:2] for c in ran[3:]] == [("lapgraph", 2.0), ("lpgnet-1", 2.0), ("gp-t", 4.0), ("gp-t", 2.0)]


def test_enough_nodes_are_attacked_to_find_edges_among_them() -> None:
    """300 of 200,000 nodes held 4 edges; now about 60 are expected, whatever the size, and small graphs stay at 500."""
    rng = np.random.default_rng(0)
    sparse = Graph.from_edges(rng.integers(0, 40_000, (2, 60_000)), x=np.zeros((40_000, 1)))
    count = enough_nodes(sparse)
    assert 500 < count < 4000
    drawn = [draw_nodes(sparse, count, seed) for seed in range(5)]
    inside = [int(np.isin(sparse.edge_index, nodes).all(axis=0).sum()) for nodes in drawn]
    assert min(inside) >= 30 and np.mean(inside) == pytest.approx(60, rel=0.3)
    assert enough_nodes(toy()) == 500


def test_among_200_000_nodes_enough_edges_are_attacked_and_each_is_as_likely() -> None:
    """Chances are equal, so every edge weighs the same and the attacked share is an estimate for the whole graph.

    The share of edges inside the first class of a graph (0.36) is estimated from 20 draws; the test fails by chance in
    fewer than 1 of 10,000 cases (four standard errors).
    """
    rng, n = np.random.default_rng(1), 200_000
    ends = np.where(
        rng.random((2, 300_000)) < 0.6, rng.integers(0, n // 10, (2, 300_000)), rng.integers(0, n, (2, 300_000))
    )
    graph = Graph.from_edges(ends, num_nodes=n)
    count = enough_nodes(graph)
    assert count <= 4000
    hubs = (graph.edge_index < n // 10).all(axis=0)
    inside = [np.isin(graph.edge_index, draw_nodes(graph, count, seed)).all(axis=0) for seed in range(20)]
    edges = np.array([part.sum() for part in inside])
    assert edges.mean() == pytest.approx(60, rel=0.25) and (edges >= 30).mean() >= 0.9
    shares = np.array([(hubs & part).sum() / part.sum() for part in inside])
    assert abs(shares.mean() - hubs.mean()) < 4 * shares.std(ddof=1) / 20**0.5


def test_imbalanced_classes_are_judged_by_macro_f1() -> None:
    graph = toy()
    assert graph.y is not None
    y = graph.y.copy()
    y[:50] = 0
    skewed = Graph.from_edges(graph.edge_index, x=graph.x, y=y)
    assert judged_by(PLAN, skewed).utility == "macro_f1" and judged_by(PLAN, graph).utility is None
