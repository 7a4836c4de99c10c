"""Directional derivatives through attention layers, for many queries at once.

With weights a_uw = softmax_w(e_uw) and values v_w, a query that moves scores by de and values by dv moves the output
of u by sum_w a_uw dv_w + sum_w a_uw (de_uw - sum_k a_uk de_uk) v_w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeveil.models.additive import SLOPE
from edgeveil.models.attention import AttentionLayer, GATLayer, GATv2Layer, TransformerLayer
from edgeveil.models.ops import Features, segment_softmax
from edgeveil.models.structure import Structure
from edgeveil.models.tangents import LIMIT, Tangents, TooMany, find

__all__ = ["attention_step"]

Array = NDArray[Any]
Product = Callable[[Tensor], Array]


class _Reach:
    """Which (query, node) pairs a layer reaches, and the attention entries that decide them."""

    def __init__(self, t: Tangents, csr: Any, receivers: Array | None) -> None:
        hear = (csr + sp.identity(csr.shape[0], format="csr")).T.tocsr()
        keys, _ = t.hop(hear)
        if receivers is not None:
            wanted = np.zeros(t.num_nodes, dtype=bool)
            wanted[receivers] = True
            keys = keys[wanted[keys % t.num_nodes]]
        self.pairs = t.at(keys, np.empty((len(keys), 0)))
        lengths = np.diff(csr.indptr)[self.pairs.node]
        self.indptr = np.concatenate([[0], np.cumsum(lengths)])
        self.owner = np.repeat(np.arange(len(keys)), lengths)
        self.entry = np.arange(self.indptr[-1]) - np.repeat(self.indptr[:-1] - csr.indptr[self.pairs.node], lengths)
        self.sender = csr.indices[self.entry]
        self.own = find(t.keys, keys)  # place of (query, node) among the old pairs, or -1
        self.old = find(t.keys, self.pairs.query[self.owner] * t.num_nodes + self.sender)

    def gather(self, values: Array, places: Array) -> Array:
        """Rows of `values` at `places`, zero where nothing moved."""
        return np.concatenate([values, np.zeros((1, *values.shape[1:]))])[places]


def attention_step(
    layer: AttentionLayer, base: Features, structure: Structure, t: Tangents, product: Product, receivers: Array | None
) -> Tangents:
    """Carry the tangents through one attention layer; `product(W)` is the layer input's derivative times W."""
    pattern = structure.pattern(loops=layer.loops)
    reach = _Reach(t, pattern.csr, receivers)
    if len(reach.owner) * layer.heads * layer.width > LIMIT and t.num_queries > 1:
        raise TooMany
    scores, values = layer.attend(base, pattern, structure)
    weights = segment_softmax(torch.stack(list(scores), dim=1), pattern).numpy()[reach.entry]
    change, d_values = _score_change(layer, base, reach, product)
    count = len(reach.owner)
    sums = sp.csr_matrix((np.ones(count), np.arange(count), reach.indptr), shape=(len(reach.pairs), count))
    moved = weights * (change - (sums @ (weights * change))[reach.owner])
    out = _mix(layer, reach, weights, moved, values.numpy(), d_values)
    if layer.skip is not None:
        out = out + reach.gather(product(layer.skip.weight), reach.own)
    pairs = reach.pairs
    if receivers is None:
        return pairs.replace(out)
    where = np.empty(t.num_nodes, dtype=np.int64)
    where[receivers] = np.arange(len(receivers))
    return Tangents(pairs.query, where[pairs.node], out, t.num_queries, len(receivers))


def _mix(layer: AttentionLayer, reach: _Reach, weights: Array, moved: Array, values: Array, d_values: Array) -> Array:
    """Both sums of the derivative, head by head."""
    parts = []
    carried = reach.old >= 0
    for head in range(layer.heads):
        part = slice(head * layer.width, (head + 1) * layer.width)
        by_weight = sp.csr_matrix((moved[:, head], reach.sender, reach.indptr), shape=(len(reach.pairs), len(values)))
        by_value = sp.csr_matrix(
            (weights[carried, head], (reach.owner[carried], reach.old[carried])),
            shape=(len(reach.pairs), len(d_values)),
        )
        parts.append(by_weight @ values[:, part] + by_value @ d_values[:, part])
    return np.concatenate(parts, axis=1) if layer.concat else np.mean(parts, axis=0)


def _heads(x: Array, layer: AttentionLayer) -> Array:
    return x.reshape(len(x), layer.heads, layer.width)


def _score_change(layer: AttentionLayer, base: Features, reach: _Reach, product: Product) -> tuple[Array, Array]:
    """Derivative of the scores [entries, heads] and of the values on the old pairs [pairs, heads * width]."""
    receiver = reach.pairs.node[reach.owner]
    if isinstance(layer, GATLayer):
        values, d_values = layer.weight(base).numpy(), product(layer.weight.weight)
        source, target = layer.source.detach().numpy(), layer.target.detach().numpy()
        before = (_heads(values, layer) * source).sum(-1)[reach.sender]
        before = before + (_heads(values, layer) * target).sum(-1)[receiver]
        d_source = reach.gather((_heads(d_values, layer) * source).sum(-1), reach.old)
        d_target = reach.gather((_heads(d_values, layer) * target).sum(-1), reach.own)[reach.owner]
        return np.where(before > 0, 1.0, SLOPE) * (d_source + d_target), d_values
    if isinstance(layer, GATv2Layer):
        return _gatv2_change(layer, base, reach, receiver, product)
    assert isinstance(layer, TransformerLayer)
    query, key = (_heads(part(base).numpy(), layer) for part in (layer.query, layer.key))
    d_query, d_key = (_heads(product(part.weight), layer) for part in (layer.query, layer.key))
    change = (query[receiver] * reach.gather(d_key, reach.old)).sum(-1)
    change += (reach.gather(d_query, reach.own)[reach.owner] * key[reach.sender]).sum(-1)
    return change / math.sqrt(layer.width), product(layer.value.weight)


def _gatv2_change(
    layer: GATv2Layer, base: Features, reach: _Reach, receiver: Array, product: Product
) -> tuple[Array, Array]:
    sent, heard = layer.source(base).numpy(), layer.target(base).numpy()
    d_sent, d_heard = product(layer.source.weight), product(layer.target.weight)
    slope = np.where(sent[reach.sender] + heard[receiver] > 0, 1.0, SLOPE)
    moved = slope * (reach.gather(d_sent, reach.old) + reach.gather(d_heard, reach.own)[reach.owner])
    return (_heads(moved, layer) * layer.vector.detach().numpy()).sum(-1), d_sent
