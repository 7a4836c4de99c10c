"""Sparse adjacency algebra on scipy CSR: normalisations, neighbourhoods, symmetry. No dense n x n anywhere.

Convention: row i of an adjacency lists the nodes whose messages node i aggregates. It may be directed; D is then
the diagonal of row sums on both sides, as in PyTorch Geometric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import GraphError, UnknownNameError

__all__ = ["NORMALISATIONS", "check_adjacency", "is_symmetric", "k_hop", "normalise", "submatrix"]

CSR = Any  # scipy ships no types


def check_adjacency(adjacency: Any) -> CSR:
    """A square CSR matrix with sorted distinct columns; the caller's matrix is never changed."""
    a = adjacency if sp.issparse(adjacency) and adjacency.format == "csr" else sp.csr_matrix(adjacency)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise GraphError(
            f"an adjacency must be square, got shape {tuple(a.shape)}; rows and columns are the same nodes"
        )
    if not a.has_canonical_format:
        a = a.copy()
        a.sum_duplicates()
    return a


def is_symmetric(a: CSR) -> bool:
    """Exact equality with the transpose, values included."""
    t = a.T.tocsr()
    same = np.array_equal(a.indptr, t.indptr) and np.array_equal(a.indices, t.indices)
    return bool(same and np.array_equal(a.data, t.data))


def _degrees(a: CSR) -> NDArray[np.float64]:
    return np.asarray(a.sum(axis=1), np.float64).ravel()


def _power(d: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """d**exponent with 0 for isolated nodes."""
    out = np.zeros_like(d)
    np.power(d, exponent, out=out, where=d > 0)
    return out


def _scaled(a: CSR, left: NDArray[np.float64], right: NDArray[np.float64] | None = None) -> CSR:
    """diag(left) A diag(right) without touching the pattern."""
    data = a.data.astype(np.float64) * np.repeat(left, np.diff(a.indptr))
    if right is not None:
        data *= right[a.indices]
    return sp.csr_matrix((data, a.indices.copy(), a.indptr.copy()), shape=a.shape)


def _with_loops(a: CSR) -> CSR:
    """A + I with exactly one unit loop per node, whatever loops A had."""
    own = sp.diags(1.0 - a.diagonal().astype(np.float64), format="csr")
    out = (a.astype(np.float64) + own).tocsr()
    out.sum_duplicates()
    return out


def _sym(a: CSR) -> CSR:
    root = _power(_degrees(a), -0.5)
    return _scaled(a, root, root)


def _identity(a: CSR) -> CSR:
    return sp.identity(a.shape[0], dtype=np.float64, format="csr")


def _first_order(a: CSR) -> CSR:
    return (_identity(a) + _sym(a)).tocsr()


def _aug(a: CSR) -> CSR:
    return _sym(_with_loops(a))


def _bingge(a: CSR) -> CSR:
    return (_identity(a) + _aug(a)).tocsr()


def _aug_rwalk(a: CSR) -> CSR:
    loops = _with_loops(a)
    return _scaled(loops, _power(_degrees(loops), -1.0))


def _mean(a: CSR) -> CSR:
    return _scaled(a, _power(_degrees(a), -1.0))


def _sum(a: CSR) -> CSR:
    return a.astype(np.float64)


NORMALISATIONS: dict[str, Callable[[CSR], CSR]] = {
    "first-order": _first_order,
    "aug": _aug,
    "bingge": _bingge,
    "aug-rwalk": _aug_rwalk,
    "sym": _sym,
    "mean": _mean,
    "sum": _sum,
}
"""LinkTeller App. F3: first-order = I + D^-1/2 A D^-1/2 (Eq. 7, D the degrees of A, isolated nodes 0),
aug = (D+I)^-1/2 (A+I) (D+I)^-1/2 (Eq. 8), bingge = I + aug (Eq. 9), aug-rwalk = (D+I)^-1 (A+I) (Eq. 10).
Further: sym = D^-1/2 A D^-1/2 (KProp), mean = D^-1 A (GraphSAGE), sum = A (GraphConv)."""


def normalise(adjacency: Any, kind: str) -> CSR:
    """The propagation matrix of the named kind, float64 CSR with sorted columns."""
    if kind not in NORMALISATIONS:
        raise UnknownNameError("normalisation", kind, NORMALISATIONS)
    out = NORMALISATIONS[kind](check_adjacency(adjacency))
    out.sort_indices()
    return out


def submatrix(a: CSR, nodes: NDArray[Any]) -> CSR:
    """The adjacency induced by `nodes`, in their order."""
    return a[nodes][:, nodes].tocsr()


def k_hop(adjacency: Any, nodes: Any, hops: int, *, direction: str = "in") -> NDArray[np.int64]:
    """Sorted ids within `hops` steps of `nodes`, themselves included.

    "in": whose features can reach the outputs of `nodes`; "out": whose outputs the features of `nodes` can reach.
    """
    if direction not in ("in", "out"):
        raise UnknownNameError("direction", direction, ("in", "out"))
    a = check_adjacency(adjacency)
    if direction == "out":
        a = a.T.tocsr()
    seen = np.zeros(a.shape[0], dtype=bool)
    frontier = np.unique(np.asarray(nodes, np.int64))
    seen[frontier] = True
    for _ in range(hops):
        reached = np.unique(a[frontier].indices)
        frontier = reached[~seen[reached]]
        if not len(frontier):
            break
        seen[frontier] = True
    return np.flatnonzero(seen)
