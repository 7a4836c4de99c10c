"""Intervals cover what they claim to cover."""

from __future__ import annotations

import numpy as np
import pytest

import edgeveil.metrics as metrics
from edgeveil.errors import InputError


def test_over_seeds_is_the_papers_mean_and_population_sd():
    out = metrics.over_seeds([0.7, 0.72, 0.74])
    assert (out.mean, out.n) == (pytest.approx(0.72), 3)
    assert out.sd == pytest.approx(np.std([0.7, 0.72, 0.74]))
    assert out.low < 0.72 < out.high


def test_one_seed_has_no_interval_and_none_is_an_error():
    assert np.isnan(metrics.over_seeds([0.5]).low)
    with pytest.raises(InputError, match="undefined"):
        metrics.over_seeds([float("nan")])


@pytest.mark.slow
def test_pair_bootstrap_covers_the_true_auc():
    """Normal scores one apart: AUC = Phi(1/sqrt 2) = 0.760; 95 % intervals must cover it in most of 60 samples.

    With true coverage 0.95 fewer than 50 hits of 60 have probability 3e-4; the seed is fixed.
    """
    rng = np.random.default_rng(3)
    truth = np.arange(300) < 150
    hits = 0
    for k in range(60):
        out = metrics.bootstrap(rng.normal(size=300) + truth, truth, draws=120, seed=k)["auc"]
        hits += out.low <= 0.7602 <= out.high
    assert hits >= 50


def test_node_bootstrap_is_wider_when_one_node_decides():
    """All pairs of five hub nodes score high and are edges: the pairs are not independent."""
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(40, 1)
    good = rng.normal(size=40) > 0.3
    truth = rng.random(len(i)) < 0.3
    scores = np.where(good[i] & good[j], truth, rng.random(len(i))) + 0.01 * rng.random(len(i))
    by_pair = metrics.bootstrap(scores, truth, seed=1)["auc"]
    by_node = metrics.bootstrap(scores, truth, np.stack([i, j]), seed=1)["auc"]
    assert by_node.high - by_node.low > by_pair.high - by_pair.low
    assert by_node.mean == by_pair.mean


def test_bootstrap_is_reproducible_and_checks_its_input():
    scores, truth = [0.1, 0.4, 0.3, 0.9], [False, True, False, True]
    assert metrics.bootstrap(scores, truth, seed=5) == metrics.bootstrap(scores, truth, seed=5)
    with pytest.raises(InputError, match="draws"):
        metrics.bootstrap(scores, truth, draws=1)
    with pytest.raises(InputError, match=r"\[2, 4\]"):
        metrics.bootstrap(scores, truth, pairs=[[0, 1]])
