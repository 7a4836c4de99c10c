"""The choice between counts and pairs: public facts and one paid number, and what that costs."""

from __future__ import annotations

import numpy as np
import pytest
from test_counts import SHORT, blocks

import edgeveil as ev
from edgeveil.defences.trial import trial_job
from edgeveil.defences.veil.choice import Veil, hears_pairs
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph

pytestmark = pytest.mark.usefixtures("short_read_outs")


def test_pairs_are_heard_where_most_of_them_are_edges() -> None:
    """Cora's size: 3.7 million pairs lie 1,229 times at epsilon 8 and 65,922 times at 4, against 5,278 edges."""
    assert hears_pairs(2708, 5278, 8.0) and not hears_pairs(2708, 5278, 4.0)
    assert not hears_pairs(2708, 0, 8.0) and not hears_pairs(2708, -50, 8.0)
    assert not hears_pairs(10**6, 5 * 10**6, 1.0), "too many to be drawn"


@pytest.mark.parametrize(("epsilon", "chosen"), [(1.0, "VeilCounts"), (9.0, "VeilRR")])
def test_one_query_is_made_and_the_count_is_paid(epsilon: float, chosen: str) -> None:
    release = ev.defend(blocks(), "veil", epsilon=epsilon, seed=0, train=SHORT)
    assert chosen in release.notes[-1] and release.guarantee.epsilon == epsilon and release.defence == "veil"
    assert [float(c.epsilon or 0) for c in release.guarantee.charges] == pytest.approx([0.02 * epsilon, 0.98 * epsilon])


def test_the_count_has_sensitivity_one_and_the_stated_noise() -> None:
    """Mean absolute noise of 2,000 draws; its standard error is 2.3 %."""
    empty = Graph.from_edges(np.empty((2, 0), np.int64), num_nodes=9)
    veil = Veil(epsilon=5.0, count_share=0.1)
    drawn = [veil.noisy_count(trial_job(empty, seed)) for seed in range(2000)]
    q = np.exp(-0.5)
    assert np.abs(drawn).mean() == pytest.approx(2 * q / (1 - q * q), rel=0.12)


def test_two_graphs_state_what_both_pay() -> None:
    release = ev.defend(blocks(0), "veil", epsilon=2.0, seed=0, inference_graph=blocks(1), train=SHORT)
    assert release.guarantee.epsilon == pytest.approx(2 * 1.96 + 0.04)


def test_bad_shares_are_refused() -> None:
    for bad in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="count_share"):
            Veil(epsilon=1.0, count_share=bad)
