"""Directional derivatives through attention layers, for many queries at once.

With weights a_uw = softmax_w(e_uw) and values v_w, a query that moves scores by de and values by dv moves the output
of u by sum_w a_uw dv_w + sum_w a_uw (de_uw - sum_k a_uk de_uk) v_w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeveil.models.attention import AttentionLayer, GATLayer, GATv2Layer, TransformerLayer
from edgeveil.models.kernels.additive import SLOPE
from edgeveil.models.kernels.ops import Features, segment_softmax
from edgeveil.models.kernels.tangents import LIMIT, Tangents, TooMany, find
from edgeveil.models.structure import Structure

__all__ = ["AttentionPass", "attention_step"]

Array = NDArray[Any]
Product = Callable[[Tensor], Array]


@dataclass
class AttentionPass:
    """One attention layer in the base pass: all that the derivatives of every query share, computed once."""

    layer: AttentionLayer
    inputs: Features
    structure: Structure
    receivers: Array | None  # of the last layer; None: all nodes

    @cached_property
    def csr(self) -> Any:
        """Row u lists whom u hears."""
        return self.structure.pattern(loops=self.layer.loops).csr

    @cached_property
    def hearers(self) -> Any:
        """Row w lists the receivers (renumbered) that w's change reaches, itself among them."""
        whole = (self.csr + sp.identity(self.csr.shape[0], format="csr")).T.tocsr()
        return whole if self.receivers is None else whole[:, self.receivers].tocsr()

    @cached_property
    def _attended(self) -> tuple[Array, Array]:
        pattern = self.structure.pattern(loops=self.layer.loops)
        scores, values = self.layer.attend(self.inputs, pattern, self.structure)
        return segment_softmax(torch.stack(list(scores), dim=1), pattern).numpy(), values.numpy()

    @property
    def weights(self) -> Array:
        """Attention [entries, heads]."""
        return self._attended[0]

    @property
    def values(self) -> Array:
        """What is mixed, [n, heads * width]."""
        return self._attended[1]

    @cached_property
    def parts(self) -> tuple[Array, Array]:
        """What makes the scores, per node: the sending and the receiving part, [n, heads] or [n, heads, width]."""
        layer, x = self.layer, self.inputs
        if isinstance(layer, GATLayer):
            split = _heads(self.values, layer)
            return (split * layer.source.detach().numpy()).sum(-1), (split * layer.target.detach().numpy()).sum(-1)
        assert isinstance(layer, (GATv2Layer, TransformerLayer))
        pair = (layer.source, layer.target) if isinstance(layer, GATv2Layer) else (layer.key, layer.query)
        sent, heard = (_heads(part(x).numpy(), layer) for part in pair)
        return sent, heard


class _Reach:
    """Which (query, node) pairs a layer reaches, and the attention entries that decide them."""

    def __init__(self, t: Tangents, base: AttentionPass) -> None:
        csr, n = base.csr, t.num_nodes
        keys, _ = t.hop(base.hearers)
        width = base.hearers.shape[1]
        self.query, self.place = keys // width, keys % width
        self.node = self.place if base.receivers is None else base.receivers[self.place]
        lengths = np.diff(csr.indptr)[self.node]
        self.indptr = np.concatenate([[0], np.cumsum(lengths)])
        self.owner = np.repeat(np.arange(len(keys)), lengths)
        self.entry = np.arange(self.indptr[-1]) - np.repeat(self.indptr[:-1] - csr.indptr[self.node], lengths)
        self.sender = csr.indices[self.entry]
        self.own = find(t.keys, self.query * n + self.node)  # place of (query, node) among the old pairs, or -1
        self.old = find(t.keys, self.query[self.owner] * n + self.sender)

    def __len__(self) -> int:
        return len(self.query)

    def gather(self, values: Array, places: Array) -> Array:
        """Rows of `values` at `places`, zero where nothing moved."""
        return np.concatenate([values, np.zeros((1, *values.shape[1:]))])[places]


def attention_step(base: AttentionPass, t: Tangents, product: Product) -> Tangents:
    """Carry the tangents through one attention layer; `product(W)` is the layer input's derivative times W."""
    layer = base.layer
    reach = _Reach(t, base)
    if len(reach.owner) * layer.heads * layer.width > LIMIT and t.num_queries > 1:
        raise TooMany
    weights = base.weights[reach.entry]
    change, d_values = _score_change(base, reach, product)
    count = len(reach.owner)
    sums = sp.csr_matrix((np.ones(count), np.arange(count), reach.indptr), shape=(len(reach), count))
    moved = weights * (change - (sums @ (weights * change))[reach.owner])
    out = _mix(layer, reach, weights, moved, base.values, d_values)
    if layer.skip is not None:
        out = out + reach.gather(product(layer.skip.weight), reach.own)
    return Tangents(reach.query, reach.place, out, t.num_queries, base.hearers.shape[1])


def _mix(layer: AttentionLayer, reach: _Reach, weights: Array, moved: Array, values: Array, d_values: Array) -> Array:
    """Both sums of the derivative, head by head."""
    parts = []
    carried = reach.old >= 0
    for head in range(layer.heads):
        part = slice(head * layer.width, (head + 1) * layer.width)
        by_weight = sp.csr_matrix((moved[:, head], reach.sender, reach.indptr), shape=(len(reach), len(values)))
        by_value = sp.csr_matrix(
            (weights[carried, head], (reach.owner[carried], reach.old[carried])),
            shape=(len(reach), len(d_values)),
        )
        parts.append(by_weight @ values[:, part] + by_value @ d_values[:, part])
    return np.concatenate(parts, axis=1) if layer.concat else np.mean(parts, axis=0)


def _heads(x: Array, layer: AttentionLayer) -> Array:
    return x.reshape(len(x), layer.heads, layer.width)


def _score_change(base: AttentionPass, reach: _Reach, product: Product) -> tuple[Array, Array]:
    """Derivative of the scores [entries, heads] and of the values on the old pairs [pairs, heads * width].

    A score changes only if its sender or its receiver moved, which is one entry in many.
    """
    layer, at = base.layer, np.flatnonzero((reach.old >= 0) | (reach.own[reach.owner] >= 0))
    sender, owner, old = reach.sender[at], reach.owner[at], reach.old[at]
    receiver, own = reach.node[owner], reach.own[owner]
    sent, heard = base.parts
    if isinstance(layer, TransformerLayer):
        d_values = product(layer.value.weight)
        d_query, d_key = (_heads(product(part.weight), layer) for part in (layer.query, layer.key))
        moved = (heard[receiver] * reach.gather(d_key, old)).sum(-1)
        moved += (reach.gather(d_query, own) * sent[sender]).sum(-1)
        moved /= math.sqrt(layer.width)
    elif isinstance(layer, GATLayer):
        d_values = product(layer.weight.weight)
        split = _heads(d_values, layer)
        d_sent, d_heard = ((split * a.detach().numpy()).sum(-1) for a in (layer.source, layer.target))
        moved = _slope(sent[sender] + heard[receiver]) * (reach.gather(d_sent, old) + reach.gather(d_heard, own))
    else:
        assert isinstance(layer, GATv2Layer)
        d_values = product(layer.source.weight)
        d_sent, d_heard = _heads(d_values, layer), _heads(product(layer.target.weight), layer)
        moved = _slope(sent[sender] + heard[receiver]) * (reach.gather(d_sent, old) + reach.gather(d_heard, own))
        moved = (moved * layer.vector.detach().numpy()).sum(-1)
    change = np.zeros((len(reach.owner), layer.heads))
    change[at] = moved
    return change, d_values


def _slope(before: Array) -> Array:
    return np.where(before > 0, 1.0, SLOPE)
