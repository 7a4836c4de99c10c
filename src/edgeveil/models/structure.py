"""What a model needs of a graph, computed once per graph: propagation matrices, patterns, propagated features."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from edgeveil.errors import GraphError
from edgeveil.graph.sparse import check_adjacency, normalise
from edgeveil.models.kernels.operand import DENSE_SPEED, FeatureOperand, fill_bound
from edgeveil.models.kernels.pattern import Pattern
from edgeveil.models.kernels.spmm import SparseMatrix

__all__ = ["Structure"]

_DENSE_LIMIT = 2**27  # numbers in a propagated feature matrix that is worth keeping (0.5 GB in float32)
_COLUMNS_TRAINED = 100 * 3 * 32  # columns multiplied in a usual training: epochs, passes of each, first layer's width


class Structure:
    """A prepared adjacency. Derived matrices are made on first use and kept.

    `remember=True` (training) lets the first layer use a stored P X where that makes a pass cheaper. Inference leaves
    it off, so that an answer never depends on what was asked before, not even in the last bit.
    """

    def __init__(self, adjacency: Any, *, remember: bool = False, rectangular: bool = False) -> None:
        self.adjacency = adjacency if rectangular else check_adjacency(adjacency)
        self.remember = remember
        self._matrices: dict[str, SparseMatrix] = {}
        self._patterns: dict[bool, Pattern] = {}
        self._worth: WeakKeyDictionary[FeatureOperand, dict[str, bool]] = WeakKeyDictionary()
        self._propagated: WeakKeyDictionary[FeatureOperand, dict[str, FeatureOperand]] = WeakKeyDictionary()

    @property
    def num_nodes(self) -> int:
        """Nodes whose features are read."""
        return int(self.adjacency.shape[1])

    def level(self, depth: int) -> Structure:
        """What layer `depth` works on: the same graph for every layer, unless rows are left out."""
        return self

    def targets(self, h: Tensor) -> Tensor:
        """The receiving nodes' rows of features given for the sending ones: all, unless rows are left out."""
        return h

    def remembering(self) -> Structure:
        """The same structure (shared matrices) that stores propagated features."""
        out = Structure(self.adjacency, remember=True)
        out._matrices, out._patterns = self._matrices, self._patterns
        return out

    def matrix(self, kind: str) -> SparseMatrix:
        """The propagation matrix of the named normalisation."""
        if kind not in self._matrices:
            self._matrices[kind] = SparseMatrix(normalise(self.adjacency, kind))
        return self._matrices[kind]

    def pattern(self, *, loops: bool) -> Pattern:
        """The places of messages, with or without self-loops."""
        if loops not in self._patterns:
            self._patterns[loops] = Pattern.of(self.adjacency, loops=loops)
        return self._patterns[loops]

    def propagate(self, x: FeatureOperand, kind: str) -> FeatureOperand:
        """P X as an operand, kept for as long as `x` lives; a few replaced rows cost only what they reach."""
        if x.shape[0] != self.num_nodes:
            raise GraphError(f"{x.shape[0]} feature rows for a graph of {self.num_nodes} nodes; they must match")
        known = self._propagated.setdefault(x, {})
        if kind not in known:
            base = None if x.base is None else self.propagate(x.base, kind)
            known[kind] = x.propagated(self.matrix(kind), base)
        return known[kind]

    def worth_storing(self, x: FeatureOperand, kind: str) -> bool:
        """Whether (P X) W costs less per pass than P (X W), whatever the width of W, and fits."""
        if not self.remember or x.base is not None:
            return False
        known = self._worth.setdefault(x, {})
        if kind not in known:
            known[kind] = self._cheaper_stored(x, kind)
        return known[kind]

    def _cheaper_stored(self, x: FeatureOperand, kind: str) -> bool:
        matrix = self.matrix(kind)
        size = matrix.shape[0] * x.shape[1]
        filled, dense = fill_bound(matrix, x), size / DENSE_SPEED
        if filled > dense and size > _DENSE_LIMIT:
            return False
        return min(filled, dense) < x.cost + matrix.nnz

    def worth_propagating(self, x: FeatureOperand, kind: str, steps: int) -> bool:
        """Whether a stored P^steps X costs less per pass and column than multiplying by P `steps` times, and fits.

        Making it costs as much as multiplying all of X's columns once, spread over a usual training.
        """
        if not self.remember or x.base is not None:
            return False
        size, product = x.shape[0] * x.shape[1], steps * self.matrix(kind).nnz
        made = product * x.shape[1] / _COLUMNS_TRAINED
        return size <= _DENSE_LIMIT and size / DENSE_SPEED + made < x.cost + product

    def sampled_mean(self, fanout: int) -> SparseMatrix:
        """D^-1 A of a fresh sample of at most `fanout` neighbours per node, drawn from torch's generator."""
        a = self.adjacency
        lengths = np.diff(a.indptr)
        keys = torch.rand(a.nnz, dtype=torch.float64).numpy()
        rows = np.repeat(np.arange(a.shape[0]), lengths)
        order = np.lexsort((keys, rows))
        place = np.arange(a.nnz) - np.repeat(a.indptr[:-1], lengths)
        kept = np.sort(order[place < fanout])
        counts = np.minimum(lengths, fanout)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        share = np.repeat(np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0), counts)
        return SparseMatrix(sp.csr_matrix((share, a.indices[kept], indptr), shape=a.shape), symmetric=False)
