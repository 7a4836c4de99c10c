from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from edgeveil.graph.sparse import normalise
from edgeveil.models.kernels.spmm import SparseMatrix, spmm


def random_csr(rows: int, columns: int, density: float, seed: int = 0) -> sp.csr_matrix:
    return sp.random(rows, columns, density, format="csr", random_state=np.random.default_rng(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 7, 64, 100])
@pytest.mark.parametrize("density", [0.0, 0.05, 0.9])
def test_product_equals_scipy_in_every_kernel(dtype, width, density):
    a = random_csr(50, 31, density)
    x = torch.randn(31, width, dtype=dtype)
    torch.testing.assert_close(spmm(SparseMatrix(a), x), torch.tensor(a @ x.double().numpy()).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [33, 65, 100])
def test_long_rows_and_wide_factors_go_by_strips(dtype, width):
    a = random_csr(40, 90, 0.9)
    x = torch.randn(90, width, dtype=dtype)
    torch.testing.assert_close(spmm(SparseMatrix(a), x), torch.tensor(a @ x.double().numpy()).to(dtype))


def test_gradients_of_both_modes_and_second_order():
    matrix = SparseMatrix(random_csr(9, 6, 0.4))
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: spmm(matrix, v), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda v: spmm(matrix, v) ** 2, (x,))


def test_vmap_over_tangents_equals_one_by_one():
    matrix = SparseMatrix(random_csr(8, 8, 0.3))
    x, tangents = torch.randn(8, 2, dtype=torch.float64), torch.randn(4, 8, 2, dtype=torch.float64)

    def push(t: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(lambda v: spmm(matrix, torch.tanh(spmm(matrix, v))), (x,), (t,))[1]

    torch.testing.assert_close(torch.vmap(push)(tangents), torch.stack([push(t) for t in tangents]))


def test_a_symmetric_matrix_is_its_own_transpose():
    a = random_csr(12, 12, 0.2)
    symmetric = SparseMatrix(normalise(((a + a.T) != 0).astype(float), "aug"))
    assert symmetric.T is symmetric
    other = SparseMatrix(a)
    assert other.T.T is other
    assert (other.T.csr.toarray() == a.toarray().T).all()


def test_index_arrays_are_shared_between_precisions():
    matrix = SparseMatrix(random_csr(5, 5, 0.5))
    single, double = matrix.tensor(torch.float32), matrix.tensor(torch.float64)
    assert single.col_indices().data_ptr() == double.col_indices().data_ptr()
    assert matrix.tensor(torch.float32) is single
