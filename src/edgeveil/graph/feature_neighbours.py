"""A public stand-in for the private graph: every node joined to the nodes whose features resemble its own most.

Nothing here reads an edge, so the result costs no epsilon. Bags of words are weighed by rarity (TF-IDF) first; other
features are compared as they are. Exact in blocks up to `EXACT_NODES`; beyond that an inverted file of faiss on at most
`DIMENSIONS` directions.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError, MissingExtra
from edgeveil.graph.features import FeatureMatrix

__all__ = [
    "DIMENSIONS",
    "EXACT_NODES",
    "approximate_neighbours",
    "feature_neighbours",
    "leading_directions",
    "unit_rows",
]

EXACT_NODES = 20_000
DIMENSIONS = 64
PROBES = 16
RECENT = 6  # feature graphs that are kept for a next run with the same features
_BLOCK = 1024
_DENSE_COLUMNS = 4096  # below this a dense float32 product beats the sparse one on every graph that we measured
Float = NDArray[Any]
_RECENT: OrderedDict[tuple[Any, ...], sp.csr_matrix] = OrderedDict()


def feature_neighbours(x: Any, count: int = 15, *, exact: bool | None = None, seed: int = 0) -> sp.csr_matrix:
    """Symmetric CSR of cosine similarities: {u, v} is kept if either is among the other's `count` most similar nodes.

    Only positive similarities count, and no node is its own neighbour. `exact=None` decides by the number of nodes.
    The answer is read-only: it is given again, not computed again, for features of the same content.
    """
    if count < 1:
        raise InputError(f"a feature graph needs at least one neighbour per node, got {count}")
    name = (_digest(FeatureMatrix.wrap(x)), count, exact, seed)
    if name not in _RECENT:
        _RECENT[name] = _neighbours(x, count, exact, seed)
        for part in (_RECENT[name].data, _RECENT[name].indices, _RECENT[name].indptr):
            part.flags.writeable = False
    _RECENT.move_to_end(name)
    while len(_RECENT) > RECENT:
        _RECENT.popitem(last=False)
    return _RECENT[name]


def _digest(x: FeatureMatrix) -> str:
    """Of everything that feature rows are made of."""
    values = [x.values.data, x.values.indices, x.values.indptr] if x.is_sparse else [x.values]
    digest = hashlib.sha256(repr(x.shape).encode())
    for part in (*values, x.shift, x.nodes, x.replaced):
        if part is not None:
            digest.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _neighbours(x: Any, count: int, exact: bool | None, seed: int) -> sp.csr_matrix:
    rows = unit_rows(x)
    n = rows.shape[0]
    few = min(count, n - 1)
    if few < 1:
        return sp.csr_matrix((n, n), dtype=np.float64)
    chosen = n <= EXACT_NODES if exact is None else exact
    near, cosine = _exact(rows, few) if chosen else approximate_neighbours(rows, few, seed)
    source = np.repeat(np.arange(n), near.shape[1])
    keep = (cosine.ravel() > 0) & (near.ravel() >= 0) & (near.ravel() != source)
    values = np.minimum(cosine.ravel()[keep].astype(np.float64), 1.0)
    found = sp.csr_matrix((values, (source[keep], near.ravel()[keep])), shape=(n, n))
    return found.maximum(found.T).tocsr()


def unit_rows(x: Any) -> Any:
    """Feature rows of length one (zero rows stay zero), bags of words after TF-IDF."""
    matrix = FeatureMatrix.wrap(x)
    if not matrix.is_sparse:
        dense = np.asarray(matrix.toarray(), np.float32)
        length = np.linalg.norm(dense, axis=1, keepdims=True)
        return dense / np.where(length > 0, length, 1.0)
    values = matrix.values.astype(np.float64)
    if values.nnz and values.data.min() >= 0:
        seen = np.bincount(values.indices, minlength=values.shape[1])
        rarity = np.log((1 + values.shape[0]) / (1 + seen)) + 1
        values = sp.csr_matrix((values.data * rarity[values.indices], values.indices, values.indptr), values.shape)
    length = np.sqrt(np.asarray(values.multiply(values).sum(axis=1))).ravel()
    return (sp.diags(1 / np.where(length > 0, length, 1.0)) @ values).tocsr()


def _exact(rows: Any, count: int) -> tuple[Float, Float]:
    if sp.issparse(rows) and rows.shape[1] <= _DENSE_COLUMNS:
        rows = rows.astype(np.float32).toarray()
    columns = rows.T.tocsc() if sp.issparse(rows) else rows.T
    near, cosine = [], []
    for start in range(0, rows.shape[0], _BLOCK):
        part = rows[start : start + _BLOCK] @ columns
        part = part.toarray() if sp.issparse(part) else part
        part[np.arange(len(part)), start + np.arange(len(part))] = -np.inf
        best = np.argpartition(-part, count - 1, axis=1)[:, :count]
        near.append(best)
        cosine.append(np.take_along_axis(part, best, axis=1))
    return np.concatenate(near), np.concatenate(cosine)


def approximate_neighbours(rows: Any, count: int, seed: int) -> tuple[Float, Float]:
    """Cosines in the leading directions of the features; neighbours from the nearest cells of an inverted file."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtra(f"feature neighbours of more than {EXACT_NODES:,} nodes", "knn") from error
    dense = np.ascontiguousarray(leading_directions(rows, seed), np.float32)
    faiss.normalize_L2(dense)
    n, width = dense.shape
    cells = int(np.clip(4 * np.sqrt(n), 1, n // 40 + 1))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = seed % 2**31
    index.cp.min_points_per_centroid = 1
    sample = np.random.default_rng(seed).choice(n, min(n, 40 * cells), replace=False)
    index.train(dense[sample])
    index.add(dense)
    index.nprobe = min(PROBES, cells)
    cosine, near = index.search(dense, count + 1)
    return near, cosine


def leading_directions(rows: Any, seed: int) -> Float:
    """The rows in at most `DIMENSIONS` leading singular directions."""
    if rows.shape[1] <= DIMENSIONS:
        return np.asarray(rows.toarray() if sp.issparse(rows) else rows)
    from scipy.sparse.linalg import svds

    left, strength, _ = svds(sp.csr_matrix(rows), k=min(DIMENSIONS, *(s - 1 for s in rows.shape)), rng=seed)
    return np.asarray(left * strength)
