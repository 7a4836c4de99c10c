"""The one sparse product of the package: CSR times dense in torch, with the transpose kept for the backward pass.

torch's own CSR backward rebuilds the transpose at every step; here it is made once, and for a symmetric matrix it is
the matrix itself. The product is differentiable in reverse mode, in forward mode (`torch.func.jvp`) and under
`torch.vmap`, for float32 and float64.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from edgeveil.errors import TooLarge
from edgeveil.graph.sparse import is_symmetric

__all__ = ["INT32_MAX", "SparseMatrix", "csr_product", "csr_tensor", "spmm"]

INT32_MAX = 2**31 - 1
_HAS_MKL = bool(torch.backends.mkl.is_available())  # type: ignore[no-untyped-call]
_WIDE = 32
_SHORT_ROWS = 10.0
_LONG_ROWS = 50.0
_STRIP = 128  # bytes of a row in one strip of columns: two cache lines
_CACHE = 1 << 22


def csr_tensor(crow: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A torch CSR tensor without the invariant check, whose cost would rival the product's."""
    return torch.sparse_csr_tensor(crow, col, values, size=shape, check_invariants=False)


def csr_product(matrix: Tensor, x: Tensor) -> Tensor:
    """CSR @ dense by the faster of two kernels.

    Rule, from one-thread measurements (`benchmarks/bench_spmm.py`): MKL wins on narrow right-hand sides and on long
    rows (by strips of columns where a strip fits the cache and rows are very long: up to twice as fast); torch's reduce
    kernel wins on wide ones with short rows, and is the only fast one where MKL is absent.
    A rule and not a timing at run time, because the kernels round differently and results must repeat.
    """
    x = x.contiguous()
    if matrix.shape[0] == 0 or matrix.shape[1] == 0 or x.shape[1] == 0 or matrix._nnz() == 0:
        return x.new_zeros(matrix.shape[0], x.shape[1])
    short = matrix._nnz() < _SHORT_ROWS * matrix.shape[0]
    if (x.shape[1] >= _WIDE and short) or not _HAS_MKL:
        out: Tensor = torch.sparse.mm(matrix, x, reduce="sum")
        return out
    cached = matrix.shape[1] * _STRIP <= _CACHE and matrix._nnz() >= _LONG_ROWS * matrix.shape[0]
    return _by_strips(matrix, x) if cached and x.shape[1] * x.element_size() > 2 * _STRIP else matrix @ x


def _by_strips(matrix: Tensor, x: Tensor) -> Tensor:
    """Some columns at a time, so that the rows gathered for them stay in the cache."""
    out = x.new_empty(matrix.shape[0], x.shape[1])
    width = _STRIP // x.element_size()
    for at in range(0, x.shape[1], width):
        out[:, at : at + width] = matrix @ x[:, at : at + width].contiguous()
    return out


with warnings.catch_warnings():  # torch says once per process that CSR is in beta; every path here is tested
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
    csr_tensor(torch.zeros(1, dtype=torch.int32), torch.zeros(0, dtype=torch.int32), torch.zeros(0), (0, 0))


class SparseMatrix:
    """A constant scipy CSR matrix ready for torch: one tensor per dtype, and its transpose, all made on demand."""

    def __init__(self, csr: Any, *, symmetric: bool | None = None) -> None:
        if csr.nnz > INT32_MAX or max(csr.shape) > INT32_MAX:
            raise TooLarge(
                f"a matrix with {csr.nnz:,} entries exceeds the 32-bit indices of the kernels; use fewer edges"
            )
        self.csr = csr
        self._symmetric = symmetric
        self._transpose: SparseMatrix | None = None
        self._tensors: dict[torch.dtype, Tensor] = {}
        self._index: tuple[Tensor, Tensor] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.csr.shape[0]), int(self.csr.shape[1])

    @property
    def nnz(self) -> int:
        return int(self.csr.nnz)

    @property
    def T(self) -> SparseMatrix:
        """The transpose; the object itself when the matrix is symmetric."""
        if self._transpose is None:
            if self._symmetric is None:
                self._symmetric = self.shape[0] == self.shape[1] and is_symmetric(self.csr)
            if self._symmetric:
                self._transpose = self
            else:
                self._transpose = SparseMatrix(self.csr.T.tocsr(), symmetric=False)
                self._transpose._transpose = self
        return self._transpose

    def tensor(self, dtype: torch.dtype) -> Tensor:
        """The torch CSR tensor of that dtype; index arrays are shared between dtypes."""
        if self._index is None:
            self._index = (
                torch.from_numpy(self.csr.indptr.astype(np.int32, copy=True)),
                torch.from_numpy(self.csr.indices.astype(np.int32, copy=True)),
            )
        if dtype not in self._tensors:
            values = torch.tensor(self.csr.data, dtype=dtype)
            self._tensors[dtype] = csr_tensor(*self._index, values, self.shape)
        return self._tensors[dtype]

    def row_sums(self, dtype: torch.dtype) -> Tensor:
        """A 1 as a column [n, 1]."""
        return torch.tensor(np.asarray(self.csr.sum(axis=1)), dtype=dtype).reshape(-1, 1)

    def __matmul__(self, x: Tensor) -> Tensor:
        return spmm(self, x)


class _SpMM(torch.autograd.Function):
    """y = A x. Linear in x, so its derivative in any mode is itself or its transpose."""

    @staticmethod
    def forward(x: Tensor, matrix: SparseMatrix) -> Tensor:
        return csr_product(matrix.tensor(x.dtype), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, SparseMatrix], output: Tensor) -> None:
        ctx.matrix = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:
        return (spmm(ctx.matrix.T, grad) if ctx.needs_input_grad[0] else None), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return spmm(ctx.matrix, tangent)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, None], x: Tensor, matrix: SparseMatrix) -> tuple[Tensor, int]:
        at = in_dims[0]
        assert at is not None
        n, batch, width = (x := x.movedim(at, 1)).shape
        return spmm(matrix, x.reshape(n, batch * width)).reshape(matrix.shape[0], batch, width), 1


# torch's `apply` asks for the signature each time, and finding it out takes longer than a small product.
_SpMM.forward.__signature__ = inspect.signature(_SpMM.forward)  # type: ignore[attr-defined]


def _undifferentiated(x: Tensor) -> bool:
    """Whether no derivative in any mode can be asked of what is made of x now."""
    recorded = x.requires_grad and torch.is_grad_enabled()
    forward = forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()
    return not recorded and not forward


def spmm(matrix: SparseMatrix, x: Tensor) -> Tensor:
    """A @ x, differentiable in x."""
    if _undifferentiated(x):
        return csr_product(matrix.tensor(x.dtype), x)
    out: Tensor = _SpMM.apply(x, matrix)  # type: ignore[no-untyped-call]
    return out
