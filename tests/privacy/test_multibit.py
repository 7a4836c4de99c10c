"""The multi-bit mechanism and label randomised response: unbiased, of the stated epsilon, exact in secure mode."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.privacy.audit_bounds import clopper_pearson
from edgeveil.privacy.kary import keep_probability, ragged_coins, ragged_uniform, respond
from edgeveil.privacy.label_rr import label_keep, label_transition, noisy_labels
from edgeveil.privacy.multibit import multi_bit, rectifier_scale, sampled_dimensions
from edgeveil.privacy.noise import noise_for


def test_the_number_of_sampled_dimensions_is_lpgnns() -> None:
    assert [sampled_dimensions(e, 1433) for e in (0.1, 2.17, 3.0, 4.36, 10.0)] == [1, 1, 1, 2, 4]
    assert sampled_dimensions(100.0, 5) == 5


def test_cora_values_at_epsilon_three() -> None:
    x = FeatureMatrix(sp.csr_matrix((np.ones(3), ([0, 1, 2], [5, 7, 9])), shape=(3, 1433)))
    noisy = multi_bit(x, 3.0, noise_for(0)).toarray()
    assert set(np.round(np.unique(noisy)).astype(int)) <= {-791, 0, 792}
    assert ((noisy == 0.5).sum(axis=1) == 1432).all()


@pytest.mark.parametrize(("epsilon", "sampled"), [(1.0, None), (6.0, None), (6.0, 4), (3.0, 6)])
def test_rectified_features_are_unbiased(epsilon: float, sampled: int | None) -> None:
    truth = np.array([0.0, 1.0, 0.3, 0.75, 0.5, 0.1])
    rows = 200_000
    x = FeatureMatrix(np.tile(truth, (rows, 1)))
    noisy = multi_bit(x, epsilon, noise_for(1), sampled)
    m = sampled or sampled_dimensions(epsilon, 6)
    assert (np.diff(noisy.values.indptr) == m).all() and noisy.values.has_canonical_format
    error = np.asarray(noisy.values.mean(axis=0)).ravel() + 0.5 - truth
    assert np.abs(error).max() < 5 * rectifier_scale(epsilon, 6, m) * math.sqrt(m / 6 / rows)


def test_one_bit_has_the_published_probability() -> None:
    rows, epsilon, value = 100_000, 2.0, 0.3
    noisy = multi_bit(FeatureMatrix(np.full((rows, 1), value)), epsilon, noise_for(2), 1)
    share = float((noisy.values.data > 0).mean())
    expected = (1 + (math.exp(epsilon) - 1) * value) / (math.exp(epsilon) + 1)
    assert abs(share - expected) < 5 * math.sqrt(0.25 / rows)


def test_any_two_feature_vectors_are_within_epsilon() -> None:
    """All 8 rows of three 0s and 1s, m = 2 by default: 12 reports each, 8 * 7 * 12 ratios, each epsilon at most.

    The lower limit of a ratio is above epsilon for a sound mechanism with probability below 1e-6 over all ratios.
    The best of them must come near epsilon, or the test could see nothing.
    """
    epsilon, runs = 4.4, 60_000
    assert sampled_dimensions(epsilon, 3) == 2
    rows = np.array(list(product((0.0, 1.0), repeat=3)))
    noisy = multi_bit(FeatureMatrix(np.repeat(rows, runs, axis=0)), epsilon, noise_for(11))
    code = (np.sign(noisy.values.toarray()).astype(np.int64) + 1) @ [9, 3, 1]
    counts = np.stack([np.bincount(part, minlength=27) for part in code.reshape(8, runs)])
    seen = counts[:, counts.any(axis=0)]
    assert seen.shape == (8, 12)
    miss = 1e-6 / (2 * 8 * 7 * 12)
    low, high = np.moveaxis([[clopper_pearson(int(hits), runs, miss) for hits in row] for row in seen], 2, 0)
    ratio = np.log(low[:, None] / high[None, :])
    assert 0.8 * epsilon < ratio.max() <= epsilon


def test_features_outside_the_unit_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        multi_bit(FeatureMatrix(np.full((50, 1), 2.0)), 1.0, noise_for(0))


def test_secure_features_and_labels() -> None:
    noisy = multi_bit(FeatureMatrix(np.full((3000, 2), 1.0)), 4.0, noise_for(None), 1)
    high = math.exp(4.0) / (math.exp(4.0) + 1)
    assert abs((noisy.values.data > 0).mean() - high) < 5 * math.sqrt(high * (1 - high) / 3000)
    y = noisy_labels(np.repeat([0, 1, 2, -1], 1000), 3, 1.0, noise_for(None))
    assert (y[3000:] == -1).all()
    assert abs((y[:3000] == np.repeat([0, 1, 2], 1000)).mean() - label_keep(1.0, 3)) < 0.05


@given(st.floats(0.01, 20), st.integers(1, 50))
def test_the_label_matrix_is_a_channel_of_that_epsilon(epsilon: float, classes: int) -> None:
    t = label_transition(epsilon, classes)
    assert np.allclose(t.sum(axis=1), 1)
    if classes > 1:
        assert math.isclose(math.log(t.max() / t.min()), epsilon, rel_tol=1e-6)


def test_an_infinite_epsilon_keeps_labels() -> None:
    assert (label_transition(math.inf, 4) == np.eye(4)).all()
    assert (noisy_labels(np.arange(4), 4, math.inf, noise_for(0)) == np.arange(4)).all()


@given(st.integers(1, 10**6), st.fractions(0, 12))
def test_keep_probability_matches_floating_point(k: int, epsilon: Fraction) -> None:
    assert math.isclose(float(keep_probability(epsilon, k)), 1 / (1 + (k - 1) * math.exp(-epsilon)), rel_tol=1e-12)


@pytest.mark.parametrize("seed", [3, None])
def test_ragged_draws_have_their_own_ranges(seed: int | None) -> None:
    sizes = np.repeat([0, 1, 2, 7], 4000)
    noise = noise_for(seed)
    index = ragged_uniform(noise, sizes)
    assert (index < np.maximum(sizes, 1)).all()
    assert (np.abs(np.bincount(index[sizes == 7], minlength=7) - 4000 / 7) < 150).all()
    coins = ragged_coins(noise, Fraction(1), sizes)
    assert coins[sizes <= 1].all()
    for k in (2, 7):
        p = float(keep_probability(Fraction(1), k))
        assert abs(coins[sizes == k].mean() - p) < 5 * math.sqrt(p * (1 - p) / 4000)


def test_a_single_value_is_always_kept() -> None:
    nothing = np.empty(0, np.int64)
    assert not len(ragged_uniform(noise_for(0), nothing)) and not len(ragged_coins(noise_for(0), Fraction(1), nothing))
    assert (respond(noise_for(0), Fraction(1), np.zeros(10, np.int64), 1) == 0).all()
