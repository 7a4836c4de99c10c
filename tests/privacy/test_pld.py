"""The accountant `pld`, in an environment of its own (`make test-pld`); skipped where dp-accounting is absent."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from edgeveil.errors import BudgetExceeded, InputError
from edgeveil.privacy.accountants import accountant
from edgeveil.privacy.budget import Budget, Charge
from edgeveil.privacy.charges import make_gaussian
from edgeveil.privacy.gaussian import analytic_epsilon, discrete_epsilon

pytest.importorskip("dp_accounting", reason="needs edgeveil[pld] in an environment of its own")


def noisy(scale: float | Fraction, cells: int = 2, law: str = "discrete") -> Charge:
    return Charge("query", None, "graph", make_gaussian(scale, Fraction(cells), law=law, cells=cells))


@pytest.mark.parametrize(("queries", "scale"), [(1, Fraction(5)), (6, Fraction(146347, 10000)), (20, Fraction(3, 2))])
def test_an_independent_library_agrees_with_our_exact_curve(queries: int, scale: Fraction) -> None:
    """Both are upper bounds of one number; theirs is rounded on a grid of 1e-4 per query."""
    theirs = float(accountant("pld").epsilon([noisy(scale)] * queries, 1e-6))
    ours = discrete_epsilon(2 * queries, scale, 1e-6)
    assert ours <= theirs * (1 + 1e-6)
    assert theirs == pytest.approx(ours, abs=2e-4 * queries, rel=1e-3)


def test_continuous_noise_agrees_with_balle_and_wang() -> None:
    theirs = float(accountant("pld").epsilon([noisy(8, law="continuous")] * 5, 1e-6))
    assert theirs == pytest.approx(analytic_epsilon(10 / 64, 1e-6), abs=1e-3)


def test_unequal_scales_cost_less_than_by_zcdp_and_pure_queries_less_than_their_sum() -> None:
    mixed = [noisy(4), noisy(7), Charge("pure", Fraction(1, 10))]
    assert accountant("pld").epsilon(mixed, 1e-6) < accountant("zcdp").epsilon(mixed, 1e-6)
    pure = [Charge("pure", Fraction(1, 10))] * 50
    assert accountant("pld").epsilon(pure, 1e-6) < accountant("pure").epsilon(pure, 0.0)
    assert accountant("pld").epsilon(pure[:1], 1e-6) <= Fraction(1, 10)


def test_a_budget_by_pld_holds_its_cap() -> None:
    budget = Budget(1.0, delta=1e-6, accountant="pld")
    sigma = budget.gaussian_scale(2, cells=2)
    for _ in range(2):
        budget.spend_gaussian(sigma, "query", cells=2)
    assert 0.99 < budget.spent <= 1
    with pytest.raises(BudgetExceeded):
        budget.spend_gaussian(sigma, "query", cells=2)
    with pytest.raises(InputError, match="cells="):
        Budget(1.0, accountant="pld").spend_gaussian(10, "query", sensitivity=math.sqrt(2))
