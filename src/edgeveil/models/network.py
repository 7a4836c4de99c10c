"""The frame every model shares: a stack of layers over prepared structure."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from edgeveil.errors import GraphError
from edgeveil.models.kernels.operand import Deferred, FeatureOperand
from edgeveil.models.kernels.ops import Features, activate, matmul, num_columns, num_rows
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure

__all__ = ["Layer", "Linear", "Model", "initialise", "kprop"]


def initialise(weight: Tensor, bias: Tensor | None, how: str) -> None:
    """Fill a [in, out] weight and its bias in place, from torch's generator."""
    fan_in, fan_out = weight.shape
    bound = {
        "glorot": math.sqrt(6.0 / (fan_in + fan_out)),
        "uniform-out": 1.0 / math.sqrt(fan_out),
        "uniform-in": 1.0 / math.sqrt(fan_in),
    }[how]
    with torch.no_grad():
        weight.uniform_(-bound, bound)
        if bias is not None:
            bias.zero_() if how == "glorot" else bias.uniform_(-bound, bound)


class Linear(nn.Module):
    """x W + b with W stored [in, out], so that sparse features can be the left factor."""

    def __init__(self, num_in: int, num_out: int, *, bias: bool = True, init: str = "uniform-in") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_in, num_out))
        self.bias = nn.Parameter(torch.empty(num_out)) if bias else None
        initialise(self.weight, self.bias, init)

    def forward(self, x: Features) -> Tensor:
        """x W + b."""
        out = matmul(x, self.weight)
        return out if self.bias is None else out + self.bias


class Layer(nn.Module):
    """One message-passing step: features of all nodes to features of all nodes."""

    def forward(self, x: Features, structure: Structure) -> Tensor:
        """New node features."""
        raise NotImplementedError


def kprop(x: Features, structure: Structure, steps: int) -> Features:
    """KProp (Sajadmanesh & Gatica-Perez 2021): `steps` times D^-1/2 A D^-1/2 x, no self-loops, nothing learnt.

    Linear, so it may be deferred behind the first weights; training stores the propagated features where that is
    cheaper per pass.
    """
    if isinstance(x, FeatureOperand) and steps and not structure.worth_propagating(x, "sym", steps):
        return Deferred(x, structure.matrix("sym"), steps)
    for _ in range(steps):
        assert not isinstance(x, Deferred)
        x = structure.propagate(x, "sym") if isinstance(x, FeatureOperand) else structure.matrix("sym") @ x
    return x


class Model(nn.Module):
    """A stack of layers with activation and dropout between them. Logits, not probabilities."""

    def __init__(self, spec: ModelSpec, num_features: int, num_outputs: int, layers: list[Layer]) -> None:
        super().__init__()
        self.spec, self.num_features, self.num_outputs = spec, num_features, num_outputs
        self.layers = nn.ModuleList(layers)
        self._local = spec.local

    @property
    def stored(self) -> nn.Module:
        """Whose state dict a file keeps."""
        return self

    def prepare(self, adjacency: Any) -> Structure:
        """What `forward` needs of a graph; adjacency: scipy CSR, row i lists whom node i aggregates from."""
        return adjacency if isinstance(adjacency, Structure) else Structure(adjacency)

    def forward(self, x: Features, structure: Structure) -> Tensor:
        """Logits [n, outputs] for all nodes."""
        return self.rest(self.first(x, structure), structure)

    def first(self, x: Features, structure: Structure) -> Tensor:
        """The first layer, before its activation. But for a fanout it does the same in training as outside."""
        if num_columns(x) != self.num_features:
            raise GraphError(f"the model was built for {self.num_features} features, these have {num_columns(x)}")
        if not self._local and num_rows(x) != structure.num_nodes:
            raise GraphError(f"{num_rows(x)} feature rows for a graph of {structure.num_nodes} nodes; they must match")
        out: Tensor = self.layers[0](kprop(x, structure, self.spec.kprop), self._level(structure, 0))
        return out

    def rest(self, out: Tensor, structure: Structure) -> Tensor:
        """What follows the first layer; may overwrite `out` where no gradient is wanted."""
        for depth in range(1, len(self.layers)):
            h = activate(out, self.spec.activation, self.spec.dropout if self.training else 0.0)
            out = self.layers[depth](h, self._level(structure, depth))
        return out

    def _level(self, structure: Structure, depth: int) -> Structure:
        return structure if self._local else structure.level(depth)
