from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from edgeveil.errors import InputError
from edgeveil.privacy.audit_bounds import (
    clopper_pearson,
    event_bound,
    likelihood_bound,
    mean_bound,
    one_run_bound,
    one_run_p_value,
)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (250, 1000)])
def test_clopper_pearson_agrees_with_scipy(hits: int, trials: int) -> None:
    want = binomtest(hits, trials).proportion_ci(0.98, method="exact")
    assert clopper_pearson(hits, trials, 0.01) == pytest.approx((want.low, want.high))
    with pytest.raises(InputError):
        clopper_pearson(trials + 1, trials, 0.01)


def test_event_bound_covers_the_true_ratio() -> None:
    """Claimed error 5 %: over 2,000 experiments more than 150 misses has probability below 1e-6."""
    rng = np.random.default_rng(0)
    p, q, trials = 0.4, 0.1, 500
    bounds = [event_bound(*rng.binomial(trials, [p, q]), trials, 0.05) for _ in range(2000)]
    assert sum(b > math.log(p / q) for b in bounds) <= 150
    assert np.median(bounds) > 1.0


def test_delta_lowers_the_bound_and_nothing_seen_bounds_nothing() -> None:
    assert 0 < event_bound(500, 10, 1000, 0.01, delta=0.1) < event_bound(500, 10, 1000, 0.01)
    assert event_bound(0, 0, 1000, 0.01) == 0.0
    assert event_bound(50, 900, 1000, 0.01) == 0.0


def test_choosing_the_event_costs_no_confidence() -> None:
    """Two identical laws over many outputs: the chosen event looks extreme on the first half only."""
    rng = np.random.default_rng(1)
    bounds = [likelihood_bound(*rng.integers(0, 500, (2, 2000)).tolist(), 0.05)[0] for _ in range(200)]
    assert sum(b > 0 for b in bounds) <= 35  # 200 at 5 %: more than 35 has probability below 1e-6


def test_likelihood_bound_finds_the_telling_event() -> None:
    rng = np.random.default_rng(2)
    first = rng.choice(4, 20_000, p=[0.1, 0.2, 0.3, 0.4]).tolist()
    second = rng.choice(4, 20_000, p=[0.4, 0.3, 0.2, 0.1]).tolist()
    bound, hits, other = likelihood_bound(first, second, 0.01)
    assert 1.2 < bound < math.log(4) and hits > other


def test_one_run_p_value_is_the_binomial_tail() -> None:
    rate = 1 / (1 + math.exp(-1.5))
    assert one_run_p_value(80, 90, 200, 1.5) == pytest.approx(binom.sf(79, 90, rate))
    assert one_run_p_value(0, 90, 200, 1.5) == 1.0
    sums = [binom.cdf(79, 90, rate) - binom.cdf(79 - i, 90, rate) for i in range(1, 81)]
    extra = max(s / i for i, s in enumerate(sums, 1)) * 2 * 200 * 1e-5
    assert one_run_p_value(80, 90, 200, 1.5, 1e-5) == pytest.approx(binom.sf(79, 90, rate) + extra)


def test_one_run_bound_inverts_the_p_value() -> None:
    bound = one_run_bound(80, 90, 200, 0.01)
    assert one_run_p_value(80, 90, 200, bound) == pytest.approx(0.01, rel=1e-6)
    assert one_run_bound(45, 90, 200, 0.01) == 0.0
    assert one_run_bound(0, 0, 200, 0.01) == 0.0
    assert one_run_bound(1000, 1000, 1000, 0.05) == pytest.approx(math.log(1000 / 3), abs=0.01)
    assert one_run_bound(80, 90, 200, 0.01, delta=1e-4) < bound


def test_mean_bound_covers_the_mean_of_any_law() -> None:
    """Claimed error 5 %: over 400 experiments more than 45 misses has probability below 1e-6."""
    rng = np.random.default_rng(3)
    laws = [lambda: rng.binomial(50, 0.55, 200) / 50, lambda: (rng.random(200) < 0.02).astype(float)]
    for draw, mean in zip(laws, (0.55, 0.02), strict=True):
        assert sum(mean_bound(draw(), 0.05) > mean for _ in range(400)) <= 45


def test_mean_bound_rewards_scores_that_scatter_little() -> None:
    rng = np.random.default_rng(4)
    assert 0.535 < mean_bound(rng.binomial(50, 0.55, 1000) / 50, 0.001) < 0.55
    assert mean_bound(rng.binomial(1, 0.55, 1000), 0.001) < 0.51
    assert mean_bound([1.0] * 1000, 0.001) > 0.99 and mean_bound([0.0] * 10, 0.001) < 1e-6
