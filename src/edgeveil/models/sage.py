"""GraphSAGE with mean aggregation (Hamilton et al. 2017) and GraphConv (Morris et al. 2019)."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from edgeveil.models.kernels.ops import Features, matmul
from edgeveil.models.network import Layer, initialise
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure

__all__ = ["NeighbourLayer", "neighbour_layers"]


class NeighbourLayer(Layer):
    """P X W_neighbour + b + X W_own with P = D^-1 A (GraphSAGE) or A (GraphConv).

    Aggregation is linear, so it happens after the weights, where the features are narrow, and both products with the
    (sparse) input are one. With a fanout, training draws a fresh neighbour sample per pass; inference uses all.
    """

    def __init__(
        self, num_in: int, num_out: int, *, kind: str, bias: bool, init: str, fanout: int | None = None
    ) -> None:
        super().__init__()
        self.kind, self.fanout, self.width = kind, fanout, num_out
        self.weight = nn.Parameter(torch.empty(num_in, num_out))
        self.own = nn.Parameter(torch.empty(num_in, num_out))
        self.bias = nn.Parameter(torch.empty(num_out)) if bias else None
        initialise(self.weight, self.bias, init)
        initialise(self.own, None, init)

    def forward(self, x: Features, structure: Structure) -> Tensor:
        """Neighbours' part plus the node's own."""
        both = matmul(x, torch.cat([self.weight, self.own], dim=1))
        sampled = self.training and self.fanout is not None
        matrix = structure.sampled_mean(self.fanout or 1) if sampled else structure.matrix(self.kind)
        out = matrix @ both[:, : self.width] + structure.targets(both[:, self.width :])
        return out if self.bias is None else out + self.bias


def neighbour_layers(spec: ModelSpec, num_features: int, num_outputs: int, kind: str) -> list[Layer]:
    """`layers` GraphSAGE (`kind` mean) or GraphConv (sum) layers."""
    widths = [num_features] + [spec.hidden] * (spec.layers - 1) + [num_outputs]
    return [
        NeighbourLayer(a, b, kind=kind, bias=spec.bias != "none", init=spec.init or "uniform-in", fanout=spec.fanout)
        for a, b in itertools.pairwise(widths)
    ]
