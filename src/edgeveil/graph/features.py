"""Node features in model space, kept sparse where they are sparse "on paper dense".

Standardised bags of words are X = S - 1 shift': S = X_raw / std is sparse, the dense part is one row. Products use
that form; nothing of size n x F is filled in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import GraphError, InputError

__all__ = ["FeatureMatrix"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class FeatureMatrix:
    """Immutable features X = S - 1 shift', with a few rows possibly replaced.

    `base` is the matrix before rows were replaced, so that work done for it (its torch form, its propagation) is
    shared by every copy that differs in a few rows, which is what a link-stealing query is.
    """

    values: Any  # CSR or ndarray
    shift: Array | None = None
    base: FeatureMatrix | None = None
    nodes: Array | None = None  # sorted replaced rows
    replaced: Array | None = None  # their dense values
    apart: bool = False  # products with replaced rows are taken one by one: no bit depends on the other rows
    _operands: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def wrap(cls, x: Any) -> FeatureMatrix:
        """A FeatureMatrix of whatever holds features: CSR, array or FeatureMatrix (returned as it is)."""
        if isinstance(x, FeatureMatrix):
            return x
        if x is None:
            raise GraphError("the graph has no features; give x, for instance the identity or the degrees")
        x = sp.csr_matrix(x) if sp.issparse(x) else np.asarray(x)
        if x.ndim != 2:
            raise GraphError(f"features must have two dimensions, got shape {tuple(x.shape)}")
        if x.dtype not in (np.float32, np.float64):
            x = x.astype(np.float32)
        return cls(x)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.values.shape[0]), int(self.values.shape[1])

    @property
    def dtype(self) -> Any:
        return np.result_type(self.values.dtype, np.float32)

    @property
    def is_sparse(self) -> bool:
        """Whether the stored part is a CSR matrix."""
        return bool(sp.issparse(self.values))

    def _plain_rows(self, nodes: Array) -> Array:
        rows = self.values[nodes]
        rows = rows.toarray() if sp.issparse(rows) else np.array(rows)
        return rows if self.shift is None else rows - self.shift

    def rows(self, nodes: Any) -> Array:
        """Dense copies of the given rows, in their order."""
        nodes = np.asarray(nodes, np.int64).ravel()
        rows = self._plain_rows(nodes)
        if self.nodes is not None and self.replaced is not None:
            at = np.minimum(np.searchsorted(self.nodes, nodes), len(self.nodes) - 1)
            hit = self.nodes[at] == nodes
            rows[hit] = self.replaced[at[hit]]
        return rows

    def toarray(self) -> Array:
        """All rows, dense."""
        return self.rows(np.arange(self.shape[0]))

    def public(self) -> Any:
        """What a release shows: CSR when that is the whole truth, else a dense array."""
        if self.is_sparse and self.shift is None and self.nodes is None:
            return self.values.copy()
        return self.toarray()

    def with_rows(self, nodes: Any, rows: Any, *, apart: bool = False) -> FeatureMatrix:
        """A copy whose given rows are replaced; the rest is shared, not copied."""
        nodes = np.asarray(nodes, np.int64).ravel()
        rows = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
        rows = np.array(rows, dtype=np.result_type(rows.dtype, self.dtype))
        if rows.shape != (len(nodes), self.shape[1]):
            raise InputError(f"{len(nodes)} rows of {self.shape[1]} features expected, got shape {rows.shape}")
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= self.shape[0]):
            raise InputError(f"replaced rows must lie in 0..{self.shape[0] - 1}")
        order = np.argsort(nodes, kind="stable")
        if len(np.unique(nodes)) != len(nodes):
            raise InputError("each row can be replaced once; some nodes are repeated")
        if not len(nodes):
            return self
        new, values = nodes[order], rows[order]
        if self.nodes is not None and self.replaced is not None:
            keep = ~np.isin(self.nodes, new)
            values = np.concatenate([self.replaced[keep], values])
            new = np.concatenate([self.nodes[keep], new])
            order = np.argsort(new)
            new, values = new[order], values[order]
        return FeatureMatrix(self.values, self.shift, self.base or self, new, values, apart)

    def take(self, nodes: Any) -> FeatureMatrix:
        """The features of an induced subgraph: the given rows, in their order, still sparse."""
        nodes = np.asarray(nodes)
        nodes = np.flatnonzero(nodes) if nodes.dtype == np.bool_ else nodes.astype(np.int64).ravel()
        out = FeatureMatrix(self.values[nodes], self.shift)
        if self.nodes is None:
            return out
        at = np.flatnonzero(np.isin(nodes, self.nodes))
        return out.with_rows(at, self.rows(nodes[at])) if len(at) else out
