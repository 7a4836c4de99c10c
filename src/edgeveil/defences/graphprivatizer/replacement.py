"""Replacing neighbours by similar nodes: GraphPrivatizer Alg. 1-4 over all entries of all lists at once.

An entry is one place (v, u) of the adjacency: u in v's list. Its candidates are the neighbours w of u, v itself left
out, that are similar enough to u. Everything is arithmetic on CSR offsets: O(E) memory, no loop over entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.graph.sparse import check_adjacency
from edgeveil.privacy.kary import ragged_coins, ragged_uniform
from edgeveil.privacy.noise import Noise

__all__ = ["Candidates", "Lists", "Strategy", "draw", "most_similar", "overwrite", "published_candidates", "threshold"]

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Strategy = Literal["most-similar", "threshold"]
_ROUNDING = 1e-9  # a cosine of equal vectors misses 1 by the last bits


class Lists:
    """The neighbour lists of a symmetric graph, entry by entry, with the place of every entry's mirror image."""

    def __init__(self, adjacency: Any) -> None:
        a = check_adjacency(adjacency)
        self.shape: tuple[int, int] = a.shape
        self.indptr = a.indptr.astype(np.int64)
        self.column = a.indices.astype(np.int64)
        self.degree: Int = np.diff(self.indptr)
        self.row: Int = np.repeat(np.arange(a.shape[0]), self.degree)

    def __len__(self) -> int:
        return len(self.column)

    @cached_property
    def mirror(self) -> Int:
        """Place of (u, v) for every entry (v, u)."""
        places = sp.csr_matrix((np.arange(1, len(self) + 1), self.column, self.indptr), shape=self.shape)
        out: Int = places.T.tocsr().data.astype(np.int64) - 1
        return out

    def both_ways(self, upper: NDArray[np.float64]) -> NDArray[np.float64]:
        """A number per edge (u < v, sorted) as a number per entry."""
        out = np.empty(len(self))
        first = np.flatnonzero(self.row < self.column)
        out[first] = upper
        out[self.mirror[first]] = upper
        return out

    def keys(self, row: Int, column: Int) -> Int:
        """One integer per place of the matrix, increasing along rows."""
        return row * np.int64(self.shape[1]) + column


@dataclass(frozen=True, eq=False)
class Candidates:
    """For each entry: how many nodes may replace it, and where in a common pool they are.

    Entry e is replaced by pool[start[e] + k], k in 0..count[e]-1, where k skips position skip[e] (-1: skips nothing).
    """

    pool: Int
    start: Int
    count: Int
    skip: Int


def _passing(lists: Lists, passes: Bool) -> tuple[Int, Int, Int]:
    """Pool of passing columns, its start per node, and each entry's position among the passing ones of its row."""
    before = np.concatenate([[0], np.cumsum(passes)])
    start = before[lists.indptr[:-1]]
    return lists.column[passes], start, before[:-1] - start[lists.row]


def threshold(lists: Lists, similarity: NDArray[np.float64], delta: float) -> Candidates:
    """Alg. 4: all neighbours w of u with s(u, w) >= delta, except v."""
    passes = similarity >= delta - _ROUNDING
    pool, start, position = _passing(lists, passes)
    size = np.bincount(lists.row[passes], minlength=lists.shape[0])
    own = passes[lists.mirror]
    skip = np.where(own, position[lists.mirror], -1)
    return Candidates(pool, start[lists.column], size[lists.column] - own, skip)


def most_similar(lists: Lists, similarity: NDArray[np.float64], delta: float) -> Candidates:
    """Alg. 3: the neighbour of u, other than v, most similar to u, if it reaches delta.

    The lowest id wins a tie, and a tie is exact equality of floats: similarities equal on paper may differ in the
    last bits, and then those bits decide.
    """
    order = np.lexsort((lists.column, -similarity, lists.row))
    best, second = _leaders(lists, order, 0), _leaders(lists, order, 1)
    first = best[lists.column]
    chosen = np.where(first == lists.mirror, second[lists.column], first)
    passes = (chosen >= 0) & (similarity[chosen] >= delta - _ROUNDING)
    pool = lists.column[np.maximum(chosen, 0)] if len(lists) else lists.column
    return Candidates(pool, np.arange(len(lists)), passes.astype(np.int64), np.full(len(lists), -1))


def _leaders(lists: Lists, order: Int, place: int) -> Int:
    """The entry in the given place of every row's order; -1 where the row is shorter."""
    out = np.full(lists.shape[0], -1)
    long = lists.degree > place
    out[long] = order[lists.indptr[:-1][long] + place]
    return out


def published_candidates(lists: Lists, similarity: NDArray[np.float64], delta: float, strategy: Strategy) -> Candidates:
    """The candidates of the authors' code: strictly above delta, v not left out, none for neighbours of degree one.

    The code means to leave out v but uses its id as a position: for ids below the number of candidates another
    node is left out instead.
    """
    movable = lists.degree[lists.column] > 1
    if strategy == "most-similar":
        best = _leaders(lists, np.lexsort((lists.column, -similarity, lists.row)), 0)[lists.column]
        passes = movable & (similarity[best] > delta)
        return Candidates(lists.column[best], np.arange(len(lists)), passes.astype(np.int64), np.full(len(lists), -1))
    passes = similarity > delta
    pool, start, _ = _passing(lists, passes)
    size = np.bincount(lists.row[passes], minlength=lists.shape[0])[lists.column]
    slipped = lists.row < size
    count = np.where(movable, size - slipped, 0)
    return Candidates(pool, start[lists.column], count, np.where(slipped, lists.row, -1))


def draw(candidates: Candidates, column: Int, epsilon: Fraction, noise: Noise) -> Int:
    """Eq. 5 and 6: keep u with probability e^eps/(e^eps + d - 1), d = 1 + number of candidates, else any, uniformly."""
    out = column.copy()
    moved = np.flatnonzero(~ragged_coins(noise, epsilon, candidates.count + 1))
    pick = ragged_uniform(noise, candidates.count[moved])
    skip = candidates.skip[moved]
    pick += (skip >= 0) & (pick >= skip)
    out[moved] = candidates.pool[candidates.start[moved] + pick]
    return out


def overwrite(lists: Lists, column: Int) -> tuple[Int, Int]:
    """The authors' way to write replacements into the matrix, row by row in place: kept places (row, column).

    Entry by entry the code clears (v, u) and sets (v, u'); a later turn of u' itself clears an earlier replacement.
    """
    keys = lists.keys(lists.row, column)
    order = np.argsort(keys, kind="stable")
    last = np.append(np.flatnonzero(np.diff(keys[order])), len(keys) - 1) if len(keys) else np.empty(0, np.int64)
    written, turn = keys[order][last], order[last]
    own = lists.keys(lists.row, lists.column)
    at = np.minimum(np.searchsorted(own, written), max(len(own) - 1, 0))
    stays = (own[at] != written) | (turn >= at)
    return np.divmod(written[stays], np.int64(lists.shape[1]))
