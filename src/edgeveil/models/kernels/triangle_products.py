"""Models on graphs whose normalised adjacency would not fit: products straight from the upper triangle.

A perturbed graph may have 10^8 edges and more. Stored as a normalised CSR matrix for torch each edge costs 24 bytes and
more; here it costs the 4 bytes that the graph keeps anyway, because every normalisation of the package is
shift I + L (A + loops I) R with diagonal L and R.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeveil.errors import TooLarge, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.upper_triangle import degrees, propagate
from edgeveil.models.structure import Structure

__all__ = ["TriangleMatrix", "TriangleStructure"]


class _Form(NamedTuple):
    """shift I + D'^left (A + loops I) D'^right, where D' are the degrees with loops counted."""

    shift: float
    loops: float
    left: float
    right: float


_FORMS = {
    "first-order": _Form(1, 0, -0.5, -0.5),
    "aug": _Form(0, 1, -0.5, -0.5),
    "bingge": _Form(1, 1, -0.5, -0.5),
    "aug-rwalk": _Form(0, 1, -1, 0),
    "sym": _Form(0, 0, -0.5, -0.5),
    "mean": _Form(0, 0, -1, 0),
    "sum": _Form(0, 0, 0, 0),
}


class TriangleMatrix:
    """A propagation matrix that is never stored; multiplies like `SparseMatrix`, gradients too."""

    def __init__(self, graph: Graph, form: _Form, degree: NDArray[np.float64]) -> None:
        self.graph, self._form, self._degree = graph, form, degree
        self.shape = (graph.num_nodes, graph.num_nodes)
        self.nnz = 2 * graph.num_edges + graph.num_nodes

    @property
    def T(self) -> TriangleMatrix:
        """The transpose: L and R change places."""
        form = self._form._replace(left=self._form.right, right=self._form.left)
        return self if form == self._form else TriangleMatrix(self.graph, form, self._degree)

    def __matmul__(self, x: Tensor) -> Tensor:
        out: Tensor = _Product.apply(x, self)  # type: ignore[no-untyped-call]
        return out

    def row_sums(self, dtype: torch.dtype) -> Tensor:
        """P 1 as a column [n, 1]."""
        return self @ torch.ones(self.shape[1], 1, dtype=dtype)

    def times(self, x: NDArray[Any]) -> NDArray[Any]:
        """P x for a dense array."""
        shift, loops, left, right = self._form
        scaled = x * self._power(right, x.dtype)
        out = propagate(self.graph, scaled)
        if loops:
            out += scaled
        out *= self._power(left, x.dtype)
        return out + x if shift else out

    def _power(self, exponent: float, dtype: Any) -> NDArray[Any]:
        if exponent == 0:
            return np.ones((1, 1), dtype)
        d = self._degree + self._form.loops
        return np.power(d, exponent, out=np.zeros_like(d), where=d > 0).astype(dtype)[:, None]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: TriangleMatrix) -> Tensor:
        ctx.matrix = matrix
        return torch.from_numpy(matrix.times(x.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return torch.from_numpy(ctx.matrix.T.times(grads[0].numpy())), None


class TriangleStructure(Structure):
    """A graph prepared for models that aggregate through matrices (GCN, SAGE, GraphConv); attention is refused."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.remember = False
        self._degree = degrees(graph).astype(np.float64)

    @property
    def num_nodes(self) -> int:
        """Nodes whose features are read."""
        return self.graph.num_nodes

    def matrix(self, kind: str) -> Any:
        """The propagation matrix of the named normalisation."""
        if kind not in _FORMS:
            raise UnknownNameError("normalisation", kind, _FORMS)
        return TriangleMatrix(self.graph, _FORMS[kind], self._degree)

    def pattern(self, *, loops: bool) -> Any:
        """Refused: attention keeps numbers per edge."""
        raise TooLarge(
            f"attention needs several numbers for each of {self.graph.num_edges:,} edges; "
            "use a GCN, GraphSAGE or GraphConv on a graph of this size, or LapGraph instead of EdgeRand"
        )
