from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.errors import BudgetExceeded, InputError, MissingExtra, UnknownNameError
from edgeveil.privacy.accountants import ACCOUNTANTS, accountant
from edgeveil.privacy.budget import DELTA, Budget, Charge
from edgeveil.privacy.charges import check_delta, exact_square, make_gaussian
from edgeveil.privacy.gaussian import analytic_epsilon, discrete_epsilon, zcdp_epsilon
from edgeveil.privacy.guarantee import Guarantee
from tries import tries

WITH_DELTA = ["zcdp", "gaussian"]


def noisy(scale: float | Fraction, cells: int = 2, law: str = "discrete", on: str = "graph") -> Charge:
    return Charge("query", None, on, make_gaussian(scale, Fraction(cells), law=law, cells=cells))


def test_rho_adds_up_exactly_and_a_pure_query_costs_half_its_square() -> None:
    charges = [noisy(Fraction(3)), noisy(Fraction(5)), *[Charge("pure", Fraction(1, 5))] * 40]
    rho = Fraction(2, 18) + Fraction(2, 50) + 40 * Fraction(1, 50)
    assert accountant("zcdp").epsilon(charges, 1e-6) == Fraction(zcdp_epsilon(rho, 1e-6))


def test_the_gaussian_accountant_uses_the_curve_of_the_noise() -> None:
    of = accountant("gaussian").epsilon
    assert of([noisy(10)] * 6, 1e-6) == Fraction(discrete_epsilon(12, Fraction(10), 1e-6))
    continuous = [noisy(10, law="continuous"), noisy(30, law="continuous")]
    squared = Fraction(2, 100) + Fraction(2, 900)
    assert float(of(continuous, 1e-6)) == pytest.approx(analytic_epsilon(squared, 1e-6), rel=1e-9)


def test_where_no_curve_applies_the_gaussian_accountant_is_zcdp() -> None:
    unequal = [noisy(10), noisy(20)]
    assert accountant("gaussian").epsilon(unequal, 1e-6) == accountant("zcdp").epsilon(unequal, 1e-6)
    general = [Charge("query", None, "graph", make_gaussian(5, Fraction(7, 3)))]
    assert accountant("gaussian").epsilon(general, 1e-6) == accountant("zcdp").epsilon(general, 1e-6)


@pytest.mark.parametrize("name", WITH_DELTA)
@settings(max_examples=tries(40), deadline=None)
@given(
    charges=st.lists(
        st.one_of(
            st.fractions(Fraction(1, 100), Fraction(3), max_denominator=100).map(lambda e: Charge("pure", e)),
            st.sampled_from([noisy(4), noisy(Fraction(17, 2)), noisy(9, 1, "continuous"), noisy(50)]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_more_queries_never_cost_less_and_pure_sums_are_never_exceeded(name: str, charges: list[Charge]) -> None:
    of = accountant(name).epsilon
    total = of(charges, 1e-6)
    assert of(charges[:-1], 1e-6) <= total * (1 + Fraction(1, 10**8)) or len(charges) == 1
    assert of(charges, 1e-4) <= total
    if all(c.gaussian is None for c in charges):
        assert total <= accountant("pure").epsilon(charges, 0.0)


def test_the_pure_accountant_refuses_gaussian_noise() -> None:
    budget = Budget(4.0)
    with pytest.raises(InputError, match="no pure epsilon"):
        budget.spend_gaussian(10, "query", sensitivity=1)
    assert budget.charges == ()


@pytest.mark.parametrize("name", WITH_DELTA)
@pytest.mark.parametrize("queries", [1, 3, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_scale_is_the_smallest_that_lets_all_queries_pass(name: str, queries: int, epsilon: float) -> None:
    budget = Budget(epsilon, accountant=name)
    sigma = budget.gaussian_scale(queries, cells=2)
    for number in range(queries):
        assert budget.spend_gaussian(sigma, f"layer {number}", cells=2) == sigma
    assert 0.999 * budget.cap < budget.spent <= budget.cap
    with pytest.raises(BudgetExceeded, match="one more"):
        budget.spend_gaussian(sigma, "one more", cells=2)
    assert len(budget.charges) == queries
    tighter = Budget(epsilon, accountant=name)
    with pytest.raises(BudgetExceeded):
        for _ in range(queries):
            tighter.spend_gaussian(sigma * Fraction(999, 1000), "too little noise", cells=2)


def test_a_root_may_be_given_as_a_float_and_means_the_root() -> None:
    by_root, by_cells = (Budget(1.0, accountant="zcdp") for _ in range(2))
    assert by_root.gaussian_scale(3, sensitivity=math.sqrt(2)) == by_cells.gaussian_scale(3, cells=2)
    assert exact_square(math.sqrt(3)) == 3 and exact_square(Fraction(1, 3)) == Fraction(1, 9) and exact_square(2) == 4
    assert exact_square(0.1) >= Fraction(1, 100)


@pytest.mark.parametrize("name", WITH_DELTA)
def test_disjoint_edge_sets_cost_their_maximum(name: str) -> None:
    budget = Budget(1.0, accountant=name)
    sigma = budget.gaussian_scale(2, cells=2)
    for on in ("training graph", "inference graph"):
        for _ in range(2):
            budget.spend_gaussian(sigma, "query", on, cells=2)
    assert budget.spent == budget.spent_on("training graph") == budget.spent_on("inference graph") <= budget.cap
    with pytest.raises(BudgetExceeded):
        budget.spend_gaussian(100 * sigma, "query", "training graph", cells=2)


def test_a_later_scale_makes_room_for_what_was_spent() -> None:
    budget = Budget(1.0, accountant="zcdp")
    budget.spend(Fraction(1, 2), "pure")
    alone = Budget(1.0, accountant="zcdp").gaussian_scale(1, cells=2)
    sigma = budget.gaussian_scale(1, cells=2)
    assert sigma > alone
    budget.spend_gaussian(sigma, "query", cells=2)
    assert budget.spent > Fraction(999, 1000)
    with pytest.raises(BudgetExceeded):
        budget.spend(Fraction(1, 2), "pure")
    full = Budget(1.0, accountant="zcdp")
    full.spend(1.0, "everything")
    with pytest.raises(BudgetExceeded, match="Gaussian"):
        full.gaussian_scale(1, cells=2)


def test_a_budget_without_cap_asks_for_no_noise() -> None:
    budget = Budget(math.inf, accountant="zcdp")
    assert budget.gaussian_scale(3, cells=2) == 0 == budget.spend_gaussian(1, "query", cells=2)
    assert budget.charges == ()


def test_delta_is_a_number_between_0_and_1_and_one_millionth_by_default() -> None:
    assert Budget(1.0, accountant="zcdp").delta == DELTA == 1e-6
    assert Budget(1.0).delta == 0
    for bad in (0, 1, -1e-6, 2.0, math.nan, "1e-6", True, None, Fraction(1, 10**400)):
        with pytest.raises(InputError, match="delta"):
            check_delta(bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pure accountant has no delta"):
        Budget(1.0, delta=1e-6)
    with pytest.raises(UnknownNameError, match="zcdp"):
        Budget(1.0, accountant="zcpd")


@pytest.mark.parametrize(
    "terms",
    [{}, {"sensitivity": 1.0, "cells": 2}, {"sensitivity": 0}, {"sensitivity": -1.0}, {"sensitivity": math.nan},
     {"cells": 0}, {"cells": 2, "law": "normal"}],
)  # fmt: skip
def test_unclear_queries_are_refused(terms: dict[str, object]) -> None:
    budget = Budget(1.0, accountant="zcdp")
    with pytest.raises(InputError):
        budget.spend_gaussian(10, "query", **terms)  # type: ignore[arg-type]
    for scale in (0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="scale"):
            budget.spend_gaussian(scale, "query", cells=2)
    with pytest.raises(InputError, match="one query"):
        budget.gaussian_scale(0, cells=2)
    assert budget.charges == ()


def test_charges_survive_json_and_old_manifests_still_load() -> None:
    budget = Budget(1.0, delta=1e-7, accountant="gaussian")
    budget.spend_gaussian(budget.gaussian_scale(2, cells=2), "counts", cells=2)
    budget.spend(Fraction(1, 100), "pure")
    stated = Guarantee(
        status="sound", claimed_epsilon=1.0, delta=budget.delta, accountant=budget.accountant, charges=budget.charges
    )
    assert Guarantee.from_json(stated.to_json()) == stated
    text = stated.statement()
    assert "(1, 1e-07)-differential privacy" in text and ACCOUNTANTS["gaussian"].words in text
    assert "Gaussian noise of scale" in text and "delta 1e-07" in repr(stated)
    old = {"status": "sound", "claimed_epsilon": 4.0, "delta": 0.0,
           "charges": [{"what": "count", "epsilon": "1/25", "on": "graph"}]}  # fmt: skip
    loaded = Guarantee.from_json(old)
    assert loaded.charges == (Charge("count", Fraction(1, 25)),) and loaded.accountant == "pure"
    for broken in ({"what": "x", "epsilon": None, "on": "graph"},):
        with pytest.raises(InputError, match="either an epsilon or Gaussian"):
            Charge.from_json(broken)


def test_every_accountant_has_its_own_words() -> None:
    assert list(ACCOUNTANTS) == ["pure", "zcdp", "gaussian", "pld"]
    assert len({a.words for a in ACCOUNTANTS.values()}) == 4
    assert "zcdp at delta 1e-06" in repr(Budget(1.0, accountant="zcdp"))


def test_the_library_behind_pld_is_an_extra() -> None:
    try:
        import dp_accounting  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtra, match=r"edgeveil\[pld\]"):
            accountant("pld").epsilon([noisy(10)], 1e-6)
    else:
        pytest.skip("dp-accounting is installed here")
