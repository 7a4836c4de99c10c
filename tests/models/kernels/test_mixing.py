"""Softmax attention against dense masked attention, with every derivative."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from edgeveil.models.kernels.mixing import softmax_mix
from edgeveil.models.kernels.pattern import Pattern


def case(rows: int, columns: int, seed: int) -> Pattern:
    found = sp.random(rows, columns, 0.4, format="lil", random_state=np.random.default_rng(seed))
    found[1] = 0  # a node that hears nobody
    found = found.tocsr()
    found.eliminate_zeros()
    found.sort_indices()
    return Pattern(found)


def dense(scores: torch.Tensor, values: torch.Tensor, pattern: Pattern) -> torch.Tensor:
    full = torch.full(pattern.shape, -torch.inf, dtype=scores.dtype).index_put((pattern.row, pattern.col), scores)
    return torch.nan_to_num(torch.softmax(full, dim=1)) @ values


@pytest.mark.parametrize("shape", [(6, 6), (5, 9)])
def test_equals_masked_attention(shape):
    pattern = case(*shape, seed=3)
    torch.manual_seed(0)
    scores = torch.randn(pattern.nnz, dtype=torch.float64, requires_grad=True)
    values = torch.randn(shape[1], 4, dtype=torch.float64, requires_grad=True)
    ours = softmax_mix(scores, values, pattern)
    torch.testing.assert_close(ours, dense(scores, values, pattern))
    assert not ours[1].any()
    assert torch.autograd.gradcheck(lambda s, v: softmax_mix(s, v, pattern), (scores, values), check_forward_ad=True)


def test_survives_large_scores():
    pattern = case(6, 6, seed=3)
    scores = 1e4 * torch.randn(pattern.nnz)
    values = torch.randn(6, 4)
    torch.testing.assert_close(softmax_mix(scores, values, pattern), dense(scores, values, pattern))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries_far_below_the_largest_weigh_nothing(dtype):
    pattern = Pattern(sp.csr_matrix(np.ones((1, 3))))
    values = torch.tensor([[2.0], [7.0], [-9.0]], dtype=dtype)
    mixed = softmax_mix(torch.tensor([0.0, -5e3, -1e6], dtype=dtype), values, pattern)
    assert mixed.tolist() == [[2.0]]


def test_no_entries():
    pattern = Pattern(sp.csr_matrix((3, 3)))
    assert not softmax_mix(torch.zeros(0), torch.ones(3, 2), pattern).any()
