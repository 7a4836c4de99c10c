"""End to end: the verifier on every sound mechanism, and on a table of planted unsound ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgeveil.defences.defence import DEFENCES
from edgeveil.defences.defend import make_defence
from edgeveil.defences.edgerand import EdgeRand
from edgeveil.defences.graph_audit import neighbouring_graphs
from edgeveil.defences.lapgraph import LapGraph
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.defences.renewal_audit import RENEWED, is_renewable
from edgeveil.defences.trial import trial_job
from edgeveil.defences.veil.choice import Veil
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.privacy.experiments import Auditable, Effort
from edgeveil.privacy.verify import Verification, verify
from plants import TABLE, ForgottenDelta, FreeCount, Plant, SharedStream, SparedHubs, private_nodes

FAST = Effort(runs=600, canaries=20_000)
FULL = Effort(runs=2_000)  # a tenth of the default runs; benchmarks/verified_defences.py has the default ones
SOUND = ("edgerand", "lapgraph", "lpgnet-1", "lpgnet-2", "gp-sound", "veil-counts", "veil-rr", "veil", "blink")
HEAVY = (
    "edgerand",
    "lapgraph",
    "lpgnet-2",
    "veil-counts",
    "veil-rr",
    "veil",
)  # coins and counts like those seen in every run


def tried(plant: Plant, claim: float, effort: Effort) -> Verification:
    with pytest.MonkeyPatch.context() as patch:
        if plant.patch is not None:
            plant.patch(patch)
        return verify(plant.make(epsilon=claim), effort, until_refuted=True)


@pytest.mark.parametrize(
    "plant", [pytest.param(p, marks=pytest.mark.slow if p.heavy else ()) for p in TABLE if p.fast], ids=str
)
def test_plants_are_caught_at_one(plant: Plant) -> None:
    assert tried(plant, 1.0, FAST).verdict == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "claim", "verdict"),
    [(p, c, v) for p in TABLE for c, v in p.verdicts if not (p.fast and c == 1.0)],  # those are seen above
    ids=lambda x: str(x),
)
def test_the_table_with_more_runs(plant: Plant, claim: float, verdict: str) -> None:
    found = tried(plant, claim, FULL if plant.fast else replace(FULL, runs=8_000))
    assert found.verdict == verdict
    assert verdict == "refuted" or claim > found.ceiling


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in HEAVY else ()) for n in SOUND])
def test_the_real_mechanisms_are_consistent_at_one(name: str) -> None:
    found = verify(make_defence(name, 1.0), FAST)
    assert found.verdict == "consistent" and found.lower_bound > 0.6
    assert len(found.findings) >= 2 and all(f.ceiling > 3 for f in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_promises_for_a_nodes_own_data_are_verified_beside_the_claim(epsilon: float) -> None:
    found = {f.test: f for f in verify(private_nodes(epsilon), FAST).findings}
    for part in ("features", "label"):
        mine = found[f"{part} of nodes by coin"]
        assert mine.lower_bound == 0.0 and mine.ceiling == math.inf and "for one node's" in mine.detail


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_too_few_coins_about_a_nodes_own_data_leave_the_whole_without_power(epsilon: float) -> None:
    few = Effort(runs=20, canaries=40)
    blind = {f.test: f.ceiling for f in verify(private_nodes(epsilon), few).findings}
    assert blind["label of nodes by coin"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "secure"), [(1.0, True), (4.0, True), (4.0, False)])
@pytest.mark.parametrize("name", SOUND)
def test_the_real_mechanisms_are_consistent_with_more_runs(name: str, epsilon: float, secure: bool) -> None:
    found = verify(make_defence(name, epsilon), replace(FULL, secure=secure))
    assert found.verdict == "consistent" and found.lower_bound > 0.75 * epsilon


@pytest.mark.parametrize("name", DEFENCES.names())
def test_every_defence_with_an_epsilon_is_auditable_or_says_why_not(name: str) -> None:
    fields = DEFENCES.get(name).__dataclass_fields__  # type: ignore[attr-defined]
    mechanism = make_defence(name, 2.0 if "epsilon" in fields else None)
    if "epsilon" not in fields:
        with pytest.raises(InputError):
            verify(mechanism, FAST)
        return
    assert isinstance(mechanism, Auditable)
    assert mechanism.audit_claim().epsilon == 2.0 and len(mechanism.experiments(FAST)) >= 1


def test_a_renewal_that_forgets_its_delta_is_caught() -> None:
    mechanism = ForgottenDelta(epsilon=1.0, noise="gaussian")
    effort = Effort(runs=20, canaries=200)
    renewed = next(e for e in mechanism.experiments(effort) if e.name == RENEWED)
    found = renewed.run(0.001, mechanism.audit_claim(), effort, lambda share: None)
    assert found.lower_bound == math.inf and "states delta 5e-07, but what was asked costs 1e-06" in found.detail


@pytest.mark.parametrize("name", [n for n in DEFENCES.names() if DEFENCES.takes(n, "epsilon")])
def test_whatever_renews_has_its_renewal_audited(name: str) -> None:
    """A method that declares a renewal has an experiment on it; one without is refused by `renew`."""
    mechanism = make_defence(name, 2.0)
    audited = any("renewed" in experiment.name for experiment in mechanism.experiments(FAST))  # type: ignore[attr-defined]
    assert audited == (mechanism.status == "sound" and is_renewable(mechanism))


def test_veil_is_audited_by_all_that_it_spends() -> None:
    """The count, the choice of either query and what they state together, through the functions that release calls."""
    found = {f.test: f for f in verify(Veil(epsilon=2.0), Effort(runs=200, canaries=200)).findings}
    whole = [f for test, f in found.items() if test.startswith("count and query")]
    assert len(whole) == 4 and all(0 <= f.lower_bound <= 2.0 for f in whole)
    short = verify(FreeCount(epsilon=2.0), Effort(runs=20, canaries=200), first=1).findings[0]
    assert short.lower_bound == math.inf and "states epsilon 1.96, but what was asked costs 2" in short.detail


@pytest.mark.slow
def test_shared_streams_show_although_the_audited_noise_is_secure() -> None:
    """Secure noise has no streams to share, so one experiment of a secure audit is seeded."""
    found = verify(SharedStream(epsilon=4.0), FAST)
    best = max(found.findings, key=lambda f: f.lower_bound)
    assert best.test == "planted pairs, seeded streams" and "differences between queries" in best.detail


@pytest.mark.slow
def test_hubs_are_seen_on_the_heavy_tailed_graph() -> None:
    found = {f.test: f.lower_bound for f in verify(SparedHubs(epsilon=4.0), FAST).findings}
    assert found["planted pairs, heavy-tailed graph that grows"] > 4 > found["6 nodes, one edge or none"]


@pytest.mark.parametrize("mechanism", [EdgeRand(epsilon=4.0), LPGNet(epsilon=4.0)], ids=["edgerand", "lpgnet"])
def test_pairs_can_be_planted_in_an_own_graph(mechanism: Any) -> None:
    rng = np.random.default_rng(0)
    own = Graph.from_edges(rng.integers(0, 3000, (2, 9000)), num_nodes=3000, name="mine")
    found = verify(mechanism, Effort(runs=100, canaries=4000, graph=own, secure=False))
    mine = next(f for f in found.findings if f.test == "planted pairs in mine")
    assert 2.0 < mine.lower_bound <= 4.0


def test_audits_run_the_noise_stage_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audited function is the one `release` calls, charges included."""
    asked: list[str] = []
    for kind in (EdgeRand, LPGNet):
        real = kind.noise_stage

        def spy(self: Any, job: Any, *rest: Any, _real: Any = real) -> Any:
            asked.append(job.setting)
            return _real(self, job, *rest)

        monkeypatch.setattr(kind, "noise_stage", spy)
        asked.clear()
        verify(kind(epsilon=2.0), Effort(runs=8, canaries=200))
        assert {"transductive", "inductive-evolving"} <= set(asked)
    asked.clear()
    graph = Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 4]], np.eye(6, dtype=np.float32), [0, 1] * 3, num_nodes=6)
    import edgeveil as ev

    for name in ("edgerand", "lpgnet-1"):
        ev.defend(graph, name, epsilon=2.0, seed=0)
    assert asked == ["transductive", "transductive"]


def test_default_neighbours_differ_in_one_edge() -> None:
    for _, first, second, (u, v) in neighbouring_graphs():
        assert first.num_nodes == second.num_nodes <= 6
        assert len(np.setxor1d(first.edge_ranks, second.edge_ranks)) == 1
        assert first.has_edges(u, v)[0] != second.has_edges(u, v)[0]


def test_seeded_audits_are_reproducible_and_runs_draw_fresh_noise() -> None:
    def bounds(seed: int) -> Sequence[float]:
        effort = Effort(runs=60, canaries=500, seed=seed, secure=False)
        return [f.lower_bound for f in verify(LapGraph(epsilon=4.0), effort).findings]

    assert bounds(1) == bounds(1) != bounds(2)
    job = trial_job(neighbouring_graphs()[0][1], 3)
    assert EdgeRand(epsilon=1.0).noise_stage(job).train == EdgeRand(epsilon=1.0).noise_stage(job).train
