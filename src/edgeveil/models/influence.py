"""Exact LinkTeller influence of a model at hand: the derivative that Algorithm 1 approximates by a query per node.

The base pass is run once for all nodes. Then the derivatives of a batch of queries travel through the layers, each
touching only the neighbourhood it has reached (Theorem 1: beyond k hops there is nothing). Layers that aggregate
linearly (GCN, GraphSAGE, GraphConv, KProp) have a closed form; attention layers differentiate their softmax too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.attention import AttentionLayer, GATLayer, GATv2Layer, TransformerLayer
from edgeveil.models.gcn import GCNLayer
from edgeveil.models.kernels import threads
from edgeveil.models.kernels.attention_tangents import AttentionPass, attention_step
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.kernels.ops import Features, activate, matmul
from edgeveil.models.kernels.tangents import LIMIT, Tangents, TooMany
from edgeveil.models.mlp_layers import DenseLayer
from edgeveil.models.module import ModuleModel
from edgeveil.models.module_influence import can_differentiate, module_influence
from edgeveil.models.network import Layer, Model, kprop
from edgeveil.models.sage import NeighbourLayer
from edgeveil.models.structure import Structure

__all__ = ["has_influence", "influence"]

Array = NDArray[Any]
KNOWN: frozenset[type] = frozenset({GCNLayer, NeighbourLayer, DenseLayer, GATLayer, GATv2Layer, TransformerLayer})


def has_influence(model: Any) -> bool:
    """Whether the derivative of every part is known here; a subclass may compute anything, so it does not count.

    A module from outside is differentiated as a whole, if it can be.
    """
    if isinstance(model, ModuleModel):
        return can_differentiate(model)
    return type(model) is Model and all(type(layer) in KNOWN for layer in model.layers)


def influence(
    model: Model,
    x: FeatureMatrix,
    adjacency: Any,
    nodes: Any,
    targets: Any = None,
    *,
    move: Any = None,
    along: Any = None,
) -> sp.csr_matrix:
    """Entry [i, j]: exact influence of nodes[i] on targets[j] (default: on `nodes`), float64.

    `adjacency` is CSR (row i lists whom node i hears) or a prepared `Structure`. `move`: the row of features along
    which every node moves (default: its own). `along`: this combination of the outputs, signed, instead of their norm.
    """
    if not has_influence(model):
        raise InputError(f"no exact influence for {_unknown(model)}; attack it with mode='query'")
    senders = np.asarray(nodes, np.int64)
    receivers = senders if targets is None else np.asarray(targets, np.int64)
    if isinstance(model, ModuleModel):
        return module_influence(model, x, model.prepare(adjacency), senders, receivers, move, along)
    if model.spec.local:
        return sp.csr_matrix(_own(model, x, senders, receivers, move, along))
    with torch.no_grad(), threads.limited(None), threads.flushing():
        work = _Pass(_double(model), FeatureMatrix.wrap(x), model.prepare(adjacency), receivers, move, along)
        blocks = work.batches(senders, max(1, LIMIT // max(work.structure.num_nodes, 1)))
        return sp.vstack(blocks, format="csr") if blocks else sp.csr_matrix((0, len(receivers)))


def _unknown(model: Any) -> str:
    parts = [model, *model.layers] if type(model) is Model else [model]
    return f"a {next(type(p).__name__ for p in reversed(parts) if type(p) not in KNOWN)}"


def _jvp(function: Callable[[Tensor], Tensor], at: Tensor, along: Tensor) -> tuple[Tensor, Tensor]:
    value, change = torch.func.jvp(function, (at,), (along,))[:2]
    return value, change


def _double(model: Model) -> Model:
    if not model.training and all(p.dtype == torch.float64 for p in model.parameters()):
        return model
    return copy.deepcopy(model).double().eval()


def _own(model: Model, x: FeatureMatrix, senders: Array, receivers: Array, move: Any, along: Any) -> Any:
    """A model without edges: a node moves itself and nobody else."""
    dense = as_operand(FeatureMatrix.wrap(x).take(senders), "float64").dense()
    step = dense if move is None else torch.as_tensor(np.asarray(move, np.float64)).reshape(1, -1).expand_as(dense)
    exact: Any = _double(model)
    with torch.no_grad():
        _, change = _jvp(lambda h: exact(h, None), dense, step.contiguous())
    norm = change.norm(dim=1).numpy() if along is None else change.numpy() @ np.asarray(along, np.float64)
    size = max(senders.max(initial=0), receivers.max(initial=0)) + 1
    places = sp.csr_matrix((norm, senders, np.arange(len(senders) + 1)), shape=(len(senders), size))
    return places[:, receivers]


@dataclass
class _Pass:
    """One model on one graph: what the base pass left behind, and how a batch travels through it."""

    model: Model
    x: FeatureMatrix
    structure: Structure
    receivers: Array
    move: Any = None
    along: Any = None
    attention: dict[Layer, AttentionPass] = field(default_factory=dict)

    @cached_property
    def base(self) -> tuple[list[Features], list[Array]]:
        """The input of every layer in the base pass, and the slope of every activation between layers."""
        h: Features = kprop(as_operand(self.x, "float64"), self.structure, self.model.spec.kprop)
        inputs: list[Features] = [h]
        slopes: list[Array] = []
        for layer in list(self.model.layers)[:-1]:
            before = layer(h, self.structure)
            h, slope = _jvp(self._activated, before, torch.ones_like(before))
            slopes.append(slope.numpy())
            inputs.append(h)
        return inputs, slopes

    def _activated(self, before: Tensor) -> Tensor:
        return activate(before, self.model.spec.activation, 0.0)

    def columns(self, kind: str, last: bool) -> Any:
        """P transposed, cut to the receivers (renumbered) in the last layer."""
        whole = self.structure.matrix(kind).T.csr
        return whole[:, self.receivers].tocsr() if last else whole

    def batches(self, senders: Array, size: int) -> list[Any]:
        """Rows of the result, cutting a batch that reaches too far in four."""
        out: list[Any] = []
        for at in range(0, len(senders), size):
            part = senders[at : at + size]
            try:
                out.append(self.batch(part))
            except TooMany:
                out.extend(self.batches(part, (len(part) + 3) // 4))
        return out

    def batch(self, senders: Array) -> sp.csr_matrix:
        """Influence of these senders on the receivers."""
        inputs, slopes = self.base
        t = Tangents.start(senders, self.structure.num_nodes)
        t = t.spread(self.structure.matrix("sym"), self.model.spec.kprop)
        moved = self.x.take(senders) if self.move is None else FeatureMatrix.wrap(np.atleast_2d(self.move))
        rows: Any = as_operand(moved, "float64")
        depth = len(self.model.layers)
        for at, layer in enumerate(self.model.layers):
            t = self.step(cast(Layer, layer), inputs[at], t, rows if at == 0 else None, at + 1 == depth)
            if at + 1 < depth:
                t = t.replace(t.value * slopes[at][t.node])
        return t.matrix(len(self.receivers), self.along)

    def step(self, layer: Layer, base: Features, t: Tangents, rows: Any, last: bool) -> Tangents:
        """One layer. `rows`: the queries' own features, still to be multiplied, in front of the first layer."""

        def product(weight: Tensor) -> Array:
            if rows is None:
                return t.value @ weight.detach().numpy()  # type: ignore[no-any-return]
            step = matmul(rows, weight).detach().numpy()
            return t.value * (step if len(step) == 1 else step[t.query])  # type: ignore[no-any-return]

        if isinstance(layer, AttentionLayer):
            if layer not in self.attention:
                receivers = self.receivers if last else None
                self.attention[layer] = AttentionPass(layer, base, self.structure, receivers)
            return attention_step(self.attention[layer], t, product)
        if isinstance(layer, GCNLayer):
            own = None if layer.skip is None else product(layer.skip.weight)
            return self._linear(t, layer.norm, product(layer.weight), own, last)
        if isinstance(layer, NeighbourLayer):
            return self._linear(t, layer.kind, product(layer.weight), product(layer.own), last)
        if isinstance(layer, DenseLayer):
            stay = self._stay(last)
            keys, carry = t.hop(stay)
            return t.at(keys, carry @ product(layer.linear.weight), stay.shape[1])
        raise InputError(f"no exact influence for a {type(layer).__name__}; attack it with mode='query'")

    def _linear(self, t: Tangents, kind: str, value: Array, own: Array | None, last: bool) -> Tangents:
        """P (value) + own."""
        columns = self.columns(kind, last)
        n = columns.shape[1]
        if own is None:
            keys, carry = t.hop(columns)
            return t.at(keys, _carried(t, carry, value), n)
        stay = self._stay(last)
        keys, carry = t.hop(_union(columns, stay))
        moved, kept = t.hop(stay)
        out = _carried(t, carry, value)
        out[np.searchsorted(keys, moved)] += kept @ own
        return t.at(keys, out, n)

    def _stay(self, last: bool) -> Any:
        whole = sp.identity(self.structure.num_nodes, format="csr")
        return whole[:, self.receivers].tocsr() if last else whole


def _carried(t: Tangents, carry: Any, value: Array) -> Array:
    if carry.shape[0] * value.shape[1] > LIMIT and t.num_queries > 1:
        raise TooMany
    return carry @ value  # type: ignore[no-any-return]


def _union(columns: Any, stay: Any) -> Any:
    """`columns` with explicit (possibly zero) entries where `stay` has some."""
    a, b = columns.tocoo(), stay.tocoo()
    data = np.concatenate([a.data, np.zeros(b.nnz)])
    return sp.csr_matrix((data, (np.r_[a.row, b.row], np.r_[a.col, b.col])), shape=columns.shape)
