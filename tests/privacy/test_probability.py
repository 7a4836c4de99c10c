from __future__ import annotations

import math
from decimal import Context
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.errors import InputError
from edgeveil.privacy.kary import keep_probability
from edgeveil.privacy.probability import exp_minus, logistic, probability
from edgeveil.privacy.secure import SecureNoise


@given(st.fractions(min_value=0, max_value=40), st.sampled_from([1, 16, 64, 200]))
def test_digits_of_logistic_agree_with_far_higher_precision(x: Fraction, bits: int) -> None:
    c = Context(prec=400)
    value = c.divide(1, c.add(1, c.exp(c.divide(x.numerator, x.denominator))))
    assert logistic(x).floor(bits) == int(c.multiply(value, 2**bits))


@given(st.fractions(min_value=0, max_value=1), st.integers(0, 150))
def test_rational_digits_are_exact(p: Fraction, bits: int) -> None:
    assert probability(p).floor(bits) == math.floor(p * 2**bits)


def test_longer_expansions_extend_shorter_ones() -> None:
    p = exp_minus(Fraction(1, 3)).power(1 << 5).odds_share()
    assert p.floor(80) >> 64 == p.floor(16)
    assert p.floor(144) >> 64 == p.floor(80)


def test_values_that_end_on_a_binary_digit() -> None:
    assert logistic(Fraction(0)).floor(64) == 2**63
    assert exp_minus(Fraction(0)).floor(16) == 2**16
    assert exp_minus(Fraction(10_000)).floor(64) == 0


def test_algebra() -> None:
    p = logistic(Fraction(3, 2))
    assert float(p.complement()) == pytest.approx(1 - float(p), abs=1e-15)
    assert float(p.power(7)) == pytest.approx(float(p) ** 7, rel=1e-12)
    assert float(p.odds_share()) == pytest.approx(float(p) / (1 + float(p)), rel=1e-12)
    assert float(logistic(Fraction(-3, 2))) == pytest.approx(float(p.complement()), rel=1e-12)
    assert "0.18" in repr(p)


def test_a_float_means_its_binary_value() -> None:
    assert probability(0.1).floor(60) == math.floor(Fraction(0.1) * 2**60)


@pytest.mark.parametrize("bad", [-0.1, 1.5])
def test_impossible_probabilities_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        probability(bad)
    with pytest.raises(InputError, match="x >= 0"):
        exp_minus(Fraction(-1))


dyadic = st.integers(0, 12).flatmap(lambda m: st.integers(0, 2**m).map(lambda a: Fraction(a, 2**m)))
digits = st.sampled_from([0, 1, 2, 16, 80, 5000])


@given(dyadic, st.integers(0, 40), digits)
def test_every_operation_on_a_dyadic_probability_is_exact_to_any_digit(p: Fraction, e: int, bits: int) -> None:
    """Numbers that end on a binary digit once searched for ever; each operation is held against fractions."""
    q = probability(p)
    cases = [
        (q.complement(), 1 - p),
        (q.complement().complement(), p),
        (q.power(e), p**e),
        (q.power(e).odds_share(), p**e / (1 + p**e)),
        (q.odds_share(e), e * p / (1 + e * p)),
        (q.odds_share(e).complement(), 1 / (1 + e * p)),
    ]
    for ours, value in cases:
        assert ours.floor(bits) == math.floor(value * 2**bits)
        assert ours.ends_by(bits) == ((value * 2**bits).denominator == 1)


@given(dyadic, st.integers(300, 1000), st.sampled_from([0, 1, 16, 80, 4000, 13000]))
def test_long_powers_end_where_they_end(p: Fraction, e: int, bits: int) -> None:
    value = p**e
    q = probability(p).power(e)
    assert q.floor(bits) == math.floor(value * 2**bits)
    assert q.complement().floor(bits) == math.floor((1 - value) * 2**bits)
    assert q.power(3).floor(bits) == math.floor(value**3 * 2**bits)
    assert q.odds_share().floor(min(bits, 80)) == math.floor(value / (1 + value) * 2 ** min(bits, 80))


@given(st.integers(1, 2**20), digits)
def test_without_budget_k_ary_response_keeps_one_in_k(k: int, bits: int) -> None:
    assert keep_probability(Fraction(0), k).floor(bits) == 2**bits // k


@given(st.fractions(0, 30), st.integers(2, 50), st.sampled_from([1, 16, 80, 200]))
def test_k_ary_response_keeps_with_the_stated_probability(epsilon: Fraction, k: int, bits: int) -> None:
    c = Context(prec=400)
    decay = c.exp(c.divide(-epsilon.numerator, epsilon.denominator))
    value = c.divide(1, c.add(1, c.multiply(k - 1, decay)))
    assert keep_probability(epsilon, k).floor(bits) == math.floor(Fraction(value) * 2**bits)


@given(st.integers(1, 10**12), st.integers(1, 2**40))
def test_certainty_but_for_one_in_e_to_a_trillion_needs_no_long_numbers(epsilon: int, k: int) -> None:
    """The digits of a number next to 1 are those of the small remainder turned over."""
    keep = keep_probability(Fraction(epsilon + 100), k)
    assert keep.floor(64) == (2**64 if k == 1 else 2**64 - 1)
    assert logistic(Fraction(-epsilon - 100)).floor(64) == 2**64 - 1


@given(dyadic)
def test_samplers_end_on_every_dyadic_and_degenerate_probability(p: Fraction) -> None:
    noise = SecureNoise()
    coins = noise.bernoulli(p, 50)
    assert coins.dtype == bool and (p not in (0, 1) or (coins == bool(p)).all())
    gaps = noise.geometric(p, 50, limit=1000)
    assert ((gaps >= 0) & (gaps <= 1000)).all() and (p != 0 or not gaps.any()) and (p != 1 or (gaps == 1000).all())
    hits = noise.binomial(40, p)
    assert 0 <= hits <= 40 and (p not in (0, 1) or hits == 40 * p)


def test_operations_outside_their_range_are_refused() -> None:
    for p in (probability(Fraction(1, 3)), exp_minus(Fraction(1))):
        with pytest.raises(InputError, match="exponent"):
            p.power(-1)
        with pytest.raises(InputError, match="weight"):
            p.odds_share(-1)
    with pytest.raises(InputError, match="weight 1 only"):
        probability(Fraction(1, 3)).power(10_000).odds_share(2)
