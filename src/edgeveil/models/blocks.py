"""The part of a graph that some outputs depend on, layer by layer, so that a step with few labels is a small step.

Layer d computes only the rows R_d that later layers read: R_L are the wanted nodes, R_{d-1} is R_d with its neighbours.
The mathematics is that of the whole graph (normalisations are taken from it); only rows nobody reads are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeveil.graph.sparse import k_hop
from edgeveil.models.kernels.pattern import Pattern
from edgeveil.models.kernels.spmm import SparseMatrix
from edgeveil.models.structure import Structure

__all__ = ["Blocks", "small_blocks"]

_WORTHWHILE = 0.7  # share of all hidden rows below which cutting them out pays for the extra bookkeeping

Int = NDArray[np.int64]


class _Block(Structure):
    """One layer: messages from the nodes `columns` to the nodes `rows`, which are among them."""

    def __init__(self, whole: Structure, rows: Int, columns: Int) -> None:
        self._whole, self._rows, self._columns = whole, rows, columns
        super().__init__(self._cut(whole.adjacency), remember=True, rectangular=True)
        self._own = torch.from_numpy(np.searchsorted(columns, rows))

    def _cut(self, csr: Any) -> Any:
        out = csr[self._rows][:, self._columns].tocsr()
        out.sort_indices()
        return out

    def matrix(self, kind: str) -> SparseMatrix:
        """The rows and columns of the whole graph's propagation matrix."""
        if kind not in self._matrices:
            self._matrices[kind] = SparseMatrix(self._cut(self._whole.matrix(kind).csr), symmetric=False)
        return self._matrices[kind]

    def pattern(self, *, loops: bool) -> Pattern:
        """The rows and columns of the whole graph's pattern."""
        if loops not in self._patterns:
            self._patterns[loops] = Pattern(self._cut(self._whole.pattern(loops=loops).csr))
        return self._patterns[loops]

    def targets(self, h: Tensor) -> Tensor:
        """The receiving nodes' rows of features given for the sending ones."""
        return h[self._own]


class Blocks(Structure):
    """A stack of blocks that ends in `nodes`; takes the features of `inputs` and gives the logits of `nodes`."""

    def __init__(self, whole: Structure, nodes: Int, layers: int) -> None:
        sets = [np.asarray(nodes, np.int64)]
        for _ in range(layers):
            sets.append(k_hop(whole.adjacency, sets[-1], 1))
        sets.reverse()
        self.sets = sets
        self._whole, self._levels = whole, dict[int, _Block]()

    @property
    def inputs(self) -> Int:
        """Nodes whose features are read."""
        return self.sets[0]

    @property
    def num_nodes(self) -> int:
        return len(self.inputs)

    def level(self, depth: int) -> Structure:
        """The block of one layer."""
        if depth not in self._levels:
            self._levels[depth] = _Block(self._whole, self.sets[depth + 1], self.sets[depth])
        return self._levels[depth]


def small_blocks(whole: Structure, nodes: Int, layers: int) -> Blocks | None:
    """Blocks for `nodes` if they leave out enough of the graph to be worth it, else None."""
    if len(nodes) > _WORTHWHILE * whole.num_nodes:
        return None
    blocks = Blocks(whole, np.sort(nodes), layers)
    rows = sum(len(s) for s in blocks.sets[1:])
    return blocks if rows < _WORTHWHILE * layers * whole.num_nodes else None
