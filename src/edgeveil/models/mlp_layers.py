"""The multilayer perceptron: the model that never sees an edge."""

from __future__ import annotations

import itertools

from torch import Tensor

from edgeveil.models.kernels.ops import Features
from edgeveil.models.network import Layer, Linear
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure

__all__ = ["DenseLayer", "mlp_layers"]


class DenseLayer(Layer):
    """A fully connected layer; the structure is ignored."""

    def __init__(self, num_in: int, num_out: int, *, bias: bool, init: str) -> None:
        super().__init__()
        self.linear = Linear(num_in, num_out, bias=bias, init=init)

    def forward(self, x: Features, structure: Structure) -> Tensor:
        """x W + b."""
        return self.linear(x)  # type: ignore[no-any-return]


def mlp_layers(spec: ModelSpec, num_features: int, num_outputs: int) -> list[Layer]:
    """`layers` fully connected layers (LPGNet's "2 hidden layers" are layers=2)."""
    widths = [num_features] + [spec.hidden] * (spec.layers - 1) + [num_outputs]
    init = spec.init or "uniform-in"
    return [DenseLayer(a, b, bias=spec.bias != "none", init=init) for a, b in itertools.pairwise(widths)]
