"""gp-sound: the two-level response has the stated distribution and ratio, and the release says what it costs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgeveil as ev
from edgeveil.defences.graphprivatizer.buckets import choose_plan, embed, expected_likeness, k_means
from edgeveil.defences.graphprivatizer.gp_edge import EdgeBucketResponse
from edgeveil.defences.graphprivatizer.gp_sound import BucketResponse, response_matrix, two_level_response
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.privacy.ledger.units import cost_of
from edgeveil.privacy.noise import noise_for
from edgeveil.privacy.verify import Effort, verify
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")


@st.composite
def buckets(draw: st.DrawFn) -> np.ndarray:
    """Any partition of up to nine nodes, bucket sizes from 1 up."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    return np.repeat(np.arange(len(sizes)), sizes)


@given(buckets(), st.floats(0, 5), st.floats(0, 5))
def test_the_likelihood_ratio_never_exceeds_epsilon(bucket: np.ndarray, first: float, second: float) -> None:
    p = response_matrix(bucket, first, second)
    assert np.allclose(p.sum(axis=1), 1) and (p > 0).all()
    assert np.log((p[:, None, :] / p[None, :, :]).max()) <= first + second + 1e-9


@pytest.mark.parametrize("seed", [0, None])
def test_draws_follow_the_matrix(seed: int | None) -> None:
    """30,000 draws per node; five-sigma bands."""
    bucket, runs = np.array([1, 0, 1, 2, 1]), 30_000
    p = response_matrix(bucket, 0.7, 1.1)
    drawn = two_level_response(
        np.repeat(np.arange(5), runs), bucket, Fraction(7, 10), Fraction(11, 10), noise_for(seed)
    )
    share = np.stack([np.bincount(part, minlength=5) for part in drawn.reshape(5, runs)]) / runs
    assert (np.abs(share - p) < 5 * np.sqrt(p / runs)).all()


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_buckets_of_a_power_of_two_without_budget_for_the_member(size: int) -> None:
    """Such a member is kept with probability 1/2^k, whose digits the secure source once looked for without end."""
    bucket, runs = np.repeat([0, 1], size), 2000
    drawn = two_level_response(np.zeros(runs, np.int64), bucket, Fraction(2), Fraction(0), noise_for(None))
    p = response_matrix(bucket, 2.0, 0.0)[0]
    assert (np.abs(np.bincount(drawn, minlength=2 * size) / runs - p) < 5 * np.sqrt(p / runs)).all()


@pytest.mark.parametrize(
    ("epsilon", "share"),
    [
        pytest.param(1.0, None, marks=pytest.mark.slow),
        pytest.param(4.0, 0.5, marks=pytest.mark.slow),
        pytest.param(6.0, 0.25, marks=pytest.mark.slow),
    ],
)
def test_verify_finds_no_contradiction(epsilon: float, share: float | None) -> None:
    result = verify(BucketResponse(epsilon=epsilon, share=share), Effort(runs=20_000, canaries=50_000))
    assert result.verdict == "consistent" and result.lower_bound <= epsilon


def test_verify_would_catch_twice_the_budget() -> None:
    class Liar(BucketResponse):
        """Spends per entry what it claims per edge."""

        @property
        def per_entry(self) -> Fraction:
            return 2 * super().per_entry

        def mechanism_guarantee(self, seed: object = None) -> object:  # type: ignore[override]
            return BucketResponse(epsilon=self.epsilon).mechanism_guarantee(None)

    assert verify(Liar(epsilon=4.0), Effort(runs=20_000, canaries=1000)).verdict == "refuted"


def test_the_guarantee_states_both_units() -> None:
    claim = BucketResponse(epsilon=4.0).mechanism_guarantee(None)
    assert claim.epsilon is None and claim.claimed_epsilon == 4.0 and sum(c.epsilon for c in claim.charges) == 4
    assert claim.unit == BucketResponse.unit == "the two list entries of one edge, given the length of every list"
    assert "No epsilon for one undirected edge follows" in claim.statement()
    assert (claim.also[0].unit, claim.also[0].claimed_epsilon) == ("one entry of one node's neighbour list", 2.0)
    assert any("degree" in what for what in claim.not_protected) and "node features" in claim.not_protected
    private = BucketResponse(epsilon=4.0, epsilon_x=3.0, epsilon_y=3.0).mechanism_guarantee(None)
    assert "node features" not in private.not_protected and len(private.also) == 4


def test_a_ledger_counts_it_as_unbounded_and_the_edge_variant_by_its_epsilon() -> None:
    assert (
        "bounds nothing for one undirected edge" in cost_of(BucketResponse(epsilon=4.0).mechanism_guarantee()).unbounded
    )
    assert cost_of(EdgeBucketResponse(epsilon=4.0).mechanism_guarantee()).epsilon == 4


def test_buckets_never_read_an_edge() -> None:
    graph = toy()
    other = graph.with_edges(np.array([[0], [1]]))
    plans = [choose_plan(FeatureMatrix.wrap(g.x), 1.0) for g in (graph, other)]
    assert (plans[0].bucket == plans[1].bucket).all() and plans[0].share == plans[1].share


def test_k_means_separates_and_never_leaves_a_bucket_empty() -> None:
    x = np.repeat(np.eye(3), 20, axis=0) + 0.01 * np.random.default_rng(0).normal(size=(60, 3))
    bucket = k_means(embed(FeatureMatrix(x)), 3)
    assert len(np.unique(bucket.reshape(3, 20), axis=1).ravel()) == 3
    assert len(np.unique(k_means(np.zeros((10, 2)), 4))) == 4
    with pytest.raises(InputError, match="buckets"):
        k_means(np.zeros((3, 2)), 4)


def test_expected_likeness_is_the_mean_over_the_response() -> None:
    points = embed(FeatureMatrix(np.random.default_rng(1).normal(size=(12, 5))))
    bucket = np.repeat([0, 1, 2], 4)
    p = response_matrix(bucket, 1.0, 0.5)
    cosine = np.where(bucket[:, None] == bucket, points @ points.T, 0.0)
    assert math.isclose(
        expected_likeness(points, bucket, 1.0, 0.5), float((p * cosine).sum(axis=1).mean()), rel_tol=1e-9
    )


def test_small_budgets_go_to_the_bucket() -> None:
    x = FeatureMatrix(np.random.default_rng(2).normal(size=(400, 8)))
    assert choose_plan(x, 0.25).share == 1.0


def test_pruning_only_drops_entries_of_other_buckets() -> None:
    graph = toy(90)
    pruned = BucketResponse(epsilon=6.0, buckets=3).perturb(graph, seed=1)
    whole = BucketResponse(epsilon=6.0, buckets=3, prune=False).perturb(graph, seed=1)
    bucket = choose_plan(FeatureMatrix.wrap(graph.x), 3.0, 3).bucket
    rows, columns = whole.directed.nonzero()
    same = bucket[rows] == bucket[columns]
    assert pruned.directed.nnz == same.sum() and pruned.dropped["pruned"] > 0 == whole.dropped["pruned"]


def linked(edges: list[tuple[int, int]]) -> Graph:
    """Two groups of alike nodes: 0, 1, 2 and 3, 4, 5."""
    x = np.repeat(np.eye(2), 3, axis=0)
    return Graph.from_edges(np.array(edges).T, x=x, y=np.zeros(6, np.int64), num_classes=1)


@pytest.mark.parametrize(
    ("edges", "pruned"),
    [
        ([(0, 3), (1, 4), (2, 5)], 0),
        ([(0, 1), (1, 3), (3, 4), (4, 0)], 0),  # half of the entries in the own bucket: exactly 1/m
        ([(0, 1), (1, 3), (3, 4), (4, 5)], 2),
    ],
)
def test_nothing_is_pruned_unless_links_prefer_their_own_bucket(edges: list[tuple[int, int]], pruned: int) -> None:
    """At epsilon 200 an entry changes with probability below e^-48, so the noisy lists are the true ones."""
    graph = linked(edges)
    noisy = BucketResponse(epsilon=200.0, buckets=2, share=0.5).perturb(graph, seed=0)
    assert noisy.dropped["pruned"] == pruned and noisy.directed.nnz == 2 * len(edges) - pruned


def test_a_single_bucket_costs_nothing() -> None:
    """Nothing hides in a choice among one: the member gets all of epsilon, unless a share is given."""
    few, many = (FeatureMatrix(np.random.default_rng(0).normal(size=(n, 3))) for n in (7, 40))
    assert choose_plan(few, 1.0).share == 0.0 == choose_plan(many, 1.0, 1).share
    assert choose_plan(many, 1.0, 1, 0.5).share == 0.5
    assert all(choose_plan(many, epsilon).share > 0 for epsilon in (0.1, 1.0, 8.0))
    noisy = BucketResponse(epsilon=2.0, buckets=1).perturb(toy(), seed=0)
    assert noisy.dropped["share_percent"] == 0 == noisy.dropped["pruned"]


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"share": "0.5"}, "share .* '0.5'"),
        ({"share": math.nan}, "share"),
        ({"share": True}, "share"),
        ({"buckets": 2.5}, "buckets .* 2.5"),
        ({"buckets": "3"}, "buckets"),
        ({"buckets": True}, "buckets"),
    ],
)
def test_parameters_of_the_wrong_kind_are_named(bad: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        BucketResponse(epsilon=1.0, **bad)


def test_release_and_bad_parameters() -> None:
    release = ev.defend(toy(), "gp-sound", epsilon=8.0, seed=0)
    assert (
        release.guarantee.claimed_epsilon == 8.0
        and release.guarantee.epsilon is None
        and not release.contains_private_graph
    )
    noisy = BucketResponse(epsilon=2.0, buckets=3, share=0.5).perturb(toy(), seed=0)
    assert noisy.dropped["buckets"] == 3 and noisy.directed.diagonal().sum() == 0
    for bad in ({"epsilon": math.inf}, {"epsilon": 1.0, "share": 2.0}, {"epsilon": 1.0, "buckets": 0}):
        with pytest.raises(InputError):
            BucketResponse(**bad)
