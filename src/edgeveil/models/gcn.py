"""Graph convolution (Kipf & Welling 2017) with LinkTeller's four normalisations."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from edgeveil.models.kernels.operand import FeatureOperand
from edgeveil.models.kernels.ops import Features, matmul, num_columns
from edgeveil.models.network import Layer, Linear, initialise
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure

__all__ = ["GCNLayer", "gcn_layers"]


class GCNLayer(Layer):
    """P X W + b, or P (X W + b) where the bias comes before the aggregation; P is the normalised adjacency."""

    def __init__(
        self, num_in: int, num_out: int, *, norm: str, bias: str = "after", init: str = "glorot", skip: bool = False
    ) -> None:
        super().__init__()
        self.norm, self.place = norm, bias
        self.weight = nn.Parameter(torch.empty(num_in, num_out))
        self.bias = None if bias == "none" else nn.Parameter(torch.empty(num_out))
        initialise(self.weight, self.bias, init)
        self.skip = Linear(num_in, num_out, bias=False) if skip else None

    def forward(self, x: Features, structure: Structure) -> Tensor:
        """Aggregate on the narrower side: before or after the weights, or once for all when P X may be stored."""
        matrix = structure.matrix(self.norm)
        gathered = self._gathered(x, structure)
        if gathered is not None:
            out = matmul(gathered, self.weight)
            if self.bias is not None:
                out.add_(self.bias if self.place == "after" else matrix.row_sums(out.dtype) * self.bias)
        else:
            out = matmul(x, self.weight)
            if self.bias is not None and self.place == "before":
                out.add_(self.bias)
            out = matrix @ out
            if self.bias is not None and self.place == "after":
                out.add_(self.bias)
        return out if self.skip is None else out + structure.targets(self.skip(x))

    def _gathered(self, x: Features, structure: Structure) -> Features | None:
        """P X where the aggregation should come first, else None."""
        width = self.weight.shape[1]
        if isinstance(x, FeatureOperand) and structure.worth_storing(x, self.norm):
            return structure.propagate(x, self.norm)
        if isinstance(x, Tensor) and num_columns(x) < width:
            return structure.matrix(self.norm) @ x
        return None


def gcn_layers(spec: ModelSpec, num_features: int, num_outputs: int) -> list[Layer]:
    """`layers` graph convolutions."""
    widths = [num_features] + [spec.hidden] * (spec.layers - 1) + [num_outputs]
    return [
        GCNLayer(a, b, norm=spec.norm, bias=str(spec.bias), init=spec.init or "glorot", skip=spec.has_skip)
        for a, b in itertools.pairwise(widths)
    ]
