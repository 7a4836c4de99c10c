"""Derivatives of many queries at once, stored only where they are not zero.

Query s scales the features of node s; after l layers the change has reached the l-hop neighbourhood of s. `Tangents`
lists these (query, node) pairs, sorted, each with its directional derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["LIMIT", "Tangents", "TooMany", "find"]

Array = NDArray[Any]
LIMIT = 1 << 24  # numbers that one step of a batch may hold (128 MB)


class TooMany(Exception):
    """A batch of queries reached more pairs than fit; halve it."""


@dataclass(frozen=True)
class Tangents:
    """Pairs `query`, `node` (sorted by query, then node) and their derivatives `value` [pairs, width].

    Before the first weights the derivative is a number times the query's own feature row: `value` then has width 1
    and `rows` waits, so that wide inputs are never written out.
    """

    query: Array
    node: Array
    value: Array
    num_queries: int
    num_nodes: int

    @classmethod
    def start(cls, nodes: Array, num_nodes: int) -> Tangents:
        """Query i moves node nodes[i] along its own features."""
        count = len(nodes)
        return cls(np.arange(count), np.asarray(nodes), np.ones((count, 1)), count, num_nodes)

    def __len__(self) -> int:
        return len(self.query)

    @property
    def keys(self) -> Array:
        """query * num_nodes + node, sorted."""
        return self.query * self.num_nodes + self.node

    def replace(self, value: Array) -> Tangents:
        """Same pairs, other derivatives."""
        return Tangents(self.query, self.node, value, self.num_queries, self.num_nodes)

    def at(self, keys: Array, value: Array, num_nodes: int | None = None) -> Tangents:
        """Pairs of the given sorted keys."""
        n = num_nodes or self.num_nodes
        return Tangents(keys // n, keys % n, value, self.num_queries, n)

    def hop(self, columns: Any) -> tuple[Array, Any]:
        """Where one multiplication with P carries the pairs: sorted keys, and the matrix that carries the values.

        `columns` is P transposed as CSR: row w lists the nodes u that hear w, with the weight P_uw.
        """
        start, width = columns.indptr[self.node], np.diff(columns.indptr)[self.node]
        total = int(width.sum())
        if total > LIMIT and self.num_queries > 1:
            raise TooMany
        source = np.repeat(np.arange(len(self)), width)
        entry = np.arange(total) - np.repeat(np.cumsum(width) - width - start, width)
        keys = self.query[source] * columns.shape[1] + columns.indices[entry]
        reached, place = distinct(keys, self.num_queries * columns.shape[1])
        carry = sp.csr_matrix((columns.data[entry], (place, source)), shape=(len(reached), len(self)))
        return reached, carry

    def spread(self, matrix: Any, steps: int) -> Tangents:
        """`steps` hops with P, a `SparseMatrix`, of derivatives that are one number each.

        Far hops reach nearly everybody, so that the pairs are written out as a table where it fits; sums keep their
        order.
        """
        if not steps:
            return self
        if self.num_queries * self.num_nodes > LIMIT:
            out = self
            for _ in range(steps):
                keys, carry = out.hop(matrix.T.csr)
                out = out.at(keys, carry @ out.value)
            return out
        table = np.zeros((self.num_nodes, self.num_queries))
        table[self.node, self.query] = self.value[:, 0]
        for _ in range(steps):
            table = matrix.csr @ table
        query, node = np.nonzero(table.T)
        return Tangents(query, node, table[node, query][:, None], self.num_queries, self.num_nodes)

    def matrix(self, width: int, along: Any = None) -> sp.csr_matrix:
        """Norms of the derivatives as [queries, width], or their products with the vector `along`."""
        if along is None:
            norm = np.sqrt(np.einsum("ij,ij->i", self.value, self.value))
        else:
            norm = self.value @ np.asarray(along, np.float64)
        out = sp.csr_matrix((norm, (self.query, self.node)), shape=(self.num_queries, width))
        out.eliminate_zeros()
        return out


def distinct(keys: Array, size: int) -> tuple[Array, Array]:
    """The distinct keys (below `size`) in order, and each key's place among them: by table when dense, else sorted."""
    if len(keys) * 32 < size:
        reached, place = np.unique(keys, return_inverse=True)
        return reached, place
    seen = np.zeros(size, dtype=bool)
    seen[keys] = True
    reached = np.flatnonzero(seen)
    table = np.empty(size, dtype=np.int32)
    table[reached] = np.arange(len(reached), dtype=np.int32)
    return reached, table[keys]


def find(known: Array, wanted: Array) -> Array:
    """Place of every wanted key among the sorted known ones, -1 where absent."""
    if not len(known):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, at, -1)
