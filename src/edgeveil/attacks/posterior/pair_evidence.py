"""What a noisy graph and public features say about pairs, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["PairEvidence", "Shown"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
BLOCK = 2**22  # pairs looked at at a time
SPARSE = 20  # fewer than one pair in so many: pair by pair


@dataclass(frozen=True, eq=False)
class Shown:
    """Pairs (i, j), node ids: which ends list the other, and evidence by kind.

    Kinds: noisy neighbours in common, noisy degrees (the pair's own bits taken out of both), similarity of features.
    """

    i: Int
    j: Int
    there: Bool
    back: Bool
    kinds: tuple[Float, ...]

    @property
    def either(self) -> Bool:
        """Whether the stored graph has the pair at all."""
        return self.there | self.back

    def __len__(self) -> int:
        return len(self.i)


class PairEvidence:
    """Evidence of all pairs among `nodes`; `lists` is the whole stored graph, `unit` the features of `nodes`.

    `unit`: rows of length one, array or CSR, or None.
    """

    def __init__(self, nodes: Int, lists: Any, unit: Any) -> None:
        self.nodes = nodes
        self._unit = unit
        self._lists, self._listed_by = lists.tocsr(), lists.T.tocsr()
        either = ((lists + lists.T) > 0).astype(np.float32).tocsr()
        self._either = either
        self._degree = np.asarray(either.sum(axis=0)).ravel().astype(np.float64)
        self._rarity = sp.diags((1 / np.log(1 + np.maximum(self._degree, 1))).astype(np.float32))

    @property
    def count(self) -> int:
        return len(self.nodes)

    def blocks(self) -> Iterator[Shown]:
        """All pairs of positions i < j, some rows at a time."""
        n = self.count
        step = max(1, BLOCK // max(n, 1))
        for start in range(0, n, step):
            rows = np.arange(start, min(start + step, n))
            yield self._look(rows, *np.nonzero(np.arange(n)[None, :] > rows[:, None]))

    def of_pairs(self, i: Int, j: Int) -> Shown:
        """The given pairs of positions, in order."""
        order = np.argsort(i, kind="stable")
        rows, local = np.unique(i, return_inverse=True)
        step = max(1, BLOCK // max(self.count, 1))
        parts = []
        for start in range(0, max(len(rows), 1), step):
            inside = order[(local[order] >= start) & (local[order] < start + step)]
            parts.append(self._look(rows[start : start + step], local[inside] - start, j[inside]))
        back = np.argsort(order, kind="stable")
        return _joined(parts, back)

    def _look(self, rows: Int, local: Int, j: Int) -> Shown:
        """Pairs (rows[local], j), positions."""
        nodes, u, v = self.nodes, self.nodes[rows[local]], self.nodes[j]
        mine = self._either[nodes[rows]]
        others = self._either if self.count == self._either.shape[0] else self._either[nodes]
        column = nodes[j] if others is self._either else j
        common = _at(mine @ self._rarity @ others.T, local, column)
        there, back = (_at(m[nodes[rows]], local, v) > 0 for m in (self._lists, self._listed_by))
        own = (there | back) * 1.0
        kinds = [common, (self._degree[u] - own) * (self._degree[v] - own)]
        if self._unit is not None:
            kinds.append(self._alike(rows, local, j))
        return Shown(u, v, there, back, tuple(kinds))

    def _alike(self, rows: Int, local: Int, j: Int) -> Float:
        if len(local) * SPARSE >= len(rows) * self.count:
            return _at(self._unit[rows] @ self._unit.T, local, j)
        out = np.empty(len(local))
        step = max(1, 2**24 // self._unit.shape[1])
        for at in range(0, len(local), step):
            a, b = self._unit[rows[local[at : at + step]]], self._unit[j[at : at + step]]
            product = a.multiply(b) if sp.issparse(a) else a * b
            out[at : at + step] = np.asarray(product.sum(axis=1)).ravel()
        return out


def _at(matrix: Any, row: Int, column: Int) -> Float:
    if sp.issparse(matrix):
        if len(row) * SPARSE < matrix.shape[0] * matrix.shape[1]:
            return np.asarray(matrix[row, column], np.float64).ravel()
        matrix = matrix.toarray()
    return np.asarray(matrix[row, column], np.float64)


def _joined(parts: list[Shown], order: Int) -> Shown:
    def merge(name: str) -> Any:
        return np.concatenate([getattr(p, name) for p in parts])[order]

    kinds = tuple(np.concatenate(kind)[order] for kind in zip(*(p.kinds for p in parts), strict=True))
    return Shown(merge("i"), merge("j"), merge("there"), merge("back"), kinds)
