"""Ranking figures against scikit-learn (no ties) and against every tie-breaking order (brute force)."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import edgeveil.metrics as metrics
from edgeveil.errors import InputError
from edgeveil.metrics.ties import group
from tries import tries

small = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=2, max_size=6)


def orders(scores):
    """All orders that sort the scores, best first."""
    for p in permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in pairwise(p)):
            yield np.array(p)


def brute(scores, truth, figure):
    return float(np.mean([figure(truth[o]) for o in orders(scores)]))


def ap_of(ordered):
    ranks = np.flatnonzero(ordered) + 1
    return np.mean(np.arange(1, len(ranks) + 1) / ranks)


def tpr_of(ordered, fpr):
    allowed = int(np.floor(fpr * (~ordered).sum() + 1e-9))
    false = np.cumsum(~ordered)
    return (ordered & (false <= allowed)).sum() / ordered.sum()


@settings(max_examples=tries(60), deadline=None)
@given(small, st.floats(0, 1))
def test_every_figure_is_the_mean_over_all_tie_breaks(items, fpr):
    scores = np.array([s for s, _ in items], float)
    truth = np.array([t for _, t in items])
    if truth.all() or not truth.any():
        return
    g = group(scores, truth)
    assert g.average_precision() == pytest.approx(brute(scores, truth, ap_of))
    assert g.tpr_at_fpr(fpr) == pytest.approx(brute(scores, truth, lambda o: tpr_of(o, fpr)))
    for k in range(1, len(truth) + 1):
        assert g.hits(k) == pytest.approx(brute(scores, truth, lambda o, k=k: o[:k].sum()))
    assert g.auc() == pytest.approx(roc_auc_score(truth, scores))


def test_agrees_with_scikit_learn_without_ties(rng=None):
    rng = np.random.default_rng(0)
    truth = rng.random(3000) < 0.05
    scores = rng.normal(size=3000) + truth
    out = metrics.ranking(scores, truth)
    assert out["auc"] == pytest.approx(roc_auc_score(truth, scores))
    assert out["average_precision"] == pytest.approx(average_precision_score(truth, scores))
    false = np.sort(scores[~truth])[::-1]
    allowed = int(0.01 * (~truth).sum())
    assert out["tpr_at_fpr_01"] == pytest.approx((scores[truth] > false[allowed]).mean())


def test_a_constant_score_is_worth_a_random_one():
    truth = np.arange(1000) < 100
    flat = metrics.ranking(np.zeros(1000), truth)
    rng = np.random.default_rng(0)
    tossed = [metrics.ranking(rng.random(1000), truth) for _ in range(400)]
    for name, value in flat.items():
        drawn = np.array([t[name] for t in tossed])
        assert abs(drawn.mean() - value) < 5 * drawn.std() / 20
    assert flat["auc"] == 0.5


def test_belief_is_never_rounded():
    scores, truth = np.arange(10)[::-1], np.array([1, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    half = metrics.at_belief(scores, truth, 0.25)
    assert half["precision"] == pytest.approx(1.5 / 2.5)
    assert half["recall"] == pytest.approx(0.75)
    assert half["f1"] == pytest.approx(2 * 1.5 / 4.5)


def test_unlisted_pairs_rank_last():
    rng = np.random.default_rng(1)
    scores, truth = np.concatenate([rng.random(50) + 0.1, np.zeros(450)]), rng.random(500) < 0.1
    rest = (int(truth[50:].sum()), int((~truth[50:]).sum()))
    assert metrics.ranking(scores[:50], truth[:50], rest) == pytest.approx(metrics.ranking(scores, truth))
    assert metrics.at_belief(scores[:50], truth[:50], 0.3, rest) == pytest.approx(metrics.at_belief(scores, truth, 0.3))


def test_large_counts_stay_accurate():
    """200 million unlisted pairs (all of PubMed) must not cost digits."""
    scores, truth = np.arange(1000)[::-1] + 1.0, np.ones(1000, bool)
    out = metrics.ranking(scores, truth, rest=(0, 200_000_000))
    assert out["auc"] == 1.0
    assert out["average_precision"] == pytest.approx(1.0, abs=1e-12)


def test_undefined_figures_are_nan_not_zero():
    out = metrics.ranking([1.0, 2.0], [False, False])
    assert all(np.isnan(v) for v in out.values())
    assert np.isnan(metrics.at_belief([1.0, 2.0], [False, False], 0.0)["precision"])


@pytest.mark.parametrize(
    ("scores", "truth", "words"),
    [([1.0], [True, False], "1 scores but 2"), ([np.nan], [True], "NaN"), ([1.0], [3], "0/1")],
)
def test_bad_input(scores, truth, words):
    with pytest.raises(InputError, match=words):
        metrics.ranking(scores, truth)


def test_belief_outside_its_range():
    with pytest.raises(InputError, match="0 to 1"):
        metrics.at_belief([1.0, 0.0], [True, False], 1.5)


def test_top_share_counts_a_flag_among_the_best():
    assert metrics.top_share([3, 2, 1, 0], [True, True, False, False], 2) == 1.0
    assert metrics.top_share([0, 0, 0, 0], [True, True, False, False], 2) == 0.5
