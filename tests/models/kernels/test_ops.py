from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from edgeveil.models import MODELS, ModelSpec, build
from edgeveil.models.kernels.ops import activate, edge_sum, kept, sddmm, segment_softmax, weighted_spmm
from edgeveil.models.kernels.pattern import Pattern


def pattern(rows: int = 6, columns: int = 6, seed: int = 0) -> Pattern:
    a = sp.random(rows, columns, 0.4, format="csr", random_state=np.random.default_rng(seed))
    a.sort_indices()
    return Pattern(a)


def test_weighted_product_and_its_derivatives():
    p = pattern(5, 7)
    values = torch.randn(p.nnz, dtype=torch.float64, requires_grad=True)
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    dense = torch.zeros(5, 7, dtype=torch.float64)
    dense[p.row, p.col] = values.detach()
    torch.testing.assert_close(weighted_spmm(values, x, p), dense @ x)
    assert torch.autograd.gradcheck(lambda v, y: weighted_spmm(v, y, p), (values, x), check_forward_ad=True)


def test_sampled_product_and_its_derivatives():
    p = pattern(5, 7)
    q = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    k = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(sddmm(q, k, p), (q @ k.T)[p.row, p.col])
    assert torch.autograd.gradcheck(lambda a, b: sddmm(a, b, p), (q, k), check_forward_ad=True)


@pytest.mark.parametrize("width", [1, 8, 16, 17])
def test_sampled_product_at_widths_that_fill_registers_and_not(width):
    p = pattern(9, 7)
    q, k = torch.randn(9, width), torch.randn(7, 2 * width)[:, :width]
    torch.testing.assert_close(sddmm(q, k, p), (q @ k.T)[p.row, p.col])


def test_sums_over_entries_and_their_derivatives():
    p = pattern(5, 7)
    a = torch.randn(5, dtype=torch.float64, requires_grad=True)
    b = torch.randn(7, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(edge_sum(a, b, p), (a[:, None] + b[None, :])[p.row, p.col])
    assert torch.autograd.gradcheck(lambda u, v: edge_sum(u, v, p), (a, b), check_forward_ad=True)
    grad = torch.autograd.grad((edge_sum(a, b, p) ** 3).sum(), a, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()
    batch = torch.randn(3, 5, dtype=torch.float64)
    mapped = torch.vmap(lambda u: edge_sum(u, b.detach(), p))(batch)
    torch.testing.assert_close(mapped, torch.stack([edge_sum(u, b.detach(), p) for u in batch]))


def test_rows_are_reduced_with_and_without_entries():
    p = Pattern(sp.csr_matrix(np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]], float)))
    entries = torch.tensor([-3.0, -2.0, 5.0])
    assert p.row_sums(entries).tolist() == [-5.0, 0.0, 5.0, 0.0]
    assert p.row_largest(entries).tolist() == [-2.0, 0.0, 5.0, 0.0]
    assert p.turned(entries).tolist() == [5.0, -3.0, -2.0]


def test_segment_softmax_survives_large_scores_and_is_differentiable():
    p = pattern()
    scores = torch.randn(p.nnz, 2, dtype=torch.float64, requires_grad=True)
    weights = segment_softmax(scores * 1e4, p)
    assert torch.isfinite(weights).all()
    sums = torch.zeros(6, 2, dtype=torch.float64).index_add(0, p.row, weights.detach())
    filled = torch.tensor(np.diff(p.csr.indptr) > 0)
    torch.testing.assert_close(sums[filled], torch.ones_like(sums[filled]))
    assert torch.autograd.gradcheck(lambda s: segment_softmax(s, p), (scores,), check_forward_ad=True)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_dropout_masks_have_the_stated_share(share):
    torch.manual_seed(0)
    mask, keep = kept(torch.Size([1000, 401]), share)
    n = mask.numel()
    assert abs(keep - (1 - share)) < 2**-16
    # six standard deviations: a false alarm once in 10^9 runs
    assert abs(float(mask.double().mean()) - keep) < 6 * np.sqrt(keep * (1 - keep) / n)
    columns = mask.double().mean(0)
    assert float((columns - keep).abs().max()) < 6 * np.sqrt(keep * (1 - keep) / 1000)


@pytest.mark.parametrize("name", ["relu", "selu", "elu"])
def test_activation_and_dropout(name):
    torch.manual_seed(1)
    x = torch.randn(200, 50, dtype=torch.float64, requires_grad=True)
    reference = {"relu": torch.relu, "selu": torch.selu, "elu": torch.nn.functional.elu}[name](x)
    torch.testing.assert_close(activate(x, name, 0.0), reference)
    out = activate(x, name, 0.5)
    alive = out != 0
    torch.testing.assert_close(out[alive], 2.0 * reference[alive])
    out.sum().backward()
    assert ((x.grad == 0) == ~alive).all()


@pytest.mark.parametrize("name", MODELS.names())
def test_forward_mode_and_vmap_pass_through_every_model(name):
    rng = np.random.default_rng(0)
    a = (sp.random(15, 15, 0.2, random_state=rng) != 0).astype(float).tocsr()
    model = build(ModelSpec(name=name, hidden=4, layers=3, heads=2, kprop=1, activation="selu"), 5, 3, seed=0)
    model = model.double().eval()
    structure = model.prepare(a)
    x = torch.tensor(rng.standard_normal((15, 5)))
    tangents = torch.tensor(rng.standard_normal((3, 15, 5)))

    def push(t: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(lambda v: model(v, structure), (x,), (t,))[1]

    batched = torch.vmap(push)(tangents)
    step = 1e-6
    for out, t in zip(batched, tangents, strict=True):
        central = (model(x + step * t, structure) - model(x - step * t, structure)) / (2 * step)
        torch.testing.assert_close(out, central, rtol=1e-5, atol=1e-6)
