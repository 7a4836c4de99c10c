from __future__ import annotations

import math
from decimal import Context
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.errors import InputError
from edgeveil.privacy.probability import exp_minus, logistic, probability


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
