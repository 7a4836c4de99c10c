"""Verdicts. A sound mechanism is refuted with probability at most 1 - confidence, which a test here measures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from edgeveil.errors import InputError
from edgeveil.privacy.audit_bounds import guess_bound, views_bound
from edgeveil.privacy.experiments import Auditable, Claim, Coins, Effort, Experiment, Neighbours, Rounds, Sight
from edgeveil.privacy.gaussian import analytic_epsilon
from edgeveil.privacy.verify import Verification, judge, verify
from plants import GraphItself


@dataclass(frozen=True)
class Response:
    """Randomised response on single bits, straight from its definition; `strength` 2 plants too little noise."""

    epsilon: float
    strength: float = 1.0

    @property
    def truth(self) -> float:
        return 1 / (1 + math.exp(-self.epsilon * self.strength))

    def audit_claim(self) -> Claim:
        return Claim(self.epsilon, 0.0, "one bit")

    def experiments(self, effort: Effort) -> list[Experiment]:
        def look() -> Sight:
            coins = effort.rng("coins").random(effort.canaries) < 0.5
            told = (effort.rng("noise").random(effort.canaries) < self.truth) == coins
            return Sight(coins, {"bit": told.astype(np.int64)})

        rng = effort.rng("runs")

        def sample(side: int, count: int) -> dict[str, Any]:
            told = (rng.random(count) < self.truth) == (side == 0)
            return {"output": told.tolist()}

        return [Coins("coins", look), Neighbours("neighbours", sample)]


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_sound_is_consistent_and_half_the_noise_is_refuted(epsilon: float) -> None:
    effort = Effort(runs=8000, canaries=8000)
    good = verify(Response(epsilon), effort)
    assert good.verdict == "consistent"
    assert 0.7 * epsilon < good.lower_bound <= epsilon <= good.ceiling
    bad = verify(Response(epsilon, 2.0), effort)
    assert bad.verdict == "refuted"
    assert all(f.lower_bound > epsilon for f in bad.findings)


def test_a_claim_above_the_ceiling_is_never_called_consistent() -> None:
    for claimed in (8.0, 20.0):
        found = verify(Response(claimed, math.inf), Effort(runs=2000, canaries=2000))
        assert found.ceiling < claimed and found.verdict == "inconclusive"
        assert found.lower_bound == pytest.approx(found.ceiling, abs=0.5)  # all that could be seen was seen


@pytest.mark.fast("0-0.0", "1-0.0", "1-0.01")
@pytest.mark.parametrize(("number", "delta"), [(0, 0.0), (1, 0.0), (0, 1e-4), (1, 1e-2)])
def test_false_alarms_stay_below_the_stated_rate(number: int, delta: float) -> None:
    """300 experiments on a sound mechanism at 5 %: more than 40 refutations has probability below 1e-6."""
    assert binom.sf(40, 300, 0.05) < 1e-6
    alarms = 0
    for seed in range(300):
        effort = Effort(runs=400, canaries=800, seed=seed)
        experiment = Response(1.0).experiments(effort)[number]
        alarms += experiment.run(0.05, Claim(1.0, delta, "one bit"), effort, lambda _: None).lower_bound > 1.0
    assert alarms <= 40


def _gaussian(mu: float, size: int, rng: np.random.Generator) -> tuple[Any, Any]:
    coins = rng.random(size) < 0.5
    codes = np.clip(np.rint((rng.normal(size=size) + mu * coins) * 8), -40, 40).astype(np.int64)
    return coins, codes


def _hockey_stick(mu: float, epsilon: float) -> float:
    from scipy.stats import norm

    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def test_with_delta_a_gaussian_mechanism_keeps_its_claim_and_half_its_noise_does_not() -> None:
    """A shift of 1 is (1, 0.127)-DP exactly (analytic Gaussian): both bounds respect that, and see twice the shift."""
    rng, delta = np.random.default_rng(3), _hockey_stick(1.0, 1.0)
    alarms = [0, 0]
    for _ in range(60):
        coins, codes = _gaussian(1.0, 4000, rng)
        sides = [{"x": codes[coins == bit][:1500].tolist()} for bit in (True, False)]
        alarms[0] += views_bound(sides[0], sides[1], 0.05, delta).lower_bound > 1.0
        alarms[1] += guess_bound({"x": codes}, [], coins, 0.05, rng, delta / 4000).lower_bound > 2.5
    assert alarms[0] <= 14 and binom.sf(14, 60, 0.05) < 1e-6
    coins, codes = _gaussian(4.0, 40_000, rng)
    sides = [{"x": codes[coins == bit][:15_000].tolist()} for bit in (True, False)]
    assert views_bound(sides[0], sides[1], 0.01, delta).lower_bound > 1.0


def test_a_gaussian_claim_is_judged_by_its_curve() -> None:
    """At delta 1e-6 half of the noise shows no single event above epsilon, but twice the shift: refuted all the same."""
    rng = np.random.default_rng(4)
    claim = Claim(1.0, 1e-6, "x", gaussian=True)
    mu = next(m for m in np.linspace(0.01, 1, 1000) if claim.of_shift(m) > 1.0)
    for factor, refuted in ((1.0, False), (2.0, True)):
        coins, codes = _gaussian(factor * mu, 40_000, rng)
        sides = [{"output": codes[coins == bit].tolist()} for bit in (True, False)]

        def sample(side: int, count: int, sides: Any = sides) -> dict[str, Any]:
            return {"output": [sides[side]["output"].pop() for _ in range(count)]}

        found = Neighbours("shift", sample).run(0.01, claim, Effort(runs=18_000), lambda _: None)
        assert (found.lower_bound > 1.0) is refuted and found.lower_bound > 0.5
        assert found.ceiling > 20
    alarms = 0
    for _ in range(100):
        coins, codes = _gaussian(mu, 2000, rng)
        first, second = ({"x": codes[coins == bit][:900].tolist()} for bit in (True, False))
        alarms += views_bound(first, second, 0.05, gaussian=True).lower_bound > mu
    assert alarms <= 20 and binom.sf(20, 100, 0.05) < 1e-6


def test_choosing_among_views_and_strata_costs_no_confidence() -> None:
    """Coins that nothing depends on: more than 26 alarms at 5 % of 150 have probability below 1e-6."""
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(150):
        coins = rng.random(600) < 0.5
        views = {str(k): rng.integers(0, 50, 600) for k in range(4)}
        alarms += guess_bound(views, [rng.integers(0, 9, 600)], coins, 0.05, rng).lower_bound > 0
    assert alarms <= 26 and binom.sf(26, 150, 0.05) < 1e-6


def test_a_leak_in_one_stratum_is_found() -> None:
    rng = np.random.default_rng(6)
    coins, strata = rng.random(20_000) < 0.5, rng.integers(0, 20, 20_000)
    codes = np.where(strata == 7, coins, rng.random(20_000) < 0.5).astype(np.int64)
    assert guess_bound({"x": codes}, [], coins, 0.01, rng).lower_bound < 0.3
    assert guess_bound({"x": codes}, [strata], coins, 0.01, rng).lower_bound > 4


def test_an_unreachable_output_refutes_every_epsilon() -> None:
    rng = np.random.default_rng(0)

    def sample(side: int, count: int) -> dict[str, Any]:
        return {"output": rng.integers(0, 2 + side, count).tolist()}

    experiment = Neighbours("swap", sample, lambda side, code: code <= 1 + side)
    finding = experiment.run(0.01, Claim(1.0, 0.0, "bit"), Effort(runs=200), lambda _: None)
    assert finding.lower_bound == math.inf and "cannot occur" in finding.detail


def test_progress_runs_from_zero_to_one_in_order() -> None:
    seen: list[tuple[str, float]] = []
    verify(Response(1.0), Effort(runs=400, canaries=400), progress=lambda name, share: seen.append((name, share)))
    shares = [share for _, share in seen]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    assert seen[0][0] == "coins" and seen[-1][0] == "neighbours"


def test_what_cannot_be_tested_is_refused_with_a_reason() -> None:
    class Bare:
        epsilon = 1.0

    class Idle(Response):
        def experiments(self, effort: Effort) -> list[Experiment]:
            return []

    assert not isinstance(Bare(), Auditable) and isinstance(Response(1.0), Auditable)
    with pytest.raises(InputError, match="cannot be verified on its own"):
        verify(Bare())
    with pytest.raises(InputError, match="no experiment"):
        verify(Idle(1.0))


def test_verdicts() -> None:
    assert judge(1.01, 1.0, 5.0) == "refuted"
    assert judge(0.5, 1.0, 5.0) == judge(0.0, 0.0, 0.0) == "consistent"
    assert judge(0.49, 1.0, 5.0) == judge(3.0, math.inf, 5.0) == judge(4.0, 6.0, 5.0) == "inconclusive"
    assert Verification("x", 1.0, 0.99, ()).verdict == "inconclusive"


@pytest.mark.parametrize("make", [lambda: Effort(), lambda: Effort(secure=False)])
def test_seeds_of_the_audited_noise(make: Callable[[], Effort]) -> None:
    effort = make()
    assert (effort.noise_seed("a") is None) == effort.secure
    if not effort.secure:
        assert effort.noise_seed("a") == effort.noise_seed("a") != effort.noise_seed("b")


def test_a_share_of_right_guesses_is_read_by_the_claimed_curve() -> None:
    pure = Claim(1.0, 0.0, "one undirected edge")
    assert pure.of_share(math.e / (1 + math.e)) == pytest.approx(1.0) and pure.of_share(0.4) == 0.0
    mixed = pure._replace(delta=0.1)
    assert mixed.of_share((math.e + 0.1) / (1 + math.e)) == pytest.approx(1.0)
    curve = Claim(1.0, 1e-6, "one undirected edge", gaussian=True)
    assert curve.of_share(0.5) == 0.0
    assert curve.of_share(float(ndtr(0.3))) == pytest.approx(analytic_epsilon(0.36, 1e-6), rel=1e-6)


def test_rounds_tell_gaussian_noise_from_half_of_it_although_the_noise_is_coupled() -> None:
    """Shift 0.24 is epsilon 1 at 1e-6. All coins of a round share luck, so only the mean over rounds is bounded."""
    rng, claim = np.random.default_rng(0), Claim(1.01, 1e-6, "one undirected edge", gaussian=True)

    def bound(shift: float) -> float:
        def play() -> dict[str, float]:
            luck = rng.choice([-0.05, 0.05])
            return {"blind": float(rng.random()), "sum": float((rng.random(50) < ndtr(shift / 2) + luck).mean())}

        return Rounds("rounds", play).run(0.001, claim, Effort(runs=100), lambda _: None).lower_bound

    assert bound(0.24) <= claim.epsilon < bound(0.48)


def test_stopping_at_a_refutation_keeps_the_verdict() -> None:
    effort = Effort(runs=50, canaries=500)
    whole, short = (verify(GraphItself(epsilon=1.0), effort, until_refuted=stop) for stop in (False, True))
    assert whole.verdict == short.verdict == "refuted" and len(short.findings) == 1 < len(whole.findings)
