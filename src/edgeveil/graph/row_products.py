"""Inner products of the rows of one matrix, for listed pairs of rows: cosines of features, common neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["row_products"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
_BLOCK = 512  # rows that are multiplied with all others at once
_CHUNK = 1 << 22  # entries of the rows that are gathered at once
_DENSE_BYTES = 1 << 29  # a sparse matrix may be filled in up to this size
_GATHER, _SPARSE, _DENSE, _FILL, _COPIED = 10.0, 3.0, 0.03, 5.0, 1.0
"""Nanoseconds per entry: gathered from sparse rows, multiplied sparse, multiplied dense, filled in, gathered from rows
that are dense."""


def row_products(rows: Any, u: Int, v: Int) -> Float:
    """rows[u] . rows[v] for every listed pair.

    Few pairs gather their rows; many pairs are read out of products of row blocks with the whole matrix.
    """
    n, width = rows.shape
    fill = float(n) * len(np.unique(u))
    if not sp.issparse(rows):
        many = _DENSE * fill < _COPIED * len(u)
        return _blocks(rows, rows.T, u, v) if many else _few(rows, u, v)
    each = np.diff(rows.indptr)
    gather = _GATHER * float(each[u].sum() + each[v].sum())
    sparse = _SPARSE * _multiplied(rows, np.unique(u)) + _FILL * fill
    dense = (_DENSE * fill + n) * width if 4 * n * width <= _DENSE_BYTES else np.inf
    if gather <= min(sparse, dense):
        return _few(rows, u, v)
    if dense <= sparse:
        filled = rows.astype(np.float32).toarray()
        return _blocks(filled, filled.T, u, v)
    return _blocks(rows, rows.T.tocsr(), u, v)


def _multiplied(rows: Any, chosen: Int) -> float:
    """Multiplications in the sparse product of the chosen rows with all rows."""
    columns = np.bincount(rows.indices, minlength=rows.shape[1])
    return float(columns[rows[chosen].indices].sum())


def _few(rows: Any, u: Int, v: Int) -> Float:
    out = np.empty(len(u))
    step = max(1, int(_CHUNK / max(rows.nnz / rows.shape[0] if sp.issparse(rows) else rows.shape[1], 1.0)))
    for at in range(0, len(u), step):
        first, second = rows[u[at : at + step]], rows[v[at : at + step]]
        if sp.issparse(rows):
            out[at : at + step] = np.asarray(first.multiply(second).sum(axis=1)).ravel()
        else:
            out[at : at + step] = np.einsum("ij,ij->i", first, second)
    return out


def _blocks(rows: Any, turned: Any, u: Int, v: Int) -> Float:
    starts, place = np.unique(u, return_inverse=True)
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(0, len(starts) + _BLOCK, _BLOCK))
    out = np.empty(len(u))
    for number, at in enumerate(range(0, len(starts), _BLOCK)):
        mine = order[bounds[number] : bounds[number + 1]]
        first = int(v[mine].min()) if sp.issparse(turned) else 0  # of pairs u < v, later rows need later columns only
        product = rows[starts[at : at + _BLOCK]] @ (turned[:, first:] if first else turned)
        filled = product.toarray() if sp.issparse(product) else product
        out[mine] = filled[place[mine] - at, v[mine] - first]
    return out
