"""How alike two linked nodes are, from (noisy) features only: GraphPrivatizer Eq. 3 and 4, and its published code.

Features are S - c shift' with sparse S, so aggregation is a sparse product and a similarity a sparse row product;
no n x d array is filled for bags of words or multi-bit reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.sparse import normalise

__all__ = ["METRICS", "Vectors", "aggregated", "edge_similarity", "mixed_similarity"]

METRICS = ("cosine", "euclidean")
Float = NDArray[np.float64]
_CHUNK = 1 << 22  # stored numbers multiplied at once


@dataclass(frozen=True, eq=False)
class Vectors:
    """One vector per node: row u is values[u] - column[u] * shift."""

    values: Any  # CSR or ndarray, float64
    column: Float
    shift: Float | None

    @classmethod
    def of(cls, x: FeatureMatrix) -> Vectors:
        """The features themselves."""
        if x.nodes is not None:
            x = FeatureMatrix.wrap(x.toarray())
        shift = None if x.shift is None else np.asarray(x.shift, np.float64)
        return cls(x.values.astype(np.float64), np.ones(x.shape[0]), shift)

    def through(self, matrix: Any) -> Vectors:
        """matrix @ vectors."""
        return Vectors(matrix @ self.values, matrix @ self.column, self.shift)

    def mixed(self, other: Vectors, weight: float) -> Vectors:
        """(1 - weight) self + weight other."""
        keep = 1.0 - weight
        return Vectors(
            keep * self.values + weight * other.values, keep * self.column + weight * other.column, self.shift
        )

    def _along_shift(self) -> Float:
        return np.asarray(self.values @ self.shift, np.float64).ravel()

    def dots(self, u: NDArray[Any], v: NDArray[Any]) -> Float:
        """Inner products of the rows u[i] and v[i]."""
        out = _row_dots(self.values, u, v)
        if self.shift is None:
            return out
        along, c = self._along_shift(), self.column
        square = float(self.shift @ self.shift)
        return np.asarray(out - c[v] * along[u] - c[u] * along[v] + c[u] * c[v] * square)

    def squares(self) -> Float:
        """Squared lengths."""
        every = np.arange(self.values.shape[0])
        return np.maximum(self.dots(every, every), 0.0)


def _row_dots(values: Any, u: NDArray[Any], v: NDArray[Any]) -> Float:
    out = np.empty(len(u))
    if sp.issparse(values):
        lengths = np.diff(values.indptr)
        load = np.cumsum(lengths[u] + lengths[v] + 1)
    else:
        load = np.arange(1, len(u) + 1) * (2 * values.shape[1])
    cuts = np.searchsorted(load, np.arange(_CHUNK, load[-1] if len(load) else 0, _CHUNK))
    for at in np.split(np.arange(len(u)), cuts):
        left, right = values[u[at]], values[v[at]]
        if sp.issparse(values):
            out[at] = np.asarray(left.multiply(right).sum(axis=1)).ravel()
        else:
            out[at] = np.einsum("ij,ij->i", left, right)
    return out


def aggregated(x: FeatureMatrix, adjacency: Any, alpha: float) -> Vectors:
    """Eq. 3: x_alpha = (1 - alpha) x + alpha mean over the neighbours."""
    plain = Vectors.of(x)
    if alpha == 0:
        return plain
    mean = plain.through(normalise(adjacency, "mean"))
    return mean if alpha == 1 else plain.mixed(mean, alpha)


def _cosine(vectors: Vectors, u: NDArray[Any], v: NDArray[Any]) -> Float:
    length = np.sqrt(vectors.squares())
    scale = length[u] * length[v]
    dots = vectors.dots(u, v)
    out: Float = np.divide(dots, scale, out=np.zeros(len(u)), where=scale > 0)
    return np.clip(out, -1.0, 1.0)


def _distance(vectors: Vectors, u: NDArray[Any], v: NDArray[Any]) -> Float:
    squares = vectors.squares()
    return np.asarray(np.sqrt(np.maximum(squares[u] + squares[v] - 2 * vectors.dots(u, v), 0.0)))


def _euclidean(vectors: Vectors, u: NDArray[Any], v: NDArray[Any]) -> Float:
    """1 / (1 + distance): 1 for equal vectors, falling to 0, so that a threshold means the same as for the cosine."""
    return 1.0 / (1.0 + _distance(vectors, u, v))


def _measure(metric: str, vectors: Vectors, u: NDArray[Any], v: NDArray[Any]) -> Float:
    if metric not in METRICS:
        raise UnknownNameError("similarity metric", metric, METRICS)
    return _cosine(vectors, u, v) if metric == "cosine" else _euclidean(vectors, u, v)


def edge_similarity(x: FeatureMatrix, adjacency: Any, edges: Any, alpha: float, metric: str = "cosine") -> Float:
    """Eq. 4: similarity s_alpha of the two ends of every edge [2, E]."""
    return _measure(metric, aggregated(x, adjacency, alpha), edges[0], edges[1])


def mixed_similarity(x: FeatureMatrix, adjacency: Any, edges: Any, alpha: float, metric: str = "cosine") -> Float:
    """What produced the published tables: alpha s(x) + (1 - alpha) s(AGG), AGG one step of D^-1/2 A D^-1/2.

    The mix comes after the similarity and alpha weighs the *plain* features, the reverse of Eq. 3. Its Euclidean
    metric is the distance itself, so the least alike neighbours pass a threshold.
    """
    if metric not in METRICS:
        raise UnknownNameError("similarity metric", metric, METRICS)
    measure = _cosine if metric == "cosine" else _distance
    plain = Vectors.of(x)
    summed = plain.through(normalise(adjacency, "sym"))
    own = measure(plain, edges[0], edges[1]) if alpha > 0 else 0.0
    near = measure(summed, edges[0], edges[1]) if alpha < 1 else 0.0
    return np.asarray(alpha * own + (1.0 - alpha) * near, np.float64)
