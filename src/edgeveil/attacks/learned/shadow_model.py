"""Bob's own model on his public graph: softmax regression on propagated features, behind the same wall as Alice's.

Two steps of the symmetrically normalised adjacency and one linear layer (a simplified graph convolution, Wu et al.
2019): no torch, no graph of Alice's, and an influence in closed form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.learner import fit_learner
from edgeveil.errors import InputError
from edgeveil.release.target import PublicGraph, Target

__all__ = ["ShadowTarget"]

Int = NDArray[np.int64]


class ShadowTarget(Target):
    """A public graph as a target whose edges are known; questions about it cost nothing and are not reported."""

    def __init__(self, graph: PublicGraph) -> None:
        super().__init__()
        if graph.features is None or graph.labels is None or np.ndim(graph.labels) != 1:
            raise InputError("a shadow graph needs features and one label per node, to train a model like the target's")
        self.num_nodes = graph.num_nodes
        self._reach = _normalised(graph) @ _normalised(graph)
        self._x = _dense(graph.features)
        known = np.asarray(graph.labels) >= 0
        learner = fit_learner((self._reach @ self._x)[known], np.asarray(graph.labels)[known])
        self._weights = learner.weights[:-1] / learner.scale[:, None]
        self._shift = learner.weights[-1] - learner.mean @ self._weights
        self.features = self._x
        self.num_features = self._x.shape[1]
        self.num_outputs = self._weights.shape[1]
        self.influence = self._influence

    def _answer(self, features: Any, nodes: Int | None, induced: bool) -> Any:
        if features is not None or induced:
            raise InputError("the shadow model answers for its own features only")
        out = self._reach @ self._x @ self._weights + self._shift
        return out if nodes is None else out[nodes]

    def _influence(self, nodes: Int) -> sp.csr_matrix:
        """|P^2_uv| times the size of v's own signal: what scaling row v does to u's logits, per unit."""
        signal = np.linalg.norm(self._x[nodes] @ self._weights, axis=1)
        part = self._reach[nodes][:, nodes]
        return sp.csr_matrix(sp.diags(signal) @ part.T)


def _normalised(graph: PublicGraph) -> sp.csr_matrix:
    u, v = graph.edges
    ones = np.ones(2 * len(u))
    a = sp.csr_matrix((ones, (np.r_[u, v], np.r_[v, u])), shape=(graph.num_nodes, graph.num_nodes))
    a.data[:] = 1.0
    a = a + sp.identity(graph.num_nodes)
    root = sp.diags(1 / np.sqrt(np.asarray(a.sum(axis=1)).ravel()))
    return sp.csr_matrix(root @ a @ root)


def _dense(x: Any) -> NDArray[np.float64]:
    rows = np.asarray(x.todense() if sp.issparse(x) else x, np.float64)
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(size, 1e-12), np.float64)
