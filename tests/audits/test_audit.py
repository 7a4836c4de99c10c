"""The audit: pure tasks, one per release, resumable, and private where it names edges."""

from __future__ import annotations

import base64
import csv
import stat
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.audits.advise import choose, choosing_cost, conclude, rank
from edgeveil.audits.audit import AuditPlan, Found, graphs_of, run_audit
from edgeveil.audits.existing_models import audit_existing
from edgeveil.audits.exposed_edges import write_exposed
from edgeveil.defences.defence import DEFENCES, registered_name
from edgeveil.defences.defend import make_defence
from edgeveil.defences.job import Job
from edgeveil.errors import InputError, TooLarge
from edgeveil.report.collect import collect
from edgeveil.report.page import render
from edgeveil.runs.details import degree_bins
from edgeveil.runs.executors import Serial
from edgeveil.runs.measure import measure
from edgeveil.runs.plan import Grid, Plan
from edgeveil.runs.records import Record
from edgeveil.runs.rows import FIELDS
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import prepare
from edgeveil.runs.tasks import Outcome
from zoo import toy

pytestmark = pytest.mark.usefixtures("sketched", "trained_briefly")
PLAN = AuditPlan(
    defences=("none", "mlp", "lapgraph"), epsilons=(2.0, 8.0), attacks=("linkteller", "lsa2-attr"), nodes=40
)


def test_defences_without_epsilon_appear_once() -> None:
    assert [(n, e) for n, e, _ in PLAN.cells()] == [("none", None), ("mlp", None), ("lapgraph", 2.0), ("lapgraph", 8.0)]


@pytest.mark.parametrize("defence", ["none", "mlp", "lpgnet-1", "gp-edge"])
def test_an_audit_a_sweep_and_a_release_train_alike_where_no_settings_are_named(
    defence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, ...]] = []

    def stop(self: Any, job: Job) -> None:
        seen.append((registered_name(self), job.model, job.train_spec, job.scaling))
        raise InterruptedError

    epsilon = 2.0 if DEFENCES.takes(defence, "epsilon") else None
    monkeypatch.setattr(DEFENCES.get(defence), "release", stop)
    graph = toy()
    (planned,) = AuditPlan(defences=(defence,), epsilons=(2.0,)).configs({"toy": graph})
    (swept,) = Plan(grid=(Grid(dataset=("toy",), defence=(defence,), epsilon=(2.0,)),)).runs()
    for run in (planned, swept):
        with pytest.raises(InterruptedError):
            measure(run, {"toy": graph})
    with pytest.raises(InterruptedError):
        ev.defend(graph, defence, epsilon=epsilon, model=planned.model, seed=0)
    assert seen[0] == seen[1] == seen[2]
    assert planned.paper == swept.paper == make_defence(defence, epsilon).paper


class Heard:
    """What a sweep told of its progress."""

    def __init__(self) -> None:
        self.finished, self.outcomes = -1, 0

    def begin(self, total: int, finished: int) -> None:
        self.finished = finished

    def advance(self, outcome: Outcome, left: float | None) -> None:
        self.outcomes += 1

    def interrupted(self, finished: int, total: int) -> None:
        raise AssertionError


def audited(plan: AuditPlan, graph: ev.Graph, path: Path, heard: Heard | None = None) -> Found:
    with Store(path) as store:
        return run_audit(plan, graph, None, Serial(), store, heard)


def test_a_run_is_a_pure_function_with_contract_rows() -> None:
    graphs = graphs_of(toy(), None)
    config = PLAN.configs(graphs)[0]
    first, second = (measure(config, graphs) for _ in range(2))
    times = ("seconds_train", "seconds_attack")
    for a, b in zip((r.to_json() for r in first.rows), (r.to_json() for r in second.rows), strict=True):
        assert tuple(a) == FIELDS
        assert {k: v for k, v in a.items() if k not in times} == {k: v for k, v in b.items() if k not in times}
    assert {r.belief for r in first.rows} == {"k/4", "k/2", "k", "2k", "4k"}


def names(plan: AuditPlan, graph: ev.Graph) -> list[str]:
    graphs = graphs_of(graph, None)
    return [task.id for task in prepare(plan.configs(graphs), graphs.__getitem__)[0]]


def test_a_runs_name_depends_on_its_settings_and_content_alone() -> None:
    base = names(PLAN, toy())
    assert len(set(base)) == len(base) and base != names(PLAN, toy(seed=1))
    assert set(base) <= set(names(replace(PLAN, runs=2), toy()))
    assert set(names(replace(PLAN, defences=("lapgraph",)), toy())) <= set(base)


def test_finished_runs_are_not_repeated_and_only_the_owner_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    first = audited(PLAN, toy(), path)
    assert not first.failures and len(first.records) == 4
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    heard = Heard()
    again = audited(PLAN, toy(), path, heard)
    assert again.records == first.records and (heard.finished, heard.outcomes) == (4, 0)
    more = Heard()
    audited(replace(PLAN, defences=("lapgraph",), runs=2), toy(), path, more)
    assert (more.finished, more.outcomes) == (2, 2)


def test_one_failing_release_does_not_stop_the_others(tmp_path: Path) -> None:
    plan = AuditPlan(defences=("none", "mlp"), attacks=("linkteller",), nodes=40, setting="nonesuch")
    found = audited(plan, toy(), tmp_path / "c")
    assert not found.records and len(found.failures) == 2 and "nonesuch" in found.failures[0]


@pytest.mark.parametrize(
    ("graph", "word"),
    [
        (toy().with_edges(np.empty((2, 0), np.int64)), "no edges"),
        (toy().with_labels(np.zeros(60, np.int64)), "one class"),
    ],
)
def test_hopeless_graphs_are_refused_before_any_work(graph: ev.Graph, word: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=word):
        audited(PLAN, graph, tmp_path / "c")


def test_an_attack_that_does_not_apply_to_a_release_is_named_and_the_others_run() -> None:
    plan: dict[str, Any] = {"defences": ("none", "mlp", "lpgnet-1"), "epsilons": (4.0,), "nodes": 40}
    found = ev.audit(toy(), attacks=("stored-graph", "count-inference"), **plan)
    assert not found.data.failures
    ran = {(row["defence"], row["attack"]) for row in found.rows}
    assert ran == {("none", "stored-graph"), ("mlp", None), ("lpgnet-1", "count-inference")}
    assert any("MLP" in n and "stored-graph does not apply: stored-graph reads" in n for n in found.data.notes)
    page = render(found.data)
    assert "count-inference does not apply" in page
    with pytest.raises(InputError, match=r"(?s)no attack applies to any release.*stored-graph does not apply"):
        ev.audit(toy(), attacks=("stored-graph",), **plan | {"defences": ("mlp",)})
    with pytest.raises(InputError, match="learned-links must know some edges"):
        ev.audit(toy(), attacks=("learned-links",), **plan)


def test_leakage_names_as_many_pairs_as_there_are_edges() -> None:
    graphs = graphs_of(toy(), None)
    found = measure(AuditPlan(defences=("none",), attacks=("linkteller",)).configs(graphs)[0], graphs)
    graph, leak = found.graph, found.details["leak"]
    at_k = next(row for row in found.rows if row.belief == "k")
    assert at_k.n_nodes == graph.num_nodes and at_k.n_edges == graph.num_edges
    assert at_k.precision == pytest.approx(at_k.recall) == pytest.approx(at_k.leakage)
    assert {row.leakage for row in found.rows} == {at_k.leakage}
    assert len(leak["found"]) == graph.num_edges
    assert sum(edge["found"] for edge in leak["found"]) / graph.num_edges == pytest.approx(at_k.leakage, abs=1e-9)
    assert sum(leak["exposure"]["nodes"]) == (graph.degrees > 0).sum()


def test_degree_bins_cover_each_node_once() -> None:
    graph = toy()
    bins = degree_bins(graph, np.arange(60))
    assert sum(m.astype(int) for m in bins.values()).tolist() == [1] * 60


def test_exposed_edges_go_to_a_private_file_and_never_into_the_page(tmp_path: Path) -> None:
    ids = np.array([f"person-{i}" for i in range(60)])
    graph = ev.Graph.from_edges(
        toy().edge_index, x=toy().x, y=toy().y, splits=dict(toy().splits), split="given", node_ids=ids
    )
    records = audited(PLAN, graph, tmp_path / "c").records
    write_exposed(tmp_path / "exposed.csv", graph, records)
    assert stat.S_IMODE((tmp_path / "exposed.csv").stat().st_mode) == 0o600
    lines = list(csv.DictReader((tmp_path / "exposed.csv").read_text().splitlines()))
    edges = {frozenset((r["u"], r["v"])) for r in lines if r["kind"] == "edge" and r["defence"] == "none"}
    truth = {frozenset((ids[u], ids[v])) for u, v in graph.edge_index.T}
    assert edges <= truth and all(0 <= float(r["exposure"]) <= 1 for r in lines if r["kind"] == "node")
    page = render(collect(graph, records, settings={"nodes": 40}))
    assert "person-" not in page and "shares" not in page


def test_an_existing_model_is_audited_without_labels() -> None:
    graph = toy()
    release = ev.defend(graph, "none", model="gcn", seed=0)
    unlabelled = ev.Graph.from_edges(graph.edge_index, x=graph.x)
    rows = audit_existing(PLAN, release, unlabelled).rows
    assert {row["attack"] for row in rows} == {"linkteller", "lsa2-attr"} and rows[0]["utility"] is None
    with pytest.raises(InputError, match="answers for 60 nodes"):
        audit_existing(PLAN, release, toy(n=30))


VALIDATED = 400


def judged_graph(nodes: int = VALIDATED) -> ev.Graph:
    """Every node validates; the true class is 0."""
    no, everyone = np.zeros(nodes, dtype=bool), np.ones(nodes, dtype=bool)
    y = np.zeros(nodes, dtype=int)
    return ev.Graph.from_edges([[0], [1]], x=np.ones((nodes, 1)), y=y, num_classes=2, train_mask=no, val_mask=everyone)


def results(defence: str, epsilon: float | None, validation: float, runs: int = 3, nodes: int = VALIDATED,
            **more: Any) -> list[Record]:  # fmt: skip
    """Runs that are right on about the given share of the validation nodes; runs and releases agree on most of them."""
    out = []
    for seed in range(runs):
        base = np.random.default_rng(seed).random(nodes)
        own = np.random.default_rng([seed, zlib.crc32(f"{defence} {epsilon}".encode())])
        said = (np.where(own.random(nodes) < 0.1, own.random(nodes), base) >= validation).astype("<u2")
        packed = base64.b64encode(zlib.compress(said.tobytes())).decode()
        row = {"defence": defence, "epsilon": epsilon, "status": "sound", "utility_metric": "micro_f1", "seed": seed}
        out.append(Record(id="", key="", code="", plan="", config={"seed": seed}, rows=(row | more,),
                          details={"answers_val": packed}))  # fmt: skip
    return out


def test_advice_takes_the_smallest_epsilon_above_the_floor_beyond_the_noise() -> None:
    found = [*results("mlp", 0.0, 0.6), *results("feature-graph", 0.0, 0.62), *results("lapgraph", 1.0, 0.3),
             *results("lapgraph", 2.0, 0.63), *results("lapgraph", 4.0, 0.75), *results("lapgraph", 8.0, 0.9),
             *results("edgerand", 8.0, 0.61)]  # fmt: skip
    advice = choose(found, judged_graph())
    assert advice.floor == pytest.approx(0.62, abs=0.03) and advice.edge_free == "feature-graph"
    assert [(c.defence, c.epsilon) for c in advice.choices] == [("lapgraph", 4.0)] and advice.missed == ["edgerand"]
    gain = advice.choices[0].gain
    assert gain is not None and 0 < gain.low < gain.value < gain.high and gain.against == "feature-graph"
    assert [c.epsilon for c in choose(found, judged_graph(), floor=0.8).choices] == [8.0]
    words = conclude(advice, AuditPlan(runs=3), edges=100, choose_on=None)
    assert "Use lapgraph at epsilon 4" in words[0] and "points over" in words[0]
    assert not any("gives away" in word for word in words)  # not attacked yet
    advice.choices[0] = replace(advice.choices[0], leakage=0.214, attack="edge-posterior")
    assert conclude(advice, AuditPlan(runs=3), edges=100, choose_on=None)[1].startswith(
        "It gives away 21% of the edges among the attacked nodes to someone who holds the release, knows the law"
    )


@pytest.mark.parametrize(
    ("found", "nodes", "word"),
    [
        ([("lapgraph", 0.615)], VALIDATED, "no evidence that the graph helps"),
        ([("lapgraph", 0.9)], 30, "Too few validation nodes (30"),
        ([("lapgraph", 0.9)], -1, "One run cannot tell"),
    ],
)
def test_inside_the_noise_nothing_is_advised(found: list[tuple[str, float]], nodes: int, word: str) -> None:
    size, runs = (nodes, 3) if nodes > 0 else (VALIDATED, 1)
    part = [r for d, v in found for r in results(d, 4.0, v, runs, size)]
    advice = choose([*results("mlp", 0.0, 0.6, runs, size), *part], judged_graph(size))
    assert advice.choices == [] and advice.missed == ["lapgraph"]
    assert word in conclude(advice, PLAN, edges=100, choose_on=None)[0]


def test_choosing_costs_the_sum_of_what_was_tried() -> None:
    plan = AuditPlan(defences=("mlp", "lapgraph"), epsilons=(0.1, 0.2, 4.0), runs=2)
    assert choosing_cost(plan) == 2 * (choosing_cost(AuditPlan(defences=("lapgraph",), epsilons=(0.1, 0.2, 4.0))))
    assert float(choosing_cost(plan)) == 8.6


def test_nothing_above_the_floor_means_do_not_use_the_graph() -> None:
    advice = choose([*results("mlp", 0.0, 0.9), *results("lapgraph", 1.0, 0.3)], judged_graph())
    text = " ".join(conclude(advice, PLAN, edges=5, choose_on=None))
    assert "Do not use the graph" in text and "thin" in text and "only 5 true edges" in text


def test_a_floor_of_ones_own_is_called_so_and_the_price_stands_beside_the_choice() -> None:
    found = [*results("mlp", 0.0, 0.6), *results("lapgraph", 8.0, 0.8)]
    high = choose(found, judged_graph(), floor=0.9)
    assert "beats the floor you gave (0.900)" in conclude(high, PLAN, edges=100, choose_on=None)[0]
    advice = choose(found, judged_graph())
    advice.cost = choosing_cost(AuditPlan(defences=("lapgraph",), epsilons=(2.0, 8.0)))
    assert (
        "spend epsilon 10 in sum on this graph, against 8 for" in conclude(advice, PLAN, edges=100, choose_on=None)[-1]
    )


@pytest.mark.parametrize(
    ("wish", "word"),
    [
        ({"epsilons": (float("inf"),)}, "finite"),
        ({"model": "gcnn"}, "gcn"),
        ({"preset": "nonesuch"}, "nonesuch"),
        ({"attacks": ("linktellr",)}, "linkteller"),
    ],
)
def test_plans_that_would_fail_late_are_refused_early(wish: dict[str, Any], word: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=word):
        ev.audit(toy(), keep=tmp_path / "c", **{**PLAN.__dict__, **wish})
    assert not (tmp_path / "c").exists()


def test_what_cannot_run_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    """EdgeRand at epsilon 1 makes edges of a quarter of all pairs: terabytes on 3,000,000 nodes."""
    n = 3_000_000
    many = ev.Graph.from_edges([[0, 1], [1, 2]], x=np.ones((n, 1), np.float32), y=np.arange(n) % 2)
    for run in (ev.audit, ev.advise):
        with pytest.raises(TooLarge, match="smallest epsilon that fits"):
            run(many, defences=["lapgraph", "edgerand"], epsilons=[1.0], keep=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_advice_prefers_no_delta_at_equal_epsilon_and_adds_up_the_deltas_it_tried() -> None:
    tried = [*results("lpgnet-8", 4.0, 0.9, 2, delta=1e-6), *results("lapgraph", 4.0, 0.8, 2)]
    advice = choose(tried, judged_graph(), floor=0.5)
    assert [(c.defence, c.promise) for c in rank(advice.choices)] == [
        ("lapgraph", "sound"),
        ("lpgnet-8", "sound, δ = 1e-06"),
    ]
    assert advice.delta == 2e-6
    words = conclude(advice, AuditPlan(runs=5), 10**6, None)
    assert any("delta 2e-06 in sum" in line for line in words)
