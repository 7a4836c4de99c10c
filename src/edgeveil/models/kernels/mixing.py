"""Attention of one head over the entries of a pattern: y_i = sum_j a_ij v_j with a_i = softmax of i's scores.

Weights stay unnormalised, e_ij = exp(s_ij - max_k s_ik): one sparse product with [v, 1] gives numerator and denominator
d_i together. Backward, with g_i the derivative of y_i over d_i: ds_ij = e_ij (<g_i, v_j> - <g_i, y_i>), one sampled
product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgeveil.models.kernels.ops import each, lowest_exponent, sampled, weighted, weighted_spmm
from edgeveil.models.kernels.pattern import Pattern

__all__ = ["softmax_mix"]


def softmax_mix(scores: Tensor, values: Tensor, pattern: Pattern) -> Tensor:
    """Rows [receivers, width] from scores [nnz] and values [senders, width]; zero where nothing is received."""
    out: Tensor = _Mix.apply(scores, values, pattern)[0]  # type: ignore[no-untyped-call]
    return out


class _Mix(torch.autograd.Function):
    """Gives the rows, and for the derivatives e and d."""

    @staticmethod
    def forward(scores: Tensor, values: Tensor, pattern: Pattern) -> tuple[Tensor, Tensor, Tensor]:
        below = scores - pattern.row_largest(scores).index_select(0, pattern.row)
        weights = below.clamp_min_(lowest_exponent(scores.dtype)).exp_()
        both = weighted(weights, torch.cat([values, values.new_ones(len(values), 1)], dim=1), pattern)
        total = both[:, -1:].clamp_min(torch.finfo(both.dtype).tiny)
        return both[:, :-1] / total, weights, total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Pattern], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(inputs[1], *output)
        ctx.save_for_forward(inputs[1], *output)
        ctx.pattern = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, Tensor | None, None]:
        values, out, weights, total = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        grad = grad / total
        to_scores = to_values = None
        if ctx.needs_input_grad[0]:
            centre = (grad * out).sum(1)
            to_scores = sampled(grad, values, pattern).sub_(centre.index_select(0, pattern.row)).mul_(weights)
        if ctx.needs_input_grad[1]:
            to_values = weighted(pattern.turned(weights), grad, pattern.T)
        return to_scores, to_values, None

    @staticmethod
    def jvp(ctx: Any, d_scores: Tensor | None, d_values: Tensor | None, _: None) -> tuple[Tensor, None, None]:
        values, out, weights, total = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        share = weights / total.squeeze(1).index_select(0, pattern.row)
        change = torch.zeros_like(out) if d_values is None else weighted_spmm(share, d_values, pattern)
        if d_scores is not None:
            moved = share * d_scores
            mean = weighted_spmm(moved, values.new_ones(len(values), 1), pattern)
            change = change + weighted_spmm(moved, values, pattern) - mean * out
        return change, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int]]:
        found = [_Mix.apply(*own) for own in each(in_dims, inputs, info.batch_size)]  # type: ignore[no-untyped-call]
        rows, weights, totals = (torch.stack(part) for part in zip(*found, strict=True))
        return (rows, weights, totals), (0, 0, 0)
