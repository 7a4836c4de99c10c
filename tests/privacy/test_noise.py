"""Each goodness-of-fit check fails a correct sampler with probability 1e-6; there are about 60 of them."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from edgeveil.errors import InputError
from edgeveil.privacy.guarantee import SECURE, SEEDED
from edgeveil.privacy.noise import Noise, SecureNoise, SeededNoise, noise_for
from edgeveil.privacy.probability import exp_minus, logistic, probability
from edgeveil.privacy.secure import _kept, _kept_digits
from laws import fits

SIZE = 60_000
SOURCES = [pytest.param(None, id="secure"), pytest.param(7, id="seeded")]


@pytest.mark.parametrize("seed", SOURCES)
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1), Fraction(10, 7), Fraction(10), Fraction(300)])
def test_discrete_laplace(seed: int | None, scale: Fraction) -> None:
    q = math.exp(-1 / scale)
    reach = int(12 * scale) + 5
    mass = {k: (1 - q) / (1 + q) * q ** abs(k) for k in range(-reach, reach + 1)}
    fits(noise_for(seed).discrete_laplace(scale, SIZE), mass)


def gaussian_mass(scale: Fraction) -> dict[int, float]:
    reach = int(9 * scale) + 5
    weights = {k: math.exp(-(k**2) / (2 * float(scale) ** 2)) for k in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {k: w / total for k, w in weights.items()}


@pytest.mark.parametrize("seed", SOURCES)
@pytest.mark.parametrize(
    "scale", [Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(10, 7), Fraction(999, 100), Fraction(300)]
)
def test_discrete_gaussian(seed: int | None, scale: Fraction) -> None:
    draws = noise_for(seed).discrete_gaussian(scale, SIZE)
    assert draws.dtype == np.int64 and len(draws) == SIZE
    fits(draws, gaussian_mass(scale))


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(7, 3), Fraction(14), Fraction(1367071, 10000)])
def test_kept_laplace_draws_have_gaussian_mass(scale: Fraction) -> None:
    """Chance to be kept = Gaussian mass / Laplace mass, up to one constant, to 60 binary digits at every size."""
    wide, precise = math.floor(scale) + 1, Context(prec=80)
    for size in (0, 1, 2, wide, 3 * wide + 1, 12 * wide):
        loss = Fraction(size**2) / (2 * scale**2) - Fraction(size, wide) + scale**2 / (2 * wide**2)
        chance = precise.exp(precise.divide(Decimal(-loss.numerator), Decimal(loss.denominator)))
        assert _kept(scale, size).floor(60) == int(chance * 2**60)
        assert _kept_digits(scale, size) == int(chance * 2**16)


def test_kept_draws_that_16_bits_leave_open_are_decided_by_further_digits() -> None:
    """Coins of one size are forced open; the rest of its expansion is then the chance to be kept."""
    scale, size = Fraction(3), 4
    coin = _kept(scale, size)
    rest = float(Fraction(coin.floor(400), 2**384) - coin.floor(16))
    kept = OpenCoin(coin.floor(16))._keeps(np.full(4000, size), scale)
    fits(kept.astype(int), {0: 1 - rest, 1: rest})


def test_a_million_gaussian_draws_are_all_there() -> None:
    draws = SecureNoise().discrete_gaussian(Fraction(3, 2), 10**6)
    assert draws.shape == (10**6,)
    fits(draws, gaussian_mass(Fraction(3, 2)))


@pytest.mark.parametrize("seed", SOURCES)
@pytest.mark.parametrize("failure", [0.0, 0.5, 0.9, 0.999])
def test_geometric(seed: int | None, failure: float) -> None:
    reach = int(12 / (1 - failure))
    mass = {k: failure**k * (1 - failure) for k in range(reach + 1)}
    fits(noise_for(seed).geometric(failure, SIZE), mass)


@pytest.mark.parametrize("seed", SOURCES)
@pytest.mark.parametrize("limit", [0, 1, 5, 6, 7, 8, 1000])
def test_a_limit_cuts_the_geometric_tail_and_nothing_else(seed: int | None, limit: int) -> None:
    failure = 0.8
    mass = {k: failure**k * (1 - failure) for k in range(limit)} | {limit: failure**limit}
    draws = noise_for(seed).geometric(failure, SIZE, limit)
    assert draws.max() <= limit
    fits(draws, mass)


@pytest.mark.parametrize("seed", SOURCES)
@pytest.mark.parametrize("p", [logistic(Fraction(4)), Fraction(1, 3), 0.75, exp_minus(Fraction(9))])
def test_bernoulli(seed: int | None, p: Any) -> None:
    rate = float(p)
    fits(noise_for(seed).bernoulli(p, SIZE).astype(int), {0: 1 - rate, 1: rate})


@pytest.mark.parametrize("seed", SOURCES)
@pytest.mark.parametrize(("trials", "p"), [(40, 0.3), (1000, 0.01), (5, 0.9)])
def test_binomial(seed: int | None, trials: int, p: float) -> None:
    noise = noise_for(seed)
    mass = {k: math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(min(trials, 60) + 1)}
    fits([noise.binomial(trials, p) for _ in range(4000)], mass)


@pytest.mark.parametrize("seed", SOURCES)
def test_integers_are_uniform(seed: int | None) -> None:
    noise = noise_for(seed)
    fits(noise.integers(3, 13, SIZE), dict.fromkeys(range(3, 13), 0.1))
    wide = noise.integers(0, 3 * 2**60, SIZE)
    fits(wide >> 60, {0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
    assert (noise.integers(5, 6, 10) == 5).all()


class OpenCoin(SecureNoise):
    """Real entropy, except that the first 16 bits always equal the threshold, so every coin needs more digits."""

    def __init__(self, digit: int, rounds: int = 0, later: int = 0) -> None:
        self.digit, self.rounds, self.later = digit, rounds, later

    def _words(self, kind: Any, size: int) -> Any:
        if kind is np.uint16:
            return np.full(size, self.digit, np.uint16)
        if self.rounds:
            self.rounds -= 1
            return np.full(size, self.later, np.uint64)
        return super()._words(kind, size)


def test_coins_that_16_bits_leave_open_are_decided_by_further_digits() -> None:
    p = logistic(Fraction(4))
    rest = float(Fraction(p.floor(400), 2**384) - p.floor(16))
    fits(OpenCoin(p.floor(16)).bernoulli(p, SIZE).astype(int), {0: 1 - rest, 1: rest})


def test_coins_that_80_bits_leave_open_are_decided_by_further_digits() -> None:
    p = logistic(Fraction(4))
    second = p.floor(80) - (p.floor(16) << 64)
    rest = float(Fraction(p.floor(400), 2**320) - p.floor(80))
    fits(OpenCoin(p.floor(16), 1, second).bernoulli(p, SIZE).astype(int), {0: 1 - rest, 1: rest})


def test_geometric_digits_that_16_bits_leave_open_are_decided_by_further_digits() -> None:
    """Every digit is forced open: the mean is then known from the rest of each digit's expansion."""
    failure = exp_minus(Fraction(1, 3))

    class AllOpen(SecureNoise):
        def _words(self, kind: Any, size: int) -> Any:
            if kind is not np.uint16:
                return super()._words(kind, size)
            coins = [failure.power(1 << j).odds_share() for j in range(8)] + [failure.power(1 << 8)]
            first = np.array([coin.floor(16) for coin in coins], np.uint16)
            return np.repeat(first, size // 9) if size % 9 == 0 else np.full(size, first[8], np.uint16)

    noise, runs = AllOpen(), 6000
    draws = noise.geometric(failure, runs, 255)
    for j in range(8):
        coin = failure.power(1 << j).odds_share()
        rest = float(Fraction(coin.floor(400), 2**384) - coin.floor(16))
        inside = draws[draws < 255]
        assert abs(((inside >> j) & 1).mean() - rest) < 5.5 * 0.5 / math.sqrt(len(inside)) + 0.01


def test_certain_coins() -> None:
    for noise in (noise_for(None), noise_for(0)):
        assert noise.bernoulli(1.0, 1000).all()
        assert not noise.bernoulli(0.0, 1000).any()
        assert noise.binomial(50, 1.0) == 50
        assert noise.binomial(50, 0.0) == 0
    assert (SecureNoise().geometric(1.0, 3, 9) == 9).all()


def test_very_rare_successes_do_not_overflow() -> None:
    draws = SecureNoise().geometric(probability(1 - Fraction(1, 10**30)), 50, 10**12)
    assert (draws == 10**12).all()


def test_continuous_laplace_is_for_seeded_runs_only() -> None:
    draws = noise_for(1).laplace(3.0, SIZE)
    assert np.abs(draws).mean() == pytest.approx(3.0, rel=0.02)
    with pytest.raises(InputError, match="discrete_laplace"):
        noise_for(None).laplace(1.0, 1)


def test_sources_are_labelled_and_seeds_reproduce() -> None:
    assert noise_for(None).randomness == SECURE
    assert noise_for(0).randomness == SEEDED
    for law in ("discrete_laplace", "discrete_gaussian"):
        a, b, c = (getattr(noise_for(s, "x"), law)(Fraction(5), 20).tolist() for s in (3, 3, 4))
        assert a == b != c
    noise: Noise = SeededNoise(np.random.default_rng(0))
    assert noise.integers(0, 2, 3).shape == (3,)


def test_nonsense_is_refused() -> None:
    with pytest.raises(InputError, match="empty range"):
        SecureNoise().integers(3, 3, 1)
    with pytest.raises(InputError, match="positive"):
        SecureNoise().discrete_laplace(Fraction(0), 1)
    for noise in (noise_for(None), noise_for(0)):
        with pytest.raises(InputError, match="positive"):
            noise.discrete_gaussian(Fraction(0), 1)
        assert noise.discrete_gaussian(Fraction(2), 0).shape == (0,)
