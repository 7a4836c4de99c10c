"""Additive scores against the plain gather, with their derivatives, over any cut into chunks."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from edgeveil.models.kernels import additive
from edgeveil.models.kernels.pattern import Pattern


@pytest.mark.parametrize("chunk", [1, 7, 24, 1 << 17])
@pytest.mark.parametrize("shape", [(9, 9), (4, 11)])
def test_equals_the_plain_formula_with_its_gradients(chunk, shape, monkeypatch):
    rng = np.random.default_rng(5)
    monkeypatch.setattr(additive, "_CHUNK", chunk)
    pattern = Pattern(sp.random(*shape, density=0.4, format="csr", random_state=1, dtype=np.float64))
    heads, width = 3, 4
    draw = lambda *size: torch.tensor(rng.normal(size=size), requires_grad=True)  # noqa: E731
    values, wanted, vector = draw(shape[1], heads * width), draw(shape[0], heads * width), draw(heads, width)
    sums = (values[pattern.col] + wanted[pattern.row]).reshape(-1, heads, width)
    plain = (torch.nn.functional.leaky_relu(sums, additive.SLOPE) * vector).sum(-1).T
    ours = additive.additive_scores(values, wanted, vector, pattern)
    torch.testing.assert_close(ours, plain)
    along = torch.tensor(rng.normal(size=plain.shape))
    for mine, theirs in zip(
        torch.autograd.grad(ours, (values, wanted, vector), along),
        torch.autograd.grad(plain, (values, wanted, vector), along),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


def test_no_entries():
    pattern = Pattern(sp.csr_matrix((3, 3)))
    values = torch.ones(3, 4, requires_grad=True)
    out = additive.additive_scores(values, torch.ones(3, 4), torch.ones(2, 2), pattern)
    assert out.shape == (2, 0)
    out.sum().backward()
    assert not values.grad.any()
