"""Questions that do not disturb each other: several nodes' features moved in one pass of a model at hand.

In a model of L layers a node hears who is within L hops. A pass that moves many rows therefore answers, about a
listener whom only one of them reaches, what a pass that moves that row alone would answer, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Apart"]

Int = NDArray[np.int64]
_AT_ONCE = 2000  # questions sorted into passes together: a dense matrix of conflicts


class Apart:
    """`ask(rows, nodes)` answers about all nodes when these rows are replaced, counted as one question per node."""

    def __init__(self, adjacency: Any, hops: int, ask: Callable[[Any, Int], NDArray[Any]]) -> None:
        self._adjacency, self._hops, self.ask = adjacency, hops, ask

    def passes(self, nodes: Int, listeners: Sequence[Int]) -> Iterator[Int]:
        """Places in `nodes`, pass by pass: no listener of a node is within reach of another node of its pass."""
        for at in range(0, len(nodes), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            colour = _coloured(self._conflicts(nodes[part], listeners[part]))
            yield from (at + np.flatnonzero(colour == c) for c in range(int(colour.max()) + 1))

    def _conflicts(self, nodes: Int, listeners: Sequence[Int]) -> NDArray[np.bool_]:
        everyone, place = np.unique(np.concatenate(listeners), return_inverse=True)
        heard = self._heard(everyone)[:, nodes]
        start = np.concatenate([[0], np.cumsum([len(own) for own in listeners])])
        own = sp.csr_matrix((np.ones(len(place), np.int32), place.ravel(), start), shape=(len(nodes), len(everyone)))
        hit: NDArray[np.bool_] = (own @ heard).toarray() > 0
        hit |= hit.T
        np.fill_diagonal(hit, False)
        return hit

    def _heard(self, listeners: Int) -> Any:
        """Row i: whom the i-th listener hears, itself included."""
        n = self._adjacency.shape[0]
        a, count = self._adjacency, len(listeners)
        near = sp.csr_matrix((np.ones(a.nnz, np.int32), a.indices, a.indptr), shape=(n, n))
        out = sp.csr_matrix((np.ones(count, np.int32), (np.arange(count), listeners)), shape=(count, n))
        for _ in range(self._hops):
            out = (out + out @ near).tocsr()
            out.data[:] = 1
        return out.tocsc()


def _coloured(conflicts: NDArray[np.bool_]) -> Int:
    """First fit, nodes with many conflicts first."""
    colour = np.full(len(conflicts), -1, np.int64)
    for at in np.argsort(-conflicts.sum(1), kind="stable"):
        taken = np.unique(colour[conflicts[at]])
        taken = taken[taken >= 0]
        gap = np.flatnonzero(taken != np.arange(len(taken)))
        colour[at] = gap[0] if len(gap) else len(taken)
    return colour
