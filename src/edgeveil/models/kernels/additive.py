"""Additive attention scores e_ij = a_h · LeakyReLU(v_j + w_i) per entry and head, for GATv2.

The nonlinearity sits between the two nodes, so every entry needs a row as wide as all heads. Entries are scored in
chunks that stay in the processor's cache; going backward they are scored again instead of kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from edgeveil.models.kernels.ops import looped
from edgeveil.models.kernels.pattern import Pattern
from edgeveil.models.kernels.spmm import csr_product, csr_tensor

__all__ = ["SLOPE", "additive_scores"]

SLOPE = 0.2
_CHUNK = 1 << 17  # numbers in one chunk


def additive_scores(values: Tensor, wanted: Tensor, vector: Tensor, pattern: Pattern) -> Tensor:
    """[heads, nnz] from v [senders, heads * width], w [receivers, heads * width] and a [heads, width]."""
    out: Tensor = _Additive.apply(values, wanted, vector, pattern)  # type: ignore[no-untyped-call]
    return out


class _Additive(torch.autograd.Function):
    @staticmethod
    def forward(values: Tensor, wanted: Tensor, vector: Tensor, pattern: Pattern) -> Tensor:
        out = values.new_empty(len(vector), pattern.nnz)
        apart = _apart(vector)
        for at, end, sums in _sums(values, wanted, pattern):
            out[:, at:end] = (torch.nn.functional.leaky_relu_(sums, SLOPE) @ apart).T
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Pattern], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:3])
        ctx.save_for_forward(*inputs[:3])
        ctx.pattern = inputs[3]

    @staticmethod
    def jvp(ctx: Any, d_values: Tensor | None, d_wanted: Tensor | None, d_vector: Tensor | None, _: None) -> Tensor:
        values, wanted, vector = ctx.saved_tensors
        j, i = ctx.pattern.col, ctx.pattern.row
        sums = values.index_select(0, j) + wanted.index_select(0, i)
        moved = 0.0 if d_values is None else d_values.index_select(0, j)
        moved = moved if d_wanted is None else moved + d_wanted.index_select(0, i)
        out: Tensor = (torch.where(sums > 0, 1.0, SLOPE) * moved) @ _apart(vector)
        if d_vector is not None:
            out = out + torch.nn.functional.leaky_relu(sums, SLOPE) @ _apart(d_vector)
        return out.T

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Tensor, int]:
        return looped(additive_scores, in_dims, inputs, info.batch_size)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        values, wanted, vector = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        to_values, to_wanted = torch.zeros_like(values), torch.zeros_like(wanted)
        apart = _apart(vector)
        to_apart = torch.zeros_like(apart)
        for at, end, sums in _sums(values, wanted, pattern):
            own = grad[:, at:end].T
            to_sums = torch.ops.aten.leaky_relu_backward(own @ apart.T, sums, SLOPE, False)
            to_apart.addmm_(torch.nn.functional.leaky_relu_(sums, SLOPE).T, own)
            to_values.index_add_(0, pattern.col[at:end].long(), to_sums)  # 32-bit indices: three times as slow
            first, rows = _row_sums(to_sums, pattern, at, end)
            to_wanted[first : first + len(rows)] += rows
        heads, width = vector.shape
        own_head = torch.arange(heads)
        to_vector = to_apart.reshape(heads, width, heads)[own_head, :, own_head]
        return to_values, to_wanted, to_vector, None


def _apart(vector: Tensor) -> Tensor:
    """a as a block-diagonal [heads * width, heads] matrix: one product scores all heads."""
    return torch.block_diag(*vector.unsqueeze(-1))  # type: ignore[no-untyped-call,no-any-return]


def _sums(values: Tensor, wanted: Tensor, pattern: Pattern) -> Iterator[tuple[int, int, Tensor]]:
    """v_j + w_i of the entries from `at` to `end`, chunk by chunk."""
    step = max(1, _CHUNK // max(values.shape[1], 1))
    for at in range(0, pattern.nnz, step):
        end = min(at + step, pattern.nnz)
        sums = values.index_select(0, pattern.col[at:end])
        yield at, end, sums.add_(wanted.index_select(0, pattern.row[at:end]))


def _row_sums(entries: Tensor, pattern: Pattern, at: int, end: int) -> tuple[int, Tensor]:
    """The first receiving node of a chunk, and the chunk's sums for it and those after it."""
    first, last = int(pattern.row[at]), int(pattern.row[end - 1])
    crow = pattern.crow[first : last + 2].clamp(at, end) - at
    places = torch.arange(end - at, dtype=torch.int32)
    ones = entries.new_ones(end - at)
    return first, csr_product(csr_tensor(crow, places, ones, (last + 1 - first, end - at)), entries)
