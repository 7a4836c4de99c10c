from __future__ import annotations

import math

import numpy as np
import pytest

from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.privacy.canaries import audit_scores, by_rank, make_guesses, plant, synthetic_graph


def test_canaries_are_disjoint_non_edges_inserted_by_coin() -> None:
    base = synthetic_graph(400, 800, seed=1)
    planted = plant(base, 150, np.random.default_rng(0))
    u, v = planted.pairs
    assert (u < v).all() and len(np.unique(planted.pairs)) == 300
    assert not base.has_edges(u, v).any()
    assert (planted.graph.has_edges(u, v) == planted.coins).all()
    assert planted.graph.num_edges == base.num_edges + planted.coins.sum()
    assert planted.graph.has_edges(*base.edge_index).all()
    assert 40 < planted.coins.sum() < 110


def test_too_many_canaries_are_refused() -> None:
    full = Graph.from_edges(np.array(np.triu_indices(10, 1)), num_nodes=10)
    with pytest.raises(InputError, match="0 vertex-disjoint"):
        plant(full, 2, np.random.default_rng(0))


def test_guesses_take_the_strongest_scores_and_abstain_at_zero() -> None:
    rng = np.random.default_rng(0)
    assert make_guesses([3.0, -5.0, 0.0, 1.0, -0.5], 3, rng).tolist() == [1, -1, 0, 1, 0]
    assert make_guesses([0.0, 0.0, 2.0], 3, rng).tolist() == [0, 0, 1]
    with pytest.raises(InputError, match="finite"):
        make_guesses([math.nan], 1, rng)


def test_tied_scores_are_guessed_in_random_order() -> None:
    picks = [np.flatnonzero(make_guesses(np.ones(4), 1, np.random.default_rng(i)))[0] for i in range(400)]
    assert np.bincount(picks, minlength=4).min() > 50


def test_ranks_are_centred_and_ties_share_theirs() -> None:
    assert by_rank([10.0, 30.0, 20.0, 40.0]).tolist() == [-1.5, 0.5, -0.5, 1.5]
    assert by_rank([0.0, 0.0, 0.0, 9.0]).tolist() == [-0.5, -0.5, -0.5, 1.5]
    assert by_rank([1.0, 1.0]).tolist() == [0.0, 0.0]


def test_counts_of_an_audit() -> None:
    coins = np.array([True, True, False, False])
    run = audit_scores([1.0, -1.0, -1.0, 0.0], coins, limit=4, miss=0.01, rng=np.random.default_rng(0))
    assert (run.canaries, run.guesses, run.right, run.lower_bound) == (4, 3, 2, 0.0)
    with pytest.raises(InputError, match="one score per canary"):
        audit_scores([1.0], coins, limit=4, miss=0.01, rng=np.random.default_rng(0))
