"""How many edges an open release gives away to the number of questions it allows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.release.predictors import GraphPredictor
from edgeveil.release.release import Release

__all__ = ["recoverable_edges"]


def recoverable_edges(release: Release, questions: int | None) -> tuple[int, int, int]:
    """Edges that `questions` cross-readings of every node recover, at least and at most, and all edges there are.

    Where all rows are alike a graph convolution is linear: a question that moves every row at random gives each node
    one number per class about its row of P^k, whose entries are the nodes within k hops; one question is the common
    base. At least: rows with twice as many numbers as entries, each solved by itself. At most: as many numbers as
    entries that are not known yet, where a solved row tells its entries to all others (P^k is symmetric in its
    pattern). That is where `flatroot` first succeeds: all of Cora with 27 questions (measured 27 to 40), of Citeseer
    with 20 (20 to 24). An edge is found from either end. None: no limit.
    """
    predictor = release.predictor
    if not isinstance(predictor, GraphPredictor):
        return 0, 0, 0
    closed = sp.csr_matrix(predictor.adjacency, dtype=np.int64)
    closed.setdiag(0)
    closed.eliminate_zeros()
    total = closed.nnz // 2
    if questions is None:
        return total, total, total
    reach = (closed + sp.identity(closed.shape[0], dtype=np.int64, format="csr")).sign()
    hops = reach
    for _ in range(max(0, predictor.spec.layers - 1)):
        hops = (hops @ reach).sign()
    numbers = release.num_classes * max(0, questions - 1)
    rows, columns = sp.triu(closed, 1).nonzero()
    entries = np.diff(sp.csr_matrix(hops).indptr)
    low, high = (int((s[rows] | s[columns]).sum()) for s in (2 * entries <= numbers, _peeled(hops, entries, numbers)))
    return low, high, total


def _peeled(hops: sp.csr_matrix, unknown: NDArray[np.int64], numbers: int) -> NDArray[np.bool_]:
    """Rows that are solved, one after the other, by `numbers` numbers about the entries that are unknown by then."""
    solved = np.zeros(len(unknown), dtype=bool)
    while (fresh := (unknown <= numbers) & ~solved).any():
        solved |= fresh
        unknown = unknown - hops @ fresh.astype(np.int64)
    return solved
