"""Graphs with 10^8 edges and more: built, searched and multiplied through their upper triangle alone.

Nothing here makes an int64 array as long as the edge list: edges arrive as sorted chunks of pair ranks and are kept as
32-bit columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.graph.graph import Graph

__all__ = ["CHUNK", "UpperBuilder", "degrees", "edge_ranks", "has_pairs", "propagate", "row_starts"]

Int = NDArray[np.int64]
CHUNK = 1 << 22


def row_starts(n: int) -> Int:
    """Rank of the first pair of every row u, and the number of pairs at the end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.arange(n - 1, -1, -1, dtype=np.int64))])


class UpperBuilder:
    """Collects strictly increasing pair ranks chunk by chunk and ends as an upper triangle in CSR form."""

    def __init__(self, n: int) -> None:
        self._starts = row_starts(n)
        self._counts = np.zeros(n, np.int64)
        self._columns: list[NDArray[Any]] = []
        self._dtype = np.int32 if n <= np.iinfo(np.int32).max else np.int64

    def add(self, ranks: Int) -> None:
        """Append sorted ranks, all larger than those before."""
        for at in range(0, len(ranks), CHUNK):
            self._add(ranks[at : at + CHUNK])

    def _add(self, ranks: Int) -> None:
        first, last = np.searchsorted(self._starts, ranks[[0, -1]], side="right") - 1
        rows = slice(int(first), int(last) + 1)
        counts = np.diff(np.searchsorted(ranks, self._starts[first : last + 2]))
        shift = self._starts[rows] - np.arange(first, last + 1) - 1
        self._columns.append((ranks - np.repeat(shift, counts)).astype(self._dtype))
        self._counts[rows] += counts

    def finish(self) -> tuple[Int, NDArray[Any]]:
        """Row starts and columns."""
        indptr = np.zeros(len(self._counts) + 1, np.int64)
        np.cumsum(self._counts, out=indptr[1:])
        columns = np.concatenate(self._columns) if self._columns else np.empty(0, self._dtype)
        self._columns = []
        return indptr, columns


def edge_ranks(graph: Graph) -> Int:
    """Sorted pair ranks of the edges, like `Graph.edge_ranks` but straight from the rows and not kept."""
    shift = row_starts(graph.num_nodes)[:-1] - np.arange(graph.num_nodes) - 1
    out: Int = np.repeat(shift, np.diff(graph.indptr))
    out += graph.indices
    return out


def has_pairs(graph: Graph, u: Any, v: Any) -> NDArray[np.bool_]:
    """Which pairs u < v are edges, by bisection inside the row; unlike `Graph.has_edges` it needs no rank array."""
    lo, hi = graph.indptr[np.asarray(u)], graph.indptr[np.asarray(u) + 1]
    end, v = hi.copy(), np.asarray(v)
    while (open_ := lo < hi).any():
        middle = (lo + hi) // 2
        right = open_ & (graph.indices[np.minimum(middle, max(graph.num_edges - 1, 0))] < v)
        lo, hi = np.where(right, middle + 1, lo), np.where(open_ & ~right, middle, hi)
    found: NDArray[np.bool_] = lo < end
    found[found] = graph.indices[lo[found]] == v[found]
    return found


def _row_blocks(graph: Graph) -> Iterator[tuple[slice, Int, NDArray[Any]]]:
    """Blocks of rows of about `CHUNK` edges: the rows, their local row starts, their columns."""
    start = 0
    while start < graph.num_nodes:
        stop = int(np.searchsorted(graph.indptr, graph.indptr[start] + CHUNK, side="right")) - 1
        stop = min(max(stop, start + 1), graph.num_nodes)
        low, high = int(graph.indptr[start]), int(graph.indptr[stop])
        yield slice(start, stop), graph.indptr[start : stop + 1] - low, graph.indices[low:high]
        start = stop


def degrees(graph: Graph) -> Int:
    """Number of neighbours of every node, like `Graph.degrees` but block by block."""
    out: Int = np.diff(graph.indptr)
    for _, _, columns in _row_blocks(graph):
        out += np.bincount(columns, minlength=graph.num_nodes)
    return out


def propagate(graph: Graph, x: NDArray[Any]) -> NDArray[Any]:
    """A @ x for the symmetric adjacency A, from the upper triangle U alone: U x + U' x."""
    out = np.zeros_like(x)
    for rows, indptr, columns in _row_blocks(graph):
        size, ones = len(indptr) - 1, np.ones(len(columns), x.dtype)
        out[rows] += sp.csr_matrix((ones, columns, indptr), shape=(size, graph.num_nodes)) @ x
        out += sp.csc_matrix((ones, columns, indptr), shape=(graph.num_nodes, size)) @ x[rows]
    return out
