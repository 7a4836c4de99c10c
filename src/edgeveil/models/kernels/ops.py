"""Differentiable products with features and with learnt edge weights; no nnz x width array is kept.

`weighted_spmm` and `sddmm` are each other's derivatives: y_i = sum_j a_ij x_j and s_ij = <q_i, k_j> over the entries
of one fixed pattern. Both are bilinear, so forward mode needs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from edgeveil.models.kernels.operand import Deferred, FeatureOperand
from edgeveil.models.kernels.pattern import Pattern
from edgeveil.models.kernels.spmm import csr_product, csr_tensor

__all__ = [
    "Features",
    "activate",
    "each",
    "edge_sum",
    "kept",
    "looped",
    "lowest_exponent",
    "matmul",
    "num_columns",
    "num_rows",
    "sampled",
    "sddmm",
    "segment_softmax",
    "survivors",
    "weighted",
    "weighted_spmm",
]

_LANES = 8  # torch's sampled product is slower on widths that are no multiple of it, several times so below it

Features = FeatureOperand | Deferred | Tensor
"""What a layer accepts as x: the operand of a `FeatureMatrix`, its deferred propagation, or a dense tensor."""


def matmul(x: Features, weight: Tensor) -> Tensor:
    """x @ weight for sparse, standardised or dense features."""
    return x @ weight if isinstance(x, Tensor) else x.matmul(weight)


def num_rows(x: Features) -> int:
    """Number of nodes."""
    return int(x.shape[0])


def num_columns(x: Features) -> int:
    """Number of features."""
    return int(x.shape[1])


def kept(shape: torch.Size, dropout: float) -> tuple[Tensor, float]:
    """A random mask of units that survive dropout, and the exact probability of surviving.

    Four units share one 64-bit draw, 16 bits each: 40 times faster on a CPU than torch's Bernoulli sampler. The
    probability is a multiple of 2^-16; scaling by the exact one keeps dropout unbiased.
    """
    level = round((1.0 - dropout) * 65536)
    count = math.prod(shape)
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None).numpy().view(np.int16)
    # numpy compares 16-bit numbers eight times as fast as torch.
    return torch.from_numpy(bits[:count] < level - 32768).view(shape), level / 65536


def survivors(shape: torch.Size, dropout: float, dtype: torch.dtype) -> tuple[Tensor, float]:
    """The mask of `kept` as a factor, 0 or one over the probability of surviving, and that number."""
    mask, share = kept(shape, dropout)
    return mask.view(torch.uint8).to(dtype).mul_(1.0 / share), 1.0 / share  # bytes are converted faster than truths


class _ReluDropout(torch.autograd.Function):
    """relu(x) times a mask of 0 and `scale`; the output alone tells where the gradient passes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        out = torch.clamp_min(x, 0.0).mul_(mask)
        ctx.save_for_backward(out)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad, out, 0.0).mul_(ctx.scale), None, None


def activate(x: Tensor, activation: str, dropout: float) -> Tensor:
    """Activation, then dropout (0 outside training); ReLU and dropout share their backward pass. May reuse x."""
    if activation == "relu":
        if dropout == 0.0:
            return torch.relu(x) if torch.is_grad_enabled() else torch.relu_(x)
        dropped: Tensor = _ReluDropout.apply(x, *survivors(x.shape, dropout, x.dtype))  # type: ignore[no-untyped-call]
        return dropped
    out = torch.selu(x) if activation == "selu" else functional.elu(x)
    if dropout == 0.0:
        return out
    return out * survivors(x.shape, dropout, x.dtype)[0]


def weighted(values: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
    """`weighted_spmm` without derivatives."""
    return csr_product(csr_tensor(pattern.crow, pattern.col, values, pattern.shape), x)


def sampled(q: Tensor, k: Tensor, pattern: Pattern) -> Tensor:
    """`sddmm` without derivatives."""
    if pattern.nnz == 0 or q.shape[1] == 0:
        return q.new_zeros(pattern.nnz)
    places = csr_tensor(pattern.crow, pattern.col, q.new_zeros(pattern.nnz), pattern.shape)
    spare = -q.shape[1] % _LANES
    if spare and q.shape[1] > 1:
        q, k = functional.pad(q, (0, spare)), functional.pad(k, (0, spare))
    found: Tensor = torch.sparse.sampled_addmm(places, q.contiguous(), k.contiguous().T, beta=0.0).values()
    return found


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def each(in_dims: tuple[int | None, ...], inputs: tuple[Any, ...], size: int) -> Iterator[list[Any]]:
    """The arguments of every batch entry of a vmap rule whose last argument is a pattern."""
    for i in range(size):
        picked = zip(inputs[:-1], in_dims[: len(inputs) - 1], strict=True)
        yield [*(x if d is None else x.select(d, i) for x, d in picked), inputs[-1]]


def looped(function: Any, in_dims: tuple[int | None, ...], inputs: tuple[Any, ...], size: int) -> tuple[Tensor, int]:
    """A vmap rule that runs the function once per batch entry."""
    return torch.stack([function(*own) for own in each(in_dims, inputs, size)]), 0


class _WeightedSpMM(torch.autograd.Function):
    @staticmethod
    def forward(values: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
        return weighted(values, x, pattern)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Pattern], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], inputs[1])
        ctx.save_for_forward(inputs[0], inputs[1])
        ctx.pattern = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, x = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        to_values = sddmm(grad, x, pattern) if ctx.needs_input_grad[0] else None
        to_x = weighted_spmm(pattern.turned(values), grad, pattern.T) if ctx.needs_input_grad[1] else None
        return to_values, to_x, None

    @staticmethod
    def jvp(ctx: Any, d_values: Tensor | None, d_x: Tensor | None, _: None) -> Tensor | None:
        values, x = ctx.saved_tensors
        first = None if d_values is None else weighted_spmm(d_values, x, ctx.pattern)
        return _plus(first, None if d_x is None else weighted_spmm(values, d_x, ctx.pattern))

    @staticmethod
    def vmap(info: Any, in_dims: Any, values: Tensor, x: Tensor, pattern: Pattern) -> tuple[Tensor, int]:
        if in_dims[0] is None:
            n, batch, width = (x := x.movedim(in_dims[1], 1)).shape
            folded = weighted_spmm(values, x.reshape(n, batch * width), pattern)
            return folded.reshape(pattern.shape[0], batch, width), 1
        return looped(weighted_spmm, in_dims, (values, x, pattern), info.batch_size)


class _SDDMM(torch.autograd.Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, pattern: Pattern) -> Tensor:
        return sampled(q, k, pattern)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Pattern], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], inputs[1])
        ctx.save_for_forward(inputs[0], inputs[1])
        ctx.pattern = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        q, k = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        to_q = weighted_spmm(grad, k, pattern) if ctx.needs_input_grad[0] else None
        to_k = weighted_spmm(pattern.turned(grad), q, pattern.T) if ctx.needs_input_grad[1] else None
        return to_q, to_k, None

    @staticmethod
    def jvp(ctx: Any, d_q: Tensor | None, d_k: Tensor | None, _: None) -> Tensor | None:
        q, k = ctx.saved_tensors
        first = None if d_q is None else sddmm(d_q, k, ctx.pattern)
        return _plus(first, None if d_k is None else sddmm(q, d_k, ctx.pattern))

    @staticmethod
    def vmap(info: Any, in_dims: Any, q: Tensor, k: Tensor, pattern: Pattern) -> tuple[Tensor, int]:
        return looped(sddmm, in_dims, (q, k, pattern), info.batch_size)


def weighted_spmm(values: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
    """y_i = sum over entries (i, j) of values_ij x_j; differentiable in both."""
    out: Tensor = _WeightedSpMM.apply(values, x, pattern)  # type: ignore[no-untyped-call]
    return out


def sddmm(q: Tensor, k: Tensor, pattern: Pattern) -> Tensor:
    """s_ij = <q_i, k_j> for every entry of the pattern; differentiable in both."""
    out: Tensor = _SDDMM.apply(q, k, pattern)  # type: ignore[no-untyped-call]
    return out


class _EdgeSum(torch.autograd.Function):
    @staticmethod
    def forward(a: Tensor, b: Tensor, pattern: Pattern) -> Tensor:
        return a.index_select(0, pattern.row).add_(b.index_select(0, pattern.col))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Pattern], output: Tensor) -> None:
        ctx.pattern = inputs[2]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        pattern: Pattern = ctx.pattern
        to_a = pattern.row_sums(grad) if ctx.needs_input_grad[0] else None
        return to_a, pattern.T.row_sums(pattern.turned(grad)) if ctx.needs_input_grad[1] else None, None

    @staticmethod
    def jvp(ctx: Any, d_a: Tensor | None, d_b: Tensor | None, _: None) -> Tensor | None:
        first = None if d_a is None else d_a.index_select(0, ctx.pattern.row)
        return _plus(first, None if d_b is None else d_b.index_select(0, ctx.pattern.col))

    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Tensor, b: Tensor, pattern: Pattern) -> tuple[Tensor, int]:
        return looped(edge_sum, in_dims, (a, b, pattern), info.batch_size)


def edge_sum(a: Tensor, b: Tensor, pattern: Pattern) -> Tensor:
    """s_ij = a_i + b_j for every entry of the pattern; differentiable once in both."""
    out: Tensor = _EdgeSum.apply(a, b, pattern)  # type: ignore[no-untyped-call]
    return out


def lowest_exponent(dtype: torch.dtype) -> float:
    """Just above where exp leaves the normal numbers: beyond, it is a hundred times slower and a weight nothing."""
    return math.log(torch.finfo(dtype).smallest_normal) + 1.0


def segment_softmax(scores: Tensor, pattern: Pattern) -> Tensor:
    """Softmax of [nnz, H] scores over the entries of each row."""
    index = pattern.row.to(torch.int64).unsqueeze(-1).expand_as(scores)
    top = scores.new_full((pattern.shape[0], scores.shape[1]), -torch.inf)
    top = top.scatter_reduce(0, index, scores.detach(), "amax")
    below = (scores - top.index_select(0, pattern.row)).clamp_min(lowest_exponent(scores.dtype))
    weights = torch.exp(below)
    return weights / (pattern.indicator @ weights).index_select(0, pattern.row)
