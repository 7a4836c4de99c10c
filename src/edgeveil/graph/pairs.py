"""Unordered node pairs as integers: exact ranking, unranking and uniform sampling without an n x n array.

The rank of u < v among n nodes is its place in lexicographic order, 0 .. n(n-1)/2 - 1, so sorted ranks are
sorted edges. Everything is exact in int64 for every n whose pair count fits in int64 (n <= 2^32).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError

__all__ = [
    "MAX_NODES",
    "UniformIntegers",
    "nth_missing",
    "num_pairs",
    "rank",
    "sample_distinct",
    "sample_non_edges",
    "unrank",
]

Int = NDArray[np.int64]
MAX_NODES = 2**32


class UniformIntegers(Protocol):
    """Anything that draws uniform integers; a NumPy generator does, and so does the secure source."""

    def integers(self, low: int, high: int, size: int, /) -> Any:
        """`size` integers uniform on [low, high)."""
        ...


def num_pairs(n: int) -> int:
    """Number of unordered pairs among n nodes."""
    if not 0 <= n <= MAX_NODES:
        raise InputError(f"{n} nodes: pairs are countable in 64 bits for 0 to {MAX_NODES} nodes only")
    return n * (n - 1) // 2


def _triangle(v: Int) -> Int:
    """v(v-1)/2 without an intermediate beyond int64."""
    even = (v & 1) == 0
    return np.where(even, v >> 1, v) * np.where(even, v - 1, (v - 1) >> 1)


def rank(u: Int, v: Int, n: int) -> Int:
    """Lexicographic rank of the pairs u < v."""
    total = num_pairs(n)
    u, v = np.asarray(u, np.int64), np.asarray(v, np.int64)
    if u.size and (u.min() < 0 or v.max() >= n or (u >= v).any()):
        raise InputError(f"pairs must satisfy 0 <= u < v < {n}; sort each pair and drop self-pairs first")
    # Mirrored, lexicographic order becomes colexicographic order, whose rank needs no square root to invert safely.
    return (total - 1) - (_triangle(n - 1 - u) + (n - 1 - v))


def unrank(ranks: Int, n: int) -> tuple[Int, Int]:
    """The pairs u < v of the given ranks."""
    total = num_pairs(n)
    ranks = np.asarray(ranks, np.int64)
    if ranks.size and (ranks.min() < 0 or ranks.max() >= total):
        raise InputError(f"pair ranks must lie in [0, {total}) for {n} nodes")
    mirrored = (total - 1) - ranks
    # float64 puts the root within one of the truth; the two corrections make it exact.
    hi = np.floor(np.sqrt(2.0 * mirrored.astype(np.float64))).astype(np.int64)
    hi += _triangle(hi + 1) <= mirrored
    hi -= _triangle(hi) > mirrored
    lo = mirrored - _triangle(hi)
    return n - 1 - hi, n - 1 - lo


def nth_missing(index: Int, present: Int) -> Int:
    """The index-th (from 0) non-negative integers that are absent from the sorted array `present`."""
    index = np.asarray(index, np.int64)
    return index + np.searchsorted(present - np.arange(len(present)), index, side="right")


def sample_distinct(high: int, m: int, rng: UniformIntegers) -> Int:
    """A uniform m-subset of range(high), sorted, in O(m log m) time and O(m) memory."""
    if not 0 <= m <= high:
        raise InputError(f"cannot draw {m} distinct values out of {high}")
    if m > high // 2:
        rest = sample_distinct(high, high - m, rng)
        keep = np.ones(high, dtype=bool)
        keep[rest] = False
        return np.flatnonzero(keep)
    if m < 32:  # the surplus removed below would not shrink
        few: set[int] = set()
        while len(few) < m:
            few.add(int(rng.integers(0, high, 1)[0]))
        return np.array(sorted(few), np.int64)
    found = np.empty(0, np.int64)
    while len(found) < m:
        missing = m - len(found)
        fresh = np.asarray(rng.integers(0, high, missing + missing // 8 + 16), np.int64)
        found = _distinct(np.concatenate([found, fresh]))
    surplus = len(found) - m
    if surplus:  # a uniform subset of a uniform set is uniform
        found = np.delete(found, sample_distinct(len(found), surplus, rng))
    return found


def _distinct(values: Int) -> Int:
    """Sorted distinct values; many times faster here than `numpy.unique`, which hashes."""
    values.sort()
    keep = np.ones(len(values), dtype=bool)
    keep[1:] = values[1:] != values[:-1]
    return values[keep]


def sample_non_edges(n: int, edge_ranks: Int, m: int, rng: UniformIntegers) -> Int:
    """Ranks of m distinct non-edges, uniform over all such sets, sorted; `edge_ranks` must be sorted."""
    free = num_pairs(n) - len(edge_ranks)
    if m > free:
        raise InputError(f"asked for {m} non-edges, but the graph has only {free}")
    return nth_missing(sample_distinct(free, m, rng), edge_ranks)
