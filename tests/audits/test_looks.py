"""Looks: runs are added until decided or the time is up; only the first run is attacked; nothing is run twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeveil.audits.audit import AuditPlan, Found, attack_configs, drawn_how, enough_nodes, judged_by, run_audit
from edgeveil.audits.looks import RUNS_AT_LOOK, look_until_decided
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.runs.executors import Serial
from edgeveil.runs.score import draw_sample
from edgeveil.runs.store import Store
from zoo import toy

PLAN = AuditPlan(defences=("mlp", "lapgraph"), epsilons=(4.0,), attacks=("lsa2-attr",), nodes=20, split="50:25:25",
                 train_params={"epochs": 20})  # fmt: skip


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


def test_where_500_nodes_hold_few_edges_more_are_attacked_and_they_are_drawn_by_edges() -> None:
    """300 of 200,000 nodes held 4 edges; now hundreds of true edges are attacked, and small graphs stay as they were."""
    rng, n = np.random.default_rng(0), 200_000
    sparse = Graph.from_edges(rng.integers(0, n, (2, 300_000)), num_nodes=n)
    count = enough_nodes(sparse)
    assert 500 < count <= 4000 and drawn_how(sparse, count) == drawn_how(sparse, 300) == "edges"
    plan = replace(PLAN, nodes=count, drawn="edges")
    nodes, _, draw = draw_sample(sparse, attack_configs(plan, 0)[0], "unconstrained", 0)
    assert nodes is not None and draw is not None and len(nodes) <= count
    assert np.isin(sparse.edge_index, nodes).all(axis=0).sum() > count // 4
    assert enough_nodes(toy()) == 500 and drawn_how(toy(), 500) == "nodes"
    dense = Graph.from_edges(rng.integers(0, 2700, (2, 5300)), num_nodes=2700)  # Cora's size: 180 edges among 500
    assert (enough_nodes(dense), drawn_how(dense, 500)) == (500, "nodes")


def test_imbalanced_classes_are_judged_by_macro_f1() -> None:
    graph = toy()
    assert graph.y is not None
    y = graph.y.copy()
    y[:50] = 0
    skewed = Graph.from_edges(graph.edge_index, x=graph.x, y=y)
    assert judged_by(PLAN, skewed).utility == "macro_f1" and judged_by(PLAN, graph).utility is None
