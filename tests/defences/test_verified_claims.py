"""End to end: the verifier on the real mechanisms, and on copies with half of the noise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from edgeveil.defences.edgerand import EdgeRand
from edgeveil.defences.lapgraph import LapGraph
from edgeveil.privacy.canaries import synthetic_graph
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.privacy.probability import Probability, probability
from edgeveil.privacy.verify import Verification, claim, likelihood_test, one_run_test
from edgeveil.seeds import Seed


class HalfRand(EdgeRand):
    """Bits lie half as often as they should."""

    @property
    def flip(self) -> Probability:
        return probability(float(super().flip) / 2)


class HalfLap(LapGraph):
    """Laplace noise of half the scale."""

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        count, cells = super().split
        return 2 * count, 2 * cells

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        return replace(super().mechanism_guarantee(seed), claimed_epsilon=self.epsilon)


def run(mechanism: EdgeRand | LapGraph, secure: bool = False) -> Verification:
    """Both tests of `verify`, on a graph that is smaller than its default."""
    assert mechanism.epsilon is not None
    findings = (
        likelihood_test(mechanism, 600 if secure else 3000, 0.005, seed=1, secure=secure),
        one_run_test(mechanism, 3500, 3500, 0.005, seed=1, secure=secure, graph=synthetic_graph(8000, 40_000)),
    )
    return Verification(type(mechanism).__name__, mechanism.epsilon, 0.99, findings)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("kind", [HalfRand, HalfLap])
def test_half_the_noise_is_refuted(kind: type[EdgeRand | LapGraph], epsilon: float) -> None:
    result = run(kind(epsilon=epsilon))
    assert claim(kind(epsilon=epsilon))[0] == epsilon
    assert result.verdict == "refuted"


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("kind", [EdgeRand, LapGraph])
def test_the_real_mechanisms_are_not(kind: type[EdgeRand | LapGraph], epsilon: float) -> None:
    result = run(kind(epsilon=epsilon))
    assert result.verdict == "consistent"
    assert result.lower_bound > 0.25 * epsilon


@pytest.mark.parametrize("mechanism", [EdgeRand(epsilon=4.0), LapGraph(epsilon=4.0)], ids=["edgerand", "lapgraph"])
def test_nor_is_their_secure_noise(mechanism: EdgeRand | LapGraph) -> None:
    assert run(mechanism, secure=True).verdict == "consistent"


def test_secure_noise_at_half_strength_is_refuted() -> None:
    assert run(HalfLap(epsilon=4.0), secure=True).verdict == "refuted"


def test_edgerand_at_4_with_5000_canaries_audits_to_about_3_7() -> None:
    bounds = [one_run_test(EdgeRand(epsilon=4.0), 5000, 5000, 0.01, seed=s).lower_bound for s in range(3)]
    assert 3.6 <= np.mean(bounds) <= 3.9
    assert max(bounds) < 4.0
