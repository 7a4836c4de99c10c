"""The places of the non-zeros of an adjacency, for layers that learn the values there."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from edgeveil.errors import TooLarge
from edgeveil.models.kernels.spmm import INT32_MAX, SparseMatrix

__all__ = ["Pattern"]


class Pattern:
    """Entries (row, column) in CSR order: node `row` receives a message from node `column`. Numbers are 32-bit."""

    def __init__(self, csr: Any) -> None:
        if csr.nnz > INT32_MAX:
            raise TooLarge(f"a graph with {csr.nnz:,} entries exceeds the 32-bit indices of attention; use fewer edges")
        self.csr = csr
        self.crow = torch.from_numpy(csr.indptr.astype(np.int32, copy=True))
        self.col = torch.from_numpy(csr.indices.astype(np.int32, copy=True))

    @classmethod
    def of(cls, adjacency: Any, *, loops: bool) -> Pattern:
        """The pattern of an adjacency; `loops`: exactly one self-loop per node, whatever it had."""
        a = sp.csr_matrix((np.ones(adjacency.nnz), adjacency.indices, adjacency.indptr), shape=adjacency.shape)
        if loops:
            a = (a + sp.diags(1.0 - a.diagonal(), format="csr")).tocsr()
        a.sort_indices()
        return cls(a)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.csr.shape[0]), int(self.csr.shape[1])

    @property
    def nnz(self) -> int:
        return int(self.csr.nnz)

    @cached_property
    def row(self) -> Tensor:
        """Receiving node of every entry; its sending node is `col`."""
        return torch.from_numpy(np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.csr.indptr)))

    def row_sums(self, entries: Tensor) -> Tensor:
        """Sum of the entries [nnz] of each row."""
        return self._reduced(np.add, entries)

    def row_largest(self, entries: Tensor) -> Tensor:
        """The largest of the entries [nnz] of each row; 0 for a row without any."""
        return self._reduced(np.maximum, entries)

    def _reduced(self, operation: np.ufunc, entries: Tensor) -> Tensor:
        values = entries.detach().numpy()
        out = np.zeros(self.shape[0], dtype=values.dtype)
        if self.nnz:
            out[self._filled] = operation.reduceat(values, self.csr.indptr[:-1][self._filled])
        return torch.from_numpy(out)

    @cached_property
    def _filled(self) -> Any:
        """Rows that have entries."""
        return np.flatnonzero(np.diff(self.csr.indptr))

    @cached_property
    def indicator(self) -> SparseMatrix:
        """[n, nnz] matrix that sums the entries of each row."""
        ones, places = np.ones(self.nnz), np.arange(self.nnz)
        csr = sp.csr_matrix((ones, places, self.csr.indptr), shape=(self.shape[0], self.nnz))
        return SparseMatrix(csr, symmetric=False)

    @cached_property
    def _transposed(self) -> tuple[Pattern, Tensor]:
        numbered = sp.csr_matrix(
            (np.arange(1, self.nnz + 1), self.csr.indices, self.csr.indptr), shape=self.shape
        ).T.tocsr()
        numbered.sort_indices()
        order = torch.from_numpy(numbered.data.astype(np.int32) - 1)
        pattern = Pattern(sp.csr_matrix((np.ones(self.nnz), numbered.indices, numbered.indptr), shape=numbered.shape))
        return pattern, order

    @property
    def T(self) -> Pattern:
        """The pattern of the transpose; `turned(values)` are its values."""
        return self._transposed[0]

    def turned(self, values: Tensor) -> Tensor:
        """Values [nnz] of this pattern in the order of the transposed one."""
        return values.index_select(0, self._transposed[1])
