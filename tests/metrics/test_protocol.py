"""The papers' sampling: the authors' own subsets, rounding of the density, uniform pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import rank
from edgeveil.metrics import protocol


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(60, 1)
    keep = rng.random(len(i)) < 0.02 + 0.2 * (i < 10)
    return Graph.from_edges(np.stack([i[keep], j[keep]]), num_nodes=60)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.00451, 0.005),
        (0.0045, 0.005),
        (0.0035, 0.004),
        (5.61e-5, 6e-5),
        (0.0096, 0.01),
        (0.25, 0.3),
        (0.5, 0.5),
        (0.0, 0.0),
    ],
)
def test_density_rounds_half_up_to_one_digit(value, expected):
    assert protocol.round_density(value) == expected


@given(st.floats(1e-8, 1))
def test_rounding_is_close_and_idempotent(value):
    rounded = protocol.round_density(value)
    assert 0.66 * value < rounded < 1.51 * value
    assert protocol.round_density(rounded) == rounded


def test_subset_is_the_legacy_draw(graph):
    expected = np.random.RandomState(42).choice(60, 20, replace=False)
    assert np.array_equal(protocol.subset(graph, seed=42, size=20), expected)


def test_degree_classes(graph):
    low = protocol.subset(graph, "low", size=5, limits=(2, 6))
    high = protocol.subset(graph, "high", size=5, limits=(2, 6))
    assert (graph.degrees[low] <= 2).all() and (graph.degrees[high] >= 6).all()
    quartile = np.quantile(graph.degrees, 0.75)
    assert (graph.degrees[protocol.subset(graph, "high", size=5)] >= quartile).all()


def test_planetoid_degrees_count_the_self_loop(graph):
    nodes = protocol.candidates(graph._replace(origin="cora"), "low")
    np.testing.assert_array_equal(nodes, np.flatnonzero(graph.degrees + 1 <= 3))
    own = protocol.candidates(graph.named("cora"), "low")
    np.testing.assert_array_equal(own, protocol.candidates(graph, "low"))
    assert protocol.thresholds("twitch_PTBR").low == 10
    assert protocol.thresholds("cora-twin") == protocol.THRESHOLDS["cora"]


def test_subset_refuses_what_it_cannot_draw(graph):
    with pytest.raises(InputError, match="fewer than the 500"):
        protocol.subset(graph)
    with pytest.raises(UnknownNameError):
        protocol.subset(graph, "middle", size=3)


def test_belief_figures_predict_the_ceiling_of_the_rounded_density():
    """RU: 563 edges of 124,750 pairs -> belief 0.005 -> 624 predicted."""
    truth = np.arange(124750) < 563
    rows = protocol.belief_figures(-np.arange(124750.0), truth)
    assert rows["k"]["precision"] == pytest.approx(563 / 624)
    assert rows["k"]["recall"] == 1.0
    assert rows["k/4"]["recall"] == pytest.approx(156 / 563)
    assert rows["4k"]["precision"] == pytest.approx(563 / 2495)
    exact = protocol.belief_figures(-np.arange(124750.0), truth, rounded=False)
    assert exact["k"]["precision"] == 1.0


def test_uniform_pairs_are_distinct_and_right(graph):
    s = protocol.sampled_pairs(graph, 30, 40, seed=1)
    assert s.truth.sum() == 30 and len(s.truth) == 70
    assert np.array_equal(graph.has_edges(*s.pairs), s.truth)
    lo, hi = s.pairs.min(0), s.pairs.max(0)
    assert len(np.unique(rank(lo, hi, 60))) == 70
    assert np.array_equal(s.pairs, protocol.sampled_pairs(graph, 30, 40, seed=1).pairs)


def test_every_non_edge_is_equally_likely(graph):
    """Chi-square on 4,000 draws of one non-edge; false-alarm rate 0.1 %."""
    from scipy.stats import chisquare

    ranks = np.concatenate([rank(*protocol.sampled_pairs(graph, 0, 40, seed=k).pairs, 60) for k in range(400)])
    free = np.setdiff1d(np.arange(60 * 59 // 2), graph.edge_ranks)
    counts = np.bincount(np.searchsorted(free, ranks), minlength=len(free))
    assert chisquare(counts).pvalue > 1e-3


def test_published_sampling_weighs_edges_by_inverse_degree(graph):
    s = protocol.sampled_pairs(graph, 4000, 4000, seed=0, variant="published")
    assert np.array_equal(graph.has_edges(*s.pairs), s.truth)
    assert (s.pairs[0] == s.pairs[1]).sum() > 0
    chosen = s.pairs[:, s.truth]
    uniform = protocol.sampled_pairs(graph, 60, 0, seed=0).pairs
    assert graph.degrees[chosen].min(0).mean() < graph.degrees[uniform].min(0).mean()


def test_balanced_pairs_hold_all_edges(graph):
    s = protocol.balanced_pairs(graph, seed=3)
    assert s.truth.sum() == graph.num_edges == (~s.truth).sum()


def test_too_many_pairs(graph):
    with pytest.raises(InputError, match="ask for fewer"):
        protocol.sampled_pairs(graph, 10_000, 1)
    with pytest.raises(UnknownNameError):
        protocol.sampled_pairs(graph, 1, 1, variant="other")


@pytest.mark.data
def test_twitch_ru_subset_has_the_published_edge_count():
    from edgeveil.graph.datasets import load

    g = load("twitch-ru")
    nodes = protocol.subset(g, seed=42)
    i, j = np.triu_indices(500, 1)
    assert g.has_edges(nodes[i], nodes[j]).sum() == 563
