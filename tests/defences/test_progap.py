"""ProGAP: GAP's price for every stage, rows that are learned from noisy sums alone, and GAP itself with one stage."""

from __future__ import annotations

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences import gap
from edgeveil.defences.gap import GRID, grid_rows
from edgeveil.defences.progap import ProGAP
from edgeveil.errors import InputError
from edgeveil.models.settings import TrainSpec
from edgeveil.privacy.experiments import Effort
from edgeveil.privacy.verify import verify
from zoo import toy

SHORT = TrainSpec(epochs=10)  # for tests of what is summed and charged


def test_one_stage_is_gap() -> None:
    mine, plain = (ev.defend(toy(), name, epsilon=3.0, hops=1, seed=0, train=SHORT) for name in ("progap", "gap"))
    np.testing.assert_array_equal(mine.predict(), plain.predict())


def test_every_stage_is_charged_as_a_hop_of_gap() -> None:
    mine, plain = (ev.defend(toy(), name, epsilon=3.0, hops=3, seed=0, train=SHORT) for name in ("progap", "gap"))
    assert mine.guarantee.epsilon == 3.0 and mine.guarantee.delta == 1e-6
    assert mine.guarantee.charges == plain.guarantee.charges and len(mine.guarantee.charges) == 3
    assert all(c.gaussian is not None and c.gaussian.squared_sensitivity == 2 * GRID**2 for c in mine.guarantee.charges)
    assert "ProGAP" in mine.guarantee.reference and not np.array_equal(mine.predict(), plain.predict())


def test_the_next_stage_sums_rows_of_length_one_that_were_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    summed, real = [], gap.neighbour_sums
    monkeypatch.setattr(gap, "neighbour_sums", lambda graph, rows: (summed.append(rows.copy()), real(graph, rows))[1])
    for name in ("progap", "gap"):
        ev.defend(toy(), name, epsilon=3.0, hops=2, seed=0, train=SHORT)
    (first, second), (plain, other) = summed[:2], summed[2:]
    np.testing.assert_array_equal(first, plain)
    assert not np.array_equal(second, other)
    assert max((rows**2).sum(axis=1).max() for rows in summed) <= GRID**2


def test_later_rows_see_edges_through_noisy_sums_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the noisy sums held fixed, other edges change nothing of what is summed or answered."""
    summed: list[np.ndarray] = []
    fixed = np.random.default_rng(0).normal(size=(60, 3))

    def sums(graph, rows):  # type: ignore[no-untyped-def]
        summed.append(rows.copy())
        return grid_rows(fixed)

    monkeypatch.setattr(gap, "neighbour_sums", sums)
    graph = toy()
    others = graph.with_edges(np.random.default_rng(1).integers(60, size=(2, 90)))
    answers = [ev.defend(g, "progap", epsilon=2.0, hops=3, seed=0, train=SHORT).predict() for g in (graph, others)]
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(summed[:3], summed[3:])


@pytest.mark.parametrize(("setting", "count"), [("inductive-different", 4), ("inductive-evolving", 6)])
def test_every_phase_is_charged(setting: str, count: int) -> None:
    other = toy(seed=1) if setting == "inductive-different" else None
    release = ev.defend(toy(), "progap", epsilon=3.0, seed=0, inference_graph=other, setting=setting, train=SHORT)
    assert release.guarantee.epsilon == 3.0 and len(release.guarantee.charges) == count


def test_neighbours_that_tell_the_class_are_used() -> None:
    graph = toy(120)
    free, summed = ev.defend(graph, "mlp", seed=0), ev.defend(graph, "progap", epsilon=200.0, seed=0)
    assert summed.utility("test")["accuracy"] >= free.utility("test")["accuracy"]


def test_no_stage_is_refused() -> None:
    with pytest.raises(InputError, match="hops"):
        ProGAP(epsilon=1.0, hops=0)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_verifier_agrees(epsilon: float) -> None:
    found = verify(ProGAP(epsilon=epsilon), Effort(runs=8_000, secure=False))
    assert found.verdict == "consistent" and found.lower_bound > 0.5 * epsilon
