"""The three routes to epsilon against formulas evaluated independently, at high precision where it matters."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from edgeveil.privacy.gaussian import (
    analytic_delta,
    analytic_epsilon,
    discrete_delta,
    discrete_epsilon,
    equivalent_shift,
    zcdp_epsilon,
)
from tries import tries

DELTAS = st.sampled_from([1e-2, 1e-4, 1e-6, 1e-9])


def _order_bound(rho: float, delta: float, alpha: float) -> float:
    return alpha * rho + math.log(1 / (alpha * delta)) / (alpha - 1) + math.log1p(-1 / alpha)


@pytest.mark.parametrize(("rho", "delta"), [(0.01, 1e-6), (0.5, 1e-6), (2.56, 1e-10), (20.0, 1e-3), (1e-5, 1e-5)])
def test_zcdp_finds_the_best_order(rho: float, delta: float) -> None:
    orders = 1 + np.geomspace(1e-3, 1e5, 400_000)
    bounds = orders * rho + np.log(1 / (orders * delta)) / (orders - 1) + np.log1p(-1 / orders)
    found = zcdp_epsilon(rho, delta)
    assert found == pytest.approx(max(bounds.min(), 0.0), rel=1e-6, abs=1e-9)
    assert _order_bound(rho, delta, 3.0) >= found


@given(st.floats(1e-6, 50), DELTAS)
def test_zcdp_lies_between_the_exact_gaussian_and_the_textbook_formula(rho: float, delta: float) -> None:
    """Bun and Steinke: rho + 2 sqrt(rho ln(1/delta)); the Gaussian with this rho can cost no more than the bound."""
    found = zcdp_epsilon(rho, delta)
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-9
    assert analytic_epsilon(2 * rho, delta) <= found


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    # Smallest sigma for sensitivity 1 by Balle and Wang's Algorithm 1, evaluated with 60 digits (mpmath).
    [
        (1.0, 1e-5, 3.73063163482),
        (0.1, 1e-5, 30.749566132),
        (1.0, 1e-6, 4.22467888933),
        (10.0, 1e-5, 0.499888619709),
        (0.5, 1e-8, 9.86353379617),
    ],
)
def test_known_scales_of_the_analytic_gaussian(epsilon: float, delta: float, sigma: float) -> None:
    assert analytic_epsilon(1 / sigma**2, delta) == pytest.approx(epsilon, rel=1e-7)


@pytest.mark.parametrize(("shift", "epsilon"), [(0.1, 0.3), (1.0, 2.0), (2.0, 1.0), (0.7, 4.0)])
def test_analytic_delta_is_the_hockey_stick_divergence(shift: float, epsilon: float) -> None:
    x = np.linspace(-15, 15 + shift, 2_000_001)
    gap = np.maximum(norm.pdf(x, shift) - math.exp(epsilon) * norm.pdf(x), 0)
    assert analytic_delta(shift, epsilon) == pytest.approx(np.trapezoid(gap, x), rel=1e-5)


def _true_discrete_delta(cells: int, scale: Fraction, epsilon: float) -> float:
    """Hockey-stick divergence of two product laws, cell by cell, over every outcome of up to three cells."""
    reach = math.ceil(14 * scale) + 2
    at = np.arange(-reach, reach + 1)
    mass = np.exp(-(at**2) / (2 * float(scale) ** 2))
    mass /= mass.sum()
    shifted = np.roll(mass, 1)
    first, second = np.ones(1), np.ones(1)
    for _ in range(cells):
        first, second = np.multiply.outer(first, shifted).ravel(), np.multiply.outer(second, mass).ravel()
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(19, 10), Fraction(2), Fraction(7, 2)])
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.0, 0.37, 1.0, 2.5])
def test_discrete_delta_is_the_divergence_of_the_joint_laws(scale: Fraction, cells: int, epsilon: float) -> None:
    truth = _true_discrete_delta(cells, scale, epsilon)
    found = discrete_delta(cells, scale, epsilon)
    assert truth * (1 - 1e-9) <= found
    assert found == pytest.approx(truth, rel=1e-6, abs=1e-15)


def test_the_continuous_curve_is_not_a_bound_for_discrete_noise() -> None:
    """Why discrete noise needs its own curve: at sigma 1/2 it costs more than Balle and Wang's figure."""
    grid = np.linspace(0.1, 12, 400)
    over = [_true_discrete_delta(1, Fraction(1, 2), e) > analytic_delta(2.0, e) * 1.01 for e in grid]
    assert any(over) and not all(over)


def test_single_cells_and_their_sum_agree_where_the_table_changes() -> None:
    """Below sigma 2 masses are convolved, from 2 on the sum is one discrete Gaussian: no step between them."""
    below, above = discrete_epsilon(12, Fraction(2) - Fraction(1, 10**9), 1e-6), discrete_epsilon(12, Fraction(2), 1e-6)
    assert below == pytest.approx(above, rel=1e-6)


@pytest.mark.parametrize("cells", [2, 12, 60])
def test_wide_discrete_noise_costs_what_continuous_noise_costs(cells: int) -> None:
    scale = Fraction(40)
    assert discrete_epsilon(cells, scale, 1e-6) == pytest.approx(analytic_epsilon(cells / scale**2, 1e-6), rel=2e-3)


@settings(max_examples=tries(60), deadline=None)
@given(st.integers(1, 40), st.fractions(Fraction(1, 3), Fraction(60), max_denominator=50), DELTAS)
def test_discrete_epsilon_never_exceeds_zcdp_and_falls_with_noise_and_delta(
    cells: int, scale: Fraction, delta: float
) -> None:
    found = discrete_epsilon(cells, scale, delta)
    assert found <= zcdp_epsilon(Fraction(cells) / (2 * scale**2), delta)
    assert discrete_delta(cells, scale, found) <= delta or found == zcdp_epsilon(cells / (2 * scale**2), delta)
    assert discrete_epsilon(cells, scale, delta / 10) >= found
    assert discrete_epsilon(cells + 1, scale, delta) >= found * (1 - 1e-8)


@given(st.floats(1e-4, 1e3), DELTAS)
def test_analytic_epsilon_is_monotone(squared: float, delta: float) -> None:
    found = analytic_epsilon(squared, delta)
    assert analytic_epsilon(squared * 1.1, delta) >= found >= 0
    assert analytic_epsilon(squared, delta / 10) >= found
    assert found == 0 or analytic_delta(math.sqrt(squared), found) <= delta


def test_tables_that_are_not_built_fall_back_to_zcdp() -> None:
    huge = Fraction(10**7)
    assert discrete_delta(1, huge, 1.0) == 1.0
    assert discrete_epsilon(1, huge, 1e-6) == zcdp_epsilon(Fraction(1) / (2 * huge**2), 1e-6)
    assert discrete_delta(10**4, Fraction(1, 2), 1.0) == 1.0
    assert zcdp_epsilon(Fraction(0), 1e-6) == 0 == analytic_epsilon(0, 1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 12.0])
def test_a_pure_query_never_exceeds_its_gaussian(epsilon: float) -> None:
    """Randomised response, the worst pure query, lies below the Gaussian curve at every epsilon of the claim."""
    shift = equivalent_shift(epsilon)
    assert norm.cdf(-shift / 2) == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-6)
    for asked in np.linspace(0, epsilon, 30):
        pure = max(0.0, (math.exp(epsilon) - math.exp(asked)) / (1 + math.exp(epsilon)))
        assert pure <= analytic_delta(shift, float(asked)) + 1e-15
