"""Bringing features to a scale that a model can learn from: learnt on one graph, applied to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.features import FeatureMatrix

__all__ = ["AUTO", "Scaling", "check_scaling", "fitting_scaling"]

Array = NDArray[Any]
AUTO = "auto"
KINDS = ("none", "row", "standard", "minmax")
FILLED = 0.25  # bags of words are emptier than this
COMMON = 0.5  # a column that is non-zero in more rows than this is no word
SPREAD = 100.0  # ratio of the largest to the usual size of an entry, above which columns have scales of their own


def check_scaling(kind: str | None) -> str:
    """The name of a scaling, "auto" included."""
    if kind not in (AUTO, *KINDS):
        raise UnknownNameError("scaling", str(kind), (AUTO, *KINDS))
    return kind


def fitting_scaling(x: Any) -> str:
    """What the data ask for: "row" for bags of words, "standard" for everything else.

    A bag of words is non-negative and sparse, its entries are of one size, and no column that nearly every row fills
    (an age, an amount) carries much of it. A row sum over columns of different units would drown all but the largest.
    """
    table = sp.csr_matrix(x, copy=True)
    table.eliminate_zeros()
    if not table.nnz:
        return "none"
    if table.data.min() < 0 or table.nnz > FILLED * table.shape[0] * table.shape[1]:
        return "standard"
    filled = np.bincount(table.indices, minlength=table.shape[1])
    mass = np.bincount(table.indices, weights=table.data, minlength=table.shape[1])
    size = mass[filled > 0] / filled[filled > 0]
    dense = mass[filled > COMMON * table.shape[0]].sum() > FILLED * mass.sum()
    return "standard" if dense or size.max() > SPREAD * np.median(size) else "row"


def _moments(x: Any) -> tuple[Array, Array]:
    """Column means and population variances in float64 (as scikit-learn's StandardScaler)."""
    n = x.shape[0]
    if not sp.issparse(x):
        x = np.asarray(x, np.float64)
        return x.mean(axis=0), x.var(axis=0)
    x = x.astype(np.float64)
    mean = np.asarray(x.mean(axis=0)).ravel()
    # Centred per stored entry, then the zeros of each column: E[x²]-mean² would cancel.
    centred = x.copy()
    centred.data -= mean[x.indices]
    filled = np.bincount(x.indices, minlength=x.shape[1])
    squares = np.bincount(x.indices, weights=centred.data**2, minlength=x.shape[1])
    return mean, (squares + (n - filled) * mean**2) / n


@dataclass(frozen=True)
class Scaling:
    """A feature scaling learnt on one graph and applied to others.

    none; row (each row sums to 1, zero rows stay); standard (StandardScaler: constant columns keep scale 1);
    minmax (each column to [0, 1], GraphPrivatizer). standard and minmax keep sparse features sparse.
    """

    kind: str = "none"
    scale: Array | None = None
    shift: Array | None = None

    @classmethod
    def fit(cls, kind: str, x: Any, rows: Any = None) -> Scaling:
        """Learn from the given rows (ids or mask; default all) of CSR or array `x`; "auto" is chosen from them."""
        if check_scaling(kind) in ("none", "row"):
            return cls(kind)
        x = x if rows is None else x[np.asarray(rows)]
        if kind == AUTO:
            return cls.fit(fitting_scaling(x), x)
        if x.shape[0] == 0:
            raise InputError(f"cannot fit the scaling {kind!r} on no rows; give at least one training node")
        if kind == "standard":
            mean, variance = _moments(x)
            # A constant column has a variance of rounding size, not exactly 0.
            tiny = 10 * np.finfo(np.float64).eps * x.shape[0] * (np.abs(mean) ** 2)
            scale = np.sqrt(np.where(variance <= tiny, 1.0, variance))
            return cls(kind, scale, mean / scale)
        low = np.asarray(x.min(axis=0).toarray() if sp.issparse(x) else x.min(axis=0), np.float64).ravel()
        high = np.asarray(x.max(axis=0).toarray() if sp.issparse(x) else x.max(axis=0), np.float64).ravel()
        scale = np.where(high > low, high - low, 1.0)
        return cls(kind, scale, low / scale)

    def apply(self, x: Any) -> FeatureMatrix:
        """The scaled features, float64, sparse where `x` is."""
        if self.kind == "none":
            return FeatureMatrix.wrap(x)
        x = sp.csr_matrix(x, dtype=np.float64, copy=True) if sp.issparse(x) else np.array(x, np.float64)
        if self.kind == "row":
            total = np.asarray(x.sum(axis=1), np.float64).ravel()
            factor = np.divide(1.0, total, out=np.zeros_like(total), where=total != 0)
            if sp.issparse(x):
                x.data *= np.repeat(factor, np.diff(x.indptr))
                return FeatureMatrix(x)
            return FeatureMatrix(x * factor[:, None])
        assert self.scale is not None and self.shift is not None
        if x.shape[1] != len(self.scale):
            raise InputError(f"the scaling was fitted on {len(self.scale)} features, these have {x.shape[1]}")
        if sp.issparse(x):
            x.data /= self.scale[x.indices]
            return FeatureMatrix(x, self.shift if np.any(self.shift) else None)
        return FeatureMatrix(x / self.scale - self.shift)
