from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.errors import InputError
from edgeveil.privacy.bounds import auc_bound, precision_bound, precision_bound_tight, tpr_bound

epsilons = st.floats(0, 50)
shares = st.floats(0, 1)


@given(epsilons, shares)
def test_the_tight_bound_lies_between_the_prior_and_theorem_6_and_one(epsilon: float, k: float) -> None:
    tight = precision_bound_tight(epsilon, k)
    assert tight <= min(1.0, precision_bound(epsilon, k)) + 1e-12
    assert tight >= k - 1e-12


@given(epsilons, shares)
def test_tight_bound_is_the_printed_fraction(epsilon: float, k: float) -> None:
    e = math.exp(epsilon)
    assert precision_bound_tight(epsilon, k) == pytest.approx(e * k / (e * k + 1 - k), rel=1e-9)


def test_randomised_response_reaches_every_bound() -> None:
    epsilon, k = 2.0, 0.1
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    precision = k * truth / (k * truth + (1 - k) * (1 - truth))
    assert precision == pytest.approx(precision_bound_tight(epsilon, k))
    assert tpr_bound(epsilon, 1 - truth) == pytest.approx(truth)
    assert auc_bound(epsilon) == pytest.approx(0.5 * (truth + truth))


@given(st.floats(0, 20), st.floats(0, 0.99))
def test_the_auc_bound_is_the_area_below_the_roc_bound(epsilon: float, delta: float) -> None:
    x = np.linspace(0, 1, 20_001)
    area = np.trapezoid([tpr_bound(epsilon, float(f), delta) for f in x[::10]], x[::10])
    assert auc_bound(epsilon, delta) == pytest.approx(area, abs=2e-3)
    assert auc_bound(epsilon, delta) >= auc_bound(epsilon)


def test_a_delta_loosens_precision_most_for_attackers_who_name_little() -> None:
    """The worst release tells with probability delta and lies by randomised response otherwise."""
    epsilon, delta, k = 1.0, 0.01, 0.2
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    recall = delta + (1 - delta) * truth
    precision = k * recall / (k * recall + (1 - k) * (1 - delta) * (1 - truth))
    assert precision_bound_tight(epsilon, k, delta, recall) == pytest.approx(precision)
    assert precision_bound_tight(epsilon, k, delta, delta) == 1.0 == precision_bound_tight(epsilon, k, delta, 0.001)
    assert precision_bound_tight(epsilon, k, delta) > precision_bound_tight(epsilon, k)


def test_known_figures() -> None:
    assert [round(auc_bound(e), 2) for e in (1, 2, 4)] == [0.73, 0.88, 0.98]
    assert auc_bound(0) == 0.5 and tpr_bound(0, 0.3) == pytest.approx(0.3)
    assert precision_bound(1000, 0.1) == math.inf and precision_bound_tight(1000, 0.1) == 1.0
    assert tpr_bound(1, 0.0, delta=0.01) == pytest.approx(0.01)


@pytest.mark.parametrize(("epsilon", "share"), [(-1, 0.1), (math.nan, 0.1), (1, 1.5), (1, -0.1)])
def test_nonsense_is_refused(epsilon: float, share: float) -> None:
    with pytest.raises(InputError):
        precision_bound(epsilon, share)
