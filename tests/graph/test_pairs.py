"""Pair ranking is exact at every size, and sampled non-edges are uniform."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from edgeveil.errors import InputError
from edgeveil.graph import pairs
from edgeveil.seeds import stream

FALSE_ALARM = 1e-6  # of every statistical test here


@pytest.mark.parametrize("n", [2, 3, 4, 7, 12])
def test_ranks_are_lexicographic_order(n: int) -> None:
    u, v = np.array(list(itertools.combinations(range(n), 2)), np.int64).T
    assert pairs.rank(u, v, n).tolist() == list(range(pairs.num_pairs(n)))
    got = pairs.unrank(np.arange(pairs.num_pairs(n)), n)
    assert np.array_equal(got[0], u) and np.array_equal(got[1], v)


@given(st.data())
def test_rank_and_unrank_invert_each_other_up_to_two_to_the_32(data: st.DataObject) -> None:
    n = data.draw(st.one_of(st.integers(2, 1000), st.integers(2, pairs.MAX_NODES)))
    u = data.draw(st.integers(0, n - 2))
    v = data.draw(st.integers(u + 1, n - 1))
    expected = u * n - u * (u + 1) // 2 + v - u - 1  # in Python's unbounded integers
    assert int(pairs.rank(np.array([u]), np.array([v]), n)[0]) == expected
    r = data.draw(st.integers(0, n * (n - 1) // 2 - 1))
    a, b = pairs.unrank(np.array([r]), n)
    assert 0 <= a[0] < b[0] < n
    assert int(pairs.rank(a, b, n)[0]) == r


@pytest.mark.parametrize("n", [2**32, 2**32 - 1, 3_037_000_500, 2**31 + 1, 94_906_267])
def test_the_corners_of_large_triangles(n: int) -> None:
    total = pairs.num_pairs(n)
    ranks = np.array([0, 1, n - 2, n - 1, total // 2, total - 2, total - 1], np.int64)
    u, v = pairs.unrank(ranks, n)
    assert np.array_equal(pairs.rank(u, v, n), ranks)
    assert (int(u[-1]), int(v[-1])) == (n - 2, n - 1)


def test_impossible_pairs_are_refused() -> None:
    with pytest.raises(InputError, match="0 <= u < v < 5"):
        pairs.rank(np.array([3]), np.array([3]), 5)
    with pytest.raises(InputError, match=r"\[0, 10\)"):
        pairs.unrank(np.array([10]), 5)
    with pytest.raises(InputError, match="4294967297 nodes"):
        pairs.num_pairs(2**32 + 1)
    with pytest.raises(InputError, match="11 distinct values out of 10"):
        pairs.sample_distinct(10, 11, stream(0, "t"))


@given(st.sets(st.integers(0, 60), max_size=40), st.integers(0, 50))
def test_nth_missing_counts_what_is_absent(present: set[int], index: int) -> None:
    absent = [i for i in range(200) if i not in present]
    got = pairs.nth_missing(np.array([index]), np.array(sorted(present), np.int64))
    assert got.tolist() == [absent[index]]


@given(st.integers(1, 300), st.data())
def test_sample_distinct_gives_sorted_distinct_values(high: int, data: st.DataObject) -> None:
    m = data.draw(st.integers(0, high))
    got = pairs.sample_distinct(high, m, stream(data.draw(st.integers(0, 9)), "t"))
    assert len(got) == m and (np.diff(got) > 0).all()
    assert not m or (got[0] >= 0 and got[-1] < high)


@given(st.integers(3, 12), st.data())
def test_non_edges_avoid_every_edge(n: int, data: st.DataObject) -> None:
    total = pairs.num_pairs(n)
    edges = np.array(sorted(data.draw(st.sets(st.integers(0, total - 1), max_size=total))), np.int64)
    m = data.draw(st.integers(0, total - len(edges)))
    got = pairs.sample_non_edges(n, edges, m, stream(1, "t"))
    assert len(np.unique(got)) == m and not np.isin(got, edges).any()
    with pytest.raises(InputError, match=f"only {total - len(edges)}"):
        pairs.sample_non_edges(n, edges, total - len(edges) + 1, stream(1, "t"))


@pytest.mark.parametrize("m", [1, 4, 9])
def test_non_edges_are_uniform(m: int) -> None:
    """Chi-square on how often each of 11 free pairs of 6 nodes is chosen; false-alarm rate 1e-6 per size."""
    n, edges, rounds = 6, np.array([1, 5, 9, 14], np.int64), 6000
    rng = stream(7, "uniform", m)
    counts = np.zeros(pairs.num_pairs(n))
    for _ in range(rounds):
        counts[pairs.sample_non_edges(n, edges, m, rng)] += 1
    assert counts[edges].sum() == 0
    free = np.delete(counts, edges)
    share = m / len(free)
    # Each draw has a fixed size, so the counts' covariance is that of sampling without replacement.
    statistic = ((free - rounds * share) ** 2).sum() / (rounds * share * (1 - share)) * (len(free) - 1) / len(free)
    assert statistic < chi2.isf(FALSE_ALARM, len(free) - 1)


def test_every_pair_of_non_edges_is_equally_likely() -> None:
    """Joint uniformity: the 45 two-subsets of 10 free pairs; false-alarm rate 1e-6."""
    rng, rounds = stream(3, "joint"), 9000
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(rounds):
        key = tuple(pairs.sample_non_edges(5, np.empty(0, np.int64), 2, rng).tolist())
        seen[key] = seen.get(key, 0) + 1
    expected = rounds / 45
    statistic = sum((count - expected) ** 2 / expected for count in seen.values())
    assert len(seen) == 45 and statistic < chi2.isf(FALSE_ALARM, 44)
