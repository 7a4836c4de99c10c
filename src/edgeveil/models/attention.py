"""Layers that learn their edge weights: GAT, GATv2 and the graph transformer.

Per entry of the adjacency only one number per head is kept, never a message (`softmax_mix`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from edgeveil.models.kernels.additive import SLOPE, additive_scores
from edgeveil.models.kernels.mixing import softmax_mix
from edgeveil.models.kernels.ops import Features, edge_sum, matmul, sddmm
from edgeveil.models.kernels.pattern import Pattern
from edgeveil.models.network import Layer, Linear, initialise
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure

__all__ = ["AttentionLayer", "GATLayer", "GATv2Layer", "TransformerLayer", "attention_layers"]


def _attention_vector(heads: int, width: int) -> nn.Parameter:
    vector = nn.Parameter(torch.empty(heads, width))
    initialise(vector, None, "glorot")
    return vector


class AttentionLayer(Layer):
    """Softmax-weighted sum of neighbours per head; heads are concatenated, or averaged in the last layer."""

    loops = True

    def __init__(self, num_in: int, width: int, *, heads: int, concat: bool, bias: bool, skip: bool) -> None:
        super().__init__()
        self.num_in, self.width, self.heads, self.concat = num_in, width, heads, concat
        out = heads * width if concat else width
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None
        self.skip = Linear(num_in, out, bias=self.skip_bias and bias) if skip else None

    skip_bias = False

    def attend(self, x: Features, pattern: Pattern, structure: Structure) -> tuple[Sequence[Tensor], Tensor]:
        """Scores before the softmax, [nnz] per head, and the values [n, heads * width] to be mixed."""
        raise NotImplementedError

    def forward(self, x: Features, structure: Structure) -> Tensor:
        """Attend, mix, join the heads."""
        pattern = structure.pattern(loops=self.loops)
        scores, values = self.attend(x, pattern, structure)
        parts = [
            softmax_mix(own, values[:, h * self.width : (h + 1) * self.width], pattern) for h, own in enumerate(scores)
        ]
        out = torch.cat(parts, dim=1) if self.concat else torch.stack(parts).mean(0)
        if self.bias is not None:
            out = out + self.bias
        return out if self.skip is None else out + structure.targets(self.skip(x))

    def _by_head(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.heads, self.width)


class GATLayer(AttentionLayer):
    """Veličković et al. 2018: e_ij = LeakyReLU(a_src · W x_j + a_dst · W x_i), self-loops included."""

    def __init__(self, num_in: int, width: int, *, heads: int, concat: bool, bias: bool, skip: bool) -> None:
        super().__init__(num_in, width, heads=heads, concat=concat, bias=bias, skip=skip)
        self.weight = Linear(num_in, heads * width, bias=False, init="glorot")
        self.source, self.target = _attention_vector(heads, width), _attention_vector(heads, width)

    def attend(self, x: Features, pattern: Pattern, structure: Structure) -> tuple[Sequence[Tensor], Tensor]:
        """Scores are sums of two per-node numbers."""
        values = self.weight(x)
        split = self._by_head(values)
        from_source, from_target = (split * self.source).sum(-1), structure.targets((split * self.target).sum(-1))
        sums = [edge_sum(from_target[:, h], from_source[:, h], pattern) for h in range(self.heads)]
        return [nn.functional.leaky_relu(own, SLOPE) for own in sums], values


class GATv2Layer(AttentionLayer):
    """Brody et al. 2022: e_ij = a · LeakyReLU(W_l x_j + W_r x_i), self-loops included."""

    def __init__(self, num_in: int, width: int, *, heads: int, concat: bool, bias: bool, skip: bool) -> None:
        super().__init__(num_in, width, heads=heads, concat=concat, bias=bias, skip=skip)
        self.source = Linear(num_in, heads * width, bias=bias, init="glorot")
        self.target = Linear(num_in, heads * width, bias=bias, init="glorot")
        self.vector = _attention_vector(heads, width)

    def attend(self, x: Features, pattern: Pattern, structure: Structure) -> tuple[Sequence[Tensor], Tensor]:
        """Additive attention on the entries of the adjacency."""
        values, wanted = self.source(x), structure.targets(self.target(x))
        return additive_scores(values, wanted, self.vector, pattern).unbind(), values


class TransformerLayer(AttentionLayer):
    """Shi et al. 2021: e_ij = <q_i, k_j> / sqrt(width) over neighbours, values and a linear skip; no self-loops."""

    loops = False
    skip_bias = True

    def __init__(self, num_in: int, width: int, *, heads: int, concat: bool, bias: bool, skip: bool) -> None:
        super().__init__(num_in, width, heads=heads, concat=concat, bias=False, skip=skip)
        if self.skip is not None:
            self.skip = Linear(num_in, heads * width if concat else width, bias=bias)
        self.query = Linear(num_in, heads * width, bias=bias)
        self.key = Linear(num_in, heads * width, bias=bias)
        self.value = Linear(num_in, heads * width, bias=bias)

    def attend(self, x: Features, pattern: Pattern, structure: Structure) -> tuple[Sequence[Tensor], Tensor]:
        """Scaled dot products on the entries of the adjacency only."""
        joined = matmul(x, torch.cat([self.query.weight, self.key.weight, self.value.weight], dim=1))
        if self.query.bias is not None and self.key.bias is not None and self.value.bias is not None:
            joined = joined + torch.cat([self.query.bias, self.key.bias, self.value.bias])
        query, key, value = joined.chunk(3, dim=1)
        query = structure.targets(query) / math.sqrt(self.width)
        scores = [
            sddmm(query[:, at : at + self.width], key[:, at : at + self.width], pattern)
            for at in range(0, self.heads * self.width, self.width)
        ]
        return scores, value


def attention_layers(spec: ModelSpec, num_features: int, num_outputs: int, kind: type[AttentionLayer]) -> list[Layer]:
    """Hidden layers with `heads` concatenated heads of width `hidden`; a last layer with `out_heads` averaged ones."""
    layers, width = list[Layer](), num_features
    for depth in range(spec.layers):
        last = depth + 1 == spec.layers
        heads, out = (spec.out_heads, num_outputs) if last else (spec.heads, spec.hidden)
        layers.append(kind(width, out, heads=heads, concat=not last, bias=spec.bias != "none", skip=spec.has_skip))
        width = heads * out
    return layers
