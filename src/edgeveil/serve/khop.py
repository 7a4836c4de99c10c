"""Changed answers of a graph convolution without a full forward pass.

When the rows V of the features change, layer l changes only within l hops of V, and only what the asked nodes can see
matters. Rows inside both sets are computed anew from stored products, by the same operations in the same order as the
stored ones, so an answer does not depend on how many rows were recomputed, nor on what was asked before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        first = layers[0]
        self._degree = np.diff(first.matrix.indptr).astype(np.int64)
        pattern = sp.csc_matrix(
            (np.ones_like(first.columns.indices, np.int64), first.columns.indices, first.columns.indptr)
        )
        self._reach = pattern.T @ self._degree + np.diff(first.columns.indptr)

    @property
    def base(self) -> Float:
        """Logits for the stored features."""
        return self._layers[-1].output

    def effort(self, nodes: Int, answer: Int) -> float:
        """At most so many entries of P are touched for a question; infinite beyond two layers."""
        if len(self._layers) > 2:
            return math.inf
        return float(self._reach[nodes].sum() + 2 * self._degree[answer].sum())

    def changed(self, nodes: Int, rows: Float, answer: Int) -> Float:
        """Logits of `answer` when the feature rows of `nodes` (ascending) are replaced by `rows`."""
        return self.changed_each([(nodes, rows, answer)])[0]

    def changed_each(self, questions: Sequence[tuple[Int, Float, Int]]) -> list[Float]:
        """Many questions in one go, each to a copy of the graph of its own: node v of question q is row q n + v.

        Dense products are taken question by question, so that no bit of an answer depends on its company.
        """
        n = self.base.shape[0]
        moved = np.concatenate([nodes + q * n for q, (nodes, _, _) in enumerate(questions)])
        asked = np.concatenate([answer + q * n for q, (_, _, answer) in enumerate(questions)])
        wanted = self._wanted(asked)
        parts = [rows for _, rows, _ in questions]
        for depth, layer in enumerate(self._layers):
            heard = np.unique(_neighbours(layer.columns, moved)[0])
            todo = np.intersect1d(heard, wanted[depth], assume_unique=True)
            values = np.concatenate([self._product(layer, part) for part in parts])
            output = self._rows(layer, todo, moved, values)
            output = self._activate(output) if depth + 1 < len(self._layers) else output
            moved = todo
            parts = np.split(output, np.searchsorted(todo, n * np.arange(1, len(questions))))
        out = self.base[asked % n]
        at, hit = _find(moved, asked)
        out[hit] = output[at[hit]]
        return np.split(out, np.cumsum([len(answer) for _, _, answer in questions])[:-1])

    def _wanted(self, asked: Int) -> list[Int]:
        """Rows of every layer's output that the asked nodes can see."""
        sets = [np.unique(asked)]
        for layer in reversed(self._layers[1:]):
            sets.append(np.unique(_neighbours(layer.matrix, sets[-1])[0]))
        return sets[::-1]

    @staticmethod
    def _product(layer: _Layer, rows: Float) -> Float:
        out: Float = rows @ layer.weight
        return out if layer.before is None else out + layer.before

    @staticmethod
    def _rows(layer: _Layer, todo: Int, moved: Int, values: Float) -> Float:
        near, weights, indptr = _neighbours(layer.matrix, todo)
        seen, inverse = np.unique(near, return_inverse=True)
        inputs = layer.product[seen % layer.product.shape[0]]
        at, hit = _find(seen, moved)
        inputs[at[hit]] = values[hit]
        narrow = sp.csr_matrix((weights, inverse, indptr), shape=(len(todo), len(seen)))
        out: Float = narrow @ inputs
        return out if layer.after is None else out + layer.after


def _neighbours(matrix: sp.csr_matrix | sp.csc_matrix, rows: Int) -> tuple[Int, Float, Int]:
    """Neighbours of rows that may lie in several copies of the graph, in stored order: names, weights, row starts."""
    n = matrix.shape[0]
    inner = rows % n
    start = matrix.indptr[inner]
    counts = matrix.indptr[inner + 1] - start
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    at = np.arange(indptr[-1]) + np.repeat(start - indptr[:-1], counts)
    return matrix.indices[at] + np.repeat(rows - inner, counts), matrix.data[at], indptr


def _find(names: Int, wanted: Int) -> tuple[Int, NDArray[np.bool_]]:
    """Where each wanted name is in an ascending list, and whether it is there at all."""
    if not len(names):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return at, names[at] == wanted


def gcn_update(predictor: Predictor, x: FeatureMatrix) -> GCNUpdate | None:
    """The update rule of a predictor, or None when its model is not a plain stack of graph convolutions."""
    from edgeveil.models.gcn import GCNLayer
    from edgeveil.models.network import Model

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
