"""Verdicts. A sound mechanism is refuted with probability at most 1 - confidence, which a test here measures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.privacy.canaries import audit_scores
from edgeveil.privacy.verify import Verification, claim, judge, likelihood_test, neighbours, one_run_test, verify


class Response:
    """Randomised response on one pair, straight from its definition; `strength` 2 plants too little noise."""

    def __init__(self, epsilon: float, strength: float = 1.0) -> None:
        self.epsilon = epsilon
        self.truth = 1 / (1 + math.exp(-epsilon * strength))

    def audit_outcomes(self, graph: Graph, runs: int, rng: np.random.Generator) -> list[bool]:
        bit = graph.num_edges % 2 == 1
        return [bool(b) for b in (rng.random(runs) < self.truth) == bit]

    def canary_scores(self, graph: Graph, pairs: Any, rng: np.random.Generator) -> Any:
        truth = graph.has_edges(*pairs)
        return np.where((rng.random(len(truth)) < self.truth) == truth, 1.0, -1.0)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_sound_is_consistent_and_half_the_noise_is_refuted(epsilon: float) -> None:
    good = verify(Response(epsilon), runs=8000, canaries=3000)
    assert good.verdict == "consistent"
    assert 0.5 * epsilon < good.lower_bound <= epsilon
    bad = verify(Response(epsilon, 2.0), runs=8000, canaries=3000)
    assert bad.verdict == "refuted"
    assert all(f.lower_bound > epsilon for f in bad.findings)


def test_false_alarms_of_the_one_run_audit_stay_below_the_stated_rate() -> None:
    """300 audits of a sound mechanism at 5 %: more than 40 refutations has probability below 1e-6."""
    rng = np.random.default_rng(0)
    epsilon, m = 1.0, 400
    truth = 1 / (1 + math.exp(-epsilon))
    refuted = 0
    for _ in range(300):
        coins = rng.random(m) < 0.5
        scores = np.where((rng.random(m) < truth) == coins, 1.0, -1.0)
        refuted += audit_scores(scores, coins, limit=m, miss=0.05, rng=rng).lower_bound > epsilon
    assert refuted <= 40
    assert binom.sf(40, 300, 0.05) < 1e-6


def test_false_alarms_of_the_likelihood_test_stay_below_the_stated_rate() -> None:
    """200 tests at 5 %: more than 32 refutations has probability below 1e-6."""
    alarms = [likelihood_test(Response(1.0), 400, 0.05, seed=s).lower_bound > 1.0 for s in range(200)]
    assert sum(alarms) <= 32
    assert binom.sf(32, 200, 0.05) < 1e-6


def test_default_neighbours_differ_in_one_edge() -> None:
    for _, first, second in neighbours():
        assert 4 <= first.num_nodes == second.num_nodes <= 6
        assert len(np.setxor1d(first.edge_ranks, second.edge_ranks)) == 1


def test_an_unreachable_output_refutes_every_epsilon() -> None:
    class Swap(Response):
        def audit_outcomes(self, graph: Graph, runs: int, rng: np.random.Generator) -> list[int]:
            return rng.integers(0, graph.num_edges + 1, runs).tolist()

        def reachable(self, graph: Graph, outcome: int) -> bool:
            return outcome <= graph.num_edges

    finding = likelihood_test(Swap(50.0), 200, 0.01)
    assert finding.lower_bound == math.inf
    assert "cannot occur" in finding.detail


def test_a_mechanism_may_bring_its_own_graphs_and_variant() -> None:
    class Special(Response):
        def audit_variant(self) -> Special:
            return Special(self.epsilon, 3.0)

        def audit_neighbours(self) -> list[tuple[str, Graph, Graph]]:
            return [("mine", *neighbours()[0][1:])]

    finding = likelihood_test(Special(1.0), 4000, 0.01)
    assert finding.lower_bound > 2 and finding.detail.startswith("mine")


def test_what_cannot_be_tested_is_refused_with_a_reason() -> None:
    class Bare:
        epsilon = 1.0

    with pytest.raises(InputError, match="neither perturb"):
        verify(Bare())
    with pytest.raises(InputError, match="claims no epsilon"):
        claim(object())


def test_verdicts() -> None:
    assert judge(1.01, 1.0) == "refuted"
    assert judge(0.5, 1.0) == judge(0.0, 0.0) == "consistent"
    assert judge(0.05, 1.0) == judge(3.0, math.inf) == "inconclusive"
    assert Verification("x", 1.0, 0.99, ()).verdict == "inconclusive"


def test_fewer_guesses_than_canaries() -> None:
    finding = one_run_test(Response(4.0), 500, 100, 0.01)
    assert "of 100 guesses" in finding.detail and 2 < finding.lower_bound <= 4
