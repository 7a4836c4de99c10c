"""Changed answers of a graph convolution without a full forward pass.

When the rows V of the features change, layer l changes only within l hops of V, and only what the asked nodes can see
matters. Rows inside both sets are computed anew from stored products, by the same operations in the same order as the
stored ones, so an answer does not depend on how many rows were recomputed, nor on what was asked before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.graph.features import FeatureMatrix
from edgeveil.release.predictors import GraphPredictor, Predictor

__all__ = ["GCNUpdate", "gcn_update"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Layer:
    matrix: sp.csr_matrix  # P
    columns: sp.csc_matrix  # the same, to find who hears a node
    weight: Float
    before: Float | None
    after: Float | None
    product: Float  # H W (+ bias), stored features
    output: Float  # P H W (+ bias), before the activation


class GCNUpdate:
    """Stored activations of a GCN and the update rule."""

    def __init__(self, layers: list[_Layer], activate: Any) -> None:
        self._layers = layers
        self._activate = activate

    @property
    def base(self) -> Float:
        """Logits for the stored features."""
        return self._layers[-1].output

    def changed(self, nodes: Int, rows: Float, answer: Int) -> Float:
        """Logits of `answer` when the feature rows of `nodes` are replaced by `rows`."""
        wanted = self._wanted(answer)
        moved, values = nodes, rows
        for depth, layer in enumerate(self._layers):
            heard = np.unique(layer.columns[:, moved].indices)
            todo = np.intersect1d(heard, wanted[depth], assume_unique=True)
            output = self._rows(layer, todo, moved, self._product(layer, values))
            moved = todo
            values = self._activate(output) if depth + 1 < len(self._layers) else output
        out = self.base[answer]
        place = np.full(self.base.shape[0], -1, np.int64)
        place[moved] = np.arange(len(moved))
        at = place[answer]
        out[at >= 0] = values[at[at >= 0]]
        return out

    def _wanted(self, answer: Int) -> list[Int]:
        """Rows of every layer's output that the asked nodes can see."""
        sets = [np.unique(answer)]
        for layer in reversed(self._layers[1:]):
            sets.append(np.unique(layer.matrix[sets[-1]].indices))
        return sets[::-1]

    @staticmethod
    def _product(layer: _Layer, rows: Float) -> Float:
        out: Float = rows @ layer.weight
        return out if layer.before is None else out + layer.before

    @staticmethod
    def _rows(layer: _Layer, todo: Int, moved: Int, values: Float) -> Float:
        part = layer.matrix[todo]
        seen, inverse = np.unique(part.indices, return_inverse=True)
        inputs = layer.product[seen]
        at = np.minimum(np.searchsorted(seen, moved), max(len(seen) - 1, 0))
        hit = seen[at] == moved if len(seen) else np.zeros(len(moved), bool)
        inputs[at[hit]] = values[hit]
        narrow = sp.csr_matrix((part.data, inverse, part.indptr), shape=(len(todo), len(seen)))
        out: Float = narrow @ inputs
        return out if layer.after is None else out + layer.after


def gcn_update(predictor: Predictor, x: FeatureMatrix) -> GCNUpdate | None:
    """The update rule of a predictor, or None when its model is not a plain stack of graph convolutions."""
    from edgeveil.models.base import Model
    from edgeveil.models.gcn import GCNLayer

    if not isinstance(predictor, GraphPredictor) or predictor.spec.kprop:
        return None
    stack: list[Any] = list(predictor.model.layers) if type(predictor.model) is Model else []
    if not stack or any(type(layer) is not GCNLayer or layer.skip is not None for layer in stack):
        return None
    structure = predictor.model.prepare(predictor.adjacency)
    activate = _ACTIVATIONS.get(predictor.spec.activation)
    if activate is None:
        return None
    layers: list[_Layer] = []
    for layer in stack:
        matrix = sp.csr_matrix(structure.matrix(layer.norm).csr, dtype=np.float64)
        weight = layer.weight.detach().numpy().astype(np.float64)
        bias = None if layer.bias is None else layer.bias.detach().numpy().astype(np.float64)
        before, after = (bias, None) if layer.place == "before" else (None, bias)
        product = _times(x, weight) if not layers else activate(layers[-1].output) @ weight
        product = product if before is None else product + before
        output = matrix @ product
        output = output if after is None else output + after
        layers.append(_Layer(matrix, matrix.tocsc(), weight, before, after, product, output))
    return GCNUpdate(layers, activate)


def _times(x: FeatureMatrix, weight: Float) -> Float:
    """X W without filling in a standardised matrix."""
    if x.nodes is not None:
        return np.asarray(x.toarray(), np.float64) @ weight
    out: Float = np.asarray(x.values @ weight, np.float64)
    return out if x.shift is None else out - x.shift @ weight


def _selu(h: Float) -> Float:
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return scale * np.where(h > 0, h, alpha * np.expm1(np.minimum(h, 0)))


_ACTIVATIONS: dict[str, Any] = {
    "relu": lambda h: np.maximum(h, 0.0),
    "selu": _selu,
    "elu": lambda h: np.where(h > 0, h, np.expm1(np.minimum(h, 0))),
}
