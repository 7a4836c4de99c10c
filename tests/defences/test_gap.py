"""GAP at edge level: what one edge moves, what is charged for it, and that edges enter nowhere else."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.gap import GAP, GRID, SENSITIVITY, grid_rows, neighbour_sums
from edgeveil.defences.lpgnet.lpgnet_stack import make_phases
from edgeveil.defences.trial import trial_job
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.models.settings import TrainSpec
from edgeveil.privacy.experiments import Effort
from edgeveil.privacy.gaussian import zcdp_epsilon
from edgeveil.privacy.verify import verify
from zoo import toy

SHORT = TrainSpec(epochs=10)  # for tests of what is summed and charged


def test_one_edge_moves_the_sums_by_at_most_the_stated_sensitivity() -> None:
    rng = np.random.default_rng(0)
    worst = 0
    for _ in range(200):
        n = int(rng.integers(2, 9))
        rows = grid_rows(rng.normal(size=(n, int(rng.integers(1, 6)))) * 10.0 ** rng.integers(-3, 4))
        assert (rows**2).sum(axis=1).max() <= GRID**2
        edges = np.array([(u, v) for u in range(n) for v in range(u) if rng.random() < 0.5]).reshape(-1, 2).T
        graph = Graph.from_edges(edges, num_nodes=n)
        u, v = rng.choice(n, 2, replace=False)
        ranks = np.setxor1d(graph.edge_ranks, Graph.from_edges([[u], [v]], num_nodes=n).edge_ranks)
        other = graph.with_edge_ranks(ranks)
        worst = max(worst, int(((neighbour_sums(graph, rows) - neighbour_sums(other, rows)) ** 2).sum()))
    assert 0.9 * SENSITIVITY**2 < worst <= round(SENSITIVITY**2) == 2 * GRID**2


def test_the_noise_has_the_scale_that_is_charged() -> None:
    """Variance of 6,000 draws; its standard error is 1.8 %, so 10 % never fails in practice."""
    job = trial_job(Graph.from_edges(np.empty((2, 0), np.int64), num_nodes=2000), 1, classes=3)
    phases = make_phases(job)
    phases[0].logits = np.ones((2000, 3))
    budget = GAP(epsilon=2.0).noise_stage(job, phases, lambda hop: None)
    (charge,) = budget.charges
    assert charge.gaussian is not None and charge.gaussian.squared_sensitivity == 2 * GRID**2
    assert phases[0].vectors[0].std() == pytest.approx(float(charge.gaussian.scale) / GRID, rel=0.05)
    assert float(budget.spent) == pytest.approx(2.0, rel=1e-4) and budget.spent <= 2


@pytest.mark.parametrize("hops", [1, 3])
def test_the_paper_s_own_figure_stands_beside(hops: int) -> None:
    claim = GAP(epsilon=4.0, hops=hops).mechanism_guarantee()
    sigma = float(GAP(epsilon=4.0, hops=hops)._budget().gaussian_scale(hops, sensitivity=math.sqrt(2)))
    theirs = zcdp_epsilon(hops / (2 * sigma**2), 1e-6)
    assert theirs < 4.0 and f"{theirs:.3g}"[:3] in claim.notes[-1] and "one directed edge" in claim.notes[-1]
    assert claim.epsilon == 4.0 and claim.delta == 1e-6 and claim.accountant == "zcdp"


def test_neighbours_that_tell_the_class_are_used() -> None:
    graph = toy(120)
    free, summed = ev.defend(graph, "mlp", seed=0), ev.defend(graph, "gap", epsilon=200.0, hops=2, seed=0)
    assert summed.utility("test")["accuracy"] >= free.utility("test")["accuracy"]
    assert not np.array_equal(
        summed.predict(), ev.defend(graph.with_edges([[0], [1]]), "gap", epsilon=200.0, hops=2, seed=0).predict()
    )


def test_encodings_read_no_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, seen, real = toy(), [], GAP.noise_stage

    def stage(self, job, phases, learn):  # type: ignore[no-untyped-def]
        seen.append(phases[0].logits.copy())
        return real(self, job, phases, learn)

    monkeypatch.setattr(GAP, "noise_stage", stage)
    for g in (graph, graph.with_edges(np.random.default_rng(1).integers(60, size=(2, 90)))):
        ev.defend(g, "gap", epsilon=2.0, seed=0, train=SHORT)
    np.testing.assert_array_equal(seen[0], seen[1])


@pytest.mark.parametrize(("setting", "total"), [("inductive-different", 3.0), (None, 6.0)])
def test_two_graphs_state_their_sum_unless_asserted_apart(setting: str | None, total: float) -> None:
    release = ev.defend(
        toy(), "gap", epsilon=3.0, seed=0, inference_graph=toy(seed=1), setting=setting, hops=2, train=SHORT
    )
    assert release.guarantee.epsilon == total and release.guarantee.delta == 1e-6
    assert len(release.guarantee.charges) == 4


def test_a_graph_that_grows_is_asked_three_times_within_epsilon() -> None:
    release = ev.defend(toy(), "gap", epsilon=3.0, seed=0, setting="inductive-evolving", train=SHORT)
    assert release.guarantee.epsilon == 3.0 and len(release.guarantee.charges) == 3


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_verifier_agrees(epsilon: float) -> None:
    found = verify(GAP(epsilon=epsilon), Effort(runs=8_000, secure=False))
    assert found.verdict == "consistent" and found.lower_bound > 0.5 * epsilon


@pytest.mark.parametrize("bad", [{"epsilon": math.inf}, {"hops": 0}, {"hops": 1.5}, {"delta": 0.0}, {"delta": 2}])
def test_bad_parameters_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        GAP(**{"epsilon": 1.0, **bad})  # type: ignore[arg-type]


def test_another_number_of_nodes_is_refused() -> None:
    release = ev.defend(toy(), "gap", epsilon=4.0, seed=0)
    with pytest.raises(InputError, match="60 nodes"):
        release.predictor.logits(release.matrix.take(np.arange(7)))
