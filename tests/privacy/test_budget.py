from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.errors import BudgetExceeded, InputError
from edgeveil.privacy.budget import Budget, check_epsilon, directed_to_undirected, exact, undirected_to_directed


def test_charges_on_one_edge_set_add_up() -> None:
    budget = Budget(1.0)
    for _ in range(10):
        budget.spend(0.1, "query")
    assert budget.spent == budget.cap == 1
    assert budget.remaining == 0
    assert len(budget.charges) == 10


def test_disjoint_edge_sets_cost_their_maximum() -> None:
    budget = Budget(4.0)
    budget.spend(4.0, "perturb", on="training graph")
    budget.spend(3.0, "perturb", on="inference graph")
    assert budget.spent == 4
    assert budget.spent_on("inference graph") == 3


def test_overspending_changes_nothing_and_names_the_sums() -> None:
    budget = Budget(1.0)
    budget.spend(0.7, "first")
    with pytest.raises(BudgetExceeded) as caught:
        budget.spend(0.5, "second")
    error = caught.value
    assert (error.cap, error.spent, error.asked, error.short) == (1, Fraction(7, 10), Fraction(1, 2), Fraction(1, 5))
    for figure in ("0.5", "0.7", "short by 0.2", "second"):
        assert figure in str(error)
    assert budget.spent == Fraction(7, 10)


@given(
    st.floats(min_value=1e-6, max_value=1e6, allow_nan=False),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=12),
)
def test_shares_sum_to_the_cap_exactly(epsilon: float, weights: list[int]) -> None:
    parts = Budget(epsilon).share(*weights)
    assert sum(parts) == exact(epsilon)
    budget = Budget(epsilon)
    for part in parts:
        budget.spend(part, "share")
    assert budget.remaining == 0


def test_infinite_budget_has_no_cap_and_keeps_no_charges() -> None:
    budget = Budget(math.inf)
    assert budget.unlimited
    assert budget.spend(5.0, "anything") == 0
    assert budget.charges == () and budget.spent == 0
    assert "no cap" in repr(budget)
    for use in (lambda: budget.cap, lambda: budget.remaining, lambda: budget.share(1, 1)):
        with pytest.raises(InputError, match="no cap"):
            use()


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True, "4", None])
def test_bad_epsilons_are_refused(bad: object) -> None:
    with pytest.raises(InputError):
        check_epsilon(bad)  # type: ignore[arg-type]
    if bad != math.inf:
        with pytest.raises(InputError):
            Budget(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [(), (1, 0), (1, -1)])
def test_bad_shares_are_refused(weights: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="positive"):
        Budget(1.0).share(*weights)


def test_decimals_mean_what_was_typed() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert exact(np.float64(0.3)) == Fraction(3, 10)
    assert exact(4) == 4
    assert check_epsilon(np.float32(2)) == 2.0
    assert check_epsilon(math.inf, infinite=True) == math.inf


def test_units() -> None:
    assert directed_to_undirected(2.0) == 4.0
    assert undirected_to_directed(directed_to_undirected(1.7)) == 1.7
