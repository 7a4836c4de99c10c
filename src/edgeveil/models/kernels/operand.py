"""Features as the left factor of a product with weights, in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.kernels.spmm import SparseMatrix

__all__ = ["DENSE_SPEED", "Deferred", "FeatureOperand", "as_operand"]

DENSE_SPEED = 10.0
"""How many multiply-adds of a dense product cost one of a sparse product (measured, one thread)."""


class FeatureOperand:
    """X = S + column shift' (+ a sparse correction), with some rows replaced; the left factor of products with weights.

    The column is all ones unless the features were propagated.

    Compared and hashed by identity: structures remember what they computed for one operand.
    """

    def __init__(
        self,
        values: SparseMatrix | Tensor,
        column: Tensor | None = None,
        shift: Tensor | None = None,
        *,
        dtype: torch.dtype,
        base: FeatureOperand | None = None,
        nodes: Tensor | None = None,
        replaced: Tensor | None = None,
        correction: SparseMatrix | None = None,
        apart: bool = False,
    ) -> None:
        self.values, self.column, self.shift = values, column, shift
        self.dtype, self.base = dtype, base
        self.nodes, self.replaced, self.correction, self.apart = nodes, replaced, correction, apart

    @classmethod
    def of(cls, x: FeatureMatrix, dtype: torch.dtype) -> FeatureOperand:
        """The operand of a feature matrix; a copy with replaced rows shares the stored part of its base."""
        if x.base is not None and x.nodes is not None:
            base = as_operand(x.base, dtype)
            nodes = torch.tensor(x.nodes, dtype=torch.int64)
            replaced = torch.tensor(x.replaced, dtype=dtype)
            return cls(
                base.values, base.column, base.shift, dtype=dtype, base=base, nodes=nodes, replaced=replaced,
                apart=x.apart,
            )  # fmt: skip
        values: SparseMatrix | Tensor
        values = SparseMatrix(x.values, symmetric=False) if x.is_sparse else torch.tensor(x.values, dtype=dtype)
        # Added, not subtracted: one pass less over the gradient.
        shift = None if x.shift is None else torch.tensor(-x.shift, dtype=dtype)
        return cls(values, None, shift, dtype=dtype)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return int(rows), int(columns)

    @property
    def cost(self) -> float:
        """Work of one product per output column, in sparse multiply-adds."""
        if isinstance(self.values, SparseMatrix):
            return float(self.values.nnz)
        return self.values.numel() / DENSE_SPEED

    def matmul(self, weight: Tensor) -> Tensor:
        """X @ weight, differentiable in the weight."""
        out = self.values @ weight
        if self.shift is not None:
            row = (self.shift @ weight).unsqueeze(0)
            # In place: a fresh array of this size costs several times the addition, in page faults.
            out = out.add_(row) if self.column is None else out.addmm_(self.column, row)
        if self.correction is not None:
            out = out + self.correction @ weight
        if self.nodes is not None and self.replaced is not None:
            rows = torch.split(self.replaced, 1) if self.apart else (self.replaced,)
            out = out.index_copy(0, self.nodes, torch.cat([row @ weight for row in rows]))
        return out

    def dense(self) -> Tensor:
        """All of X."""
        if isinstance(self.values, SparseMatrix):
            out = torch.from_numpy(self.values.csr.toarray()).to(self.dtype)
        else:
            out = self.values.to(self.dtype, copy=True)
        if self.shift is not None:
            out += self.shift if self.column is None else self.column * self.shift
        if self.correction is not None:
            out += torch.from_numpy(self.correction.csr.toarray()).to(self.dtype)
        if self.nodes is not None and self.replaced is not None:
            out[self.nodes] = self.replaced.to(self.dtype)
        return out

    def _delta(self) -> Any:
        """Replaced rows minus the original ones, as an otherwise empty CSR matrix."""
        assert self.nodes is not None and self.replaced is not None and self.base is not None
        nodes = self.nodes.numpy()
        if isinstance(self.values, SparseMatrix):
            old = self.values.csr[nodes].toarray()
            old = old if self.shift is None else old + self.shift.numpy()
        else:
            old = self.values[self.nodes].numpy()
        block = sp.csr_matrix(self.replaced.numpy().astype(np.float64) - old)
        place = sp.csr_matrix((np.ones(len(nodes)), (nodes, np.arange(len(nodes)))), shape=(self.shape[0], len(nodes)))
        return (place @ block).tocsr()

    def propagated(self, matrix: SparseMatrix, base: FeatureOperand | None = None) -> FeatureOperand:
        """P X as an operand. `base`: the already propagated base, when only some rows were replaced."""
        if self.nodes is not None:
            assert base is not None
            correction = (matrix.csr @ self._delta()).tocsr()
            return FeatureOperand(
                base.values, base.column, base.shift, dtype=self.dtype, base=base, correction=_sparse(correction)
            )
        if self.correction is not None:
            assert base is not None
            correction = _sparse((matrix.csr @ self.correction.csr).tocsr())
            return FeatureOperand(
                base.values, base.column, base.shift, dtype=self.dtype, base=base, correction=correction
            )
        column = self.column
        if self.shift is not None:
            one = torch.ones(self.shape[0], 1, dtype=self.dtype) if column is None else column
            column = matrix @ one
        values, shift = self._propagated_values(matrix), self.shift
        if isinstance(values, Tensor) and shift is not None and column is not None:
            values.addr_(column.squeeze(1), shift)
            column = shift = None
        return FeatureOperand(values, column, shift, dtype=self.dtype)

    def _propagated_values(self, matrix: SparseMatrix) -> SparseMatrix | Tensor:
        if not isinstance(self.values, SparseMatrix):
            return matrix @ self.values
        if fill_bound(matrix, self) <= matrix.shape[0] * self.shape[1] / DENSE_SPEED:
            return _sparse((matrix.csr @ self.values.csr).tocsr())
        return matrix @ torch.tensor(self.values.csr.toarray(), dtype=self.dtype)


class Deferred:
    """P^k X that is never formed: a product with weights runs on the narrow side, P(...P(X W)).

    Noisy or bag-of-words features have few stored numbers per row; k propagations would fill an n x F array.
    """

    def __init__(self, x: FeatureOperand, matrix: SparseMatrix, steps: int) -> None:
        self.x, self.matrix, self.steps = x, matrix, steps

    @property
    def shape(self) -> tuple[int, int]:
        return self.x.shape

    def matmul(self, weight: Tensor) -> Tensor:
        """P^k (X weight), differentiable in the weight."""
        out = self.x.matmul(weight)
        for _ in range(self.steps):
            out = self.matrix @ out
        return out


def _sparse(csr: Any) -> SparseMatrix:
    csr.sort_indices()
    return SparseMatrix(csr, symmetric=False)


def fill_bound(matrix: SparseMatrix, x: FeatureOperand) -> float:
    """Upper bound on the number of non-zeros of P S: each row is at most the sum of its neighbours' rows, and full."""
    width = x.shape[1]
    if not isinstance(x.values, SparseMatrix):
        return float(matrix.shape[0] * width)
    lengths = np.diff(x.values.csr.indptr).astype(np.float64)
    pattern = sp.csr_matrix((np.ones(matrix.nnz), matrix.csr.indices, matrix.csr.indptr), shape=matrix.shape)
    return float(np.minimum(pattern @ lengths, width).sum())


def as_operand(x: FeatureMatrix, dtype: torch.dtype | str = "float32") -> FeatureOperand:
    """The form the models multiply with (`edgeveil.models.kernels.ops.matmul`); made once per matrix and dtype."""
    kind: torch.dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    if kind not in x._operands:
        x._operands[kind] = FeatureOperand.of(x, kind)
    out: FeatureOperand = x._operands[kind]
    return out
