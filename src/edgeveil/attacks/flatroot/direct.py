"""Bits where P = I + S: an edge adds 2 to its own entry of D^1/2 P^2 D^1/2 and two steps add little, so pairs are
judged one by one from their two rows, which is quicker than weighing them together.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.edgewise import Bits

__all__ = ["DirectBits"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
CLEAR = 3.0  # log-odds from which a pair is flipped
FEW = 0.01  # of the missing edges: with fewer flips in a round more questions help more
BLOCK = 512
ROUNDS = 80


class DirectBits(Bits):
    """Flips every pair that is clearly in the wrong state, and looks again."""

    @property
    def least(self) -> float:
        """Every measurement helps."""
        return 0.0

    def likely(self, design: Float, answers: Float) -> sp.csr_matrix:
        """The present edges: each was clear when it was taken."""
        return self.adjacency

    def fit(self, design: Float, answers: Float) -> bool:
        """Flip pairs until none is clearly wrong; whether the graph then explains everything."""
        size = np.sqrt(np.maximum(self.degree, 1))
        column = design / size[:, None]
        told = size[:, None] * (answers - design)
        for _ in range(ROUNDS):
            rest = self._left(column, told)
            spread = (rest**2).mean(axis=1)
            live = np.flatnonzero(spread > (self.noise * size) ** 2)
            if not len(live):
                break
            u, v = self._wrong(column, rest, spread, live)
            if len(u) <= FEW * self.missing:
                return False
            self._flip(u, v)
        wanted = self.degree - int(self.form.loops)
        have = np.bincount(self.edges.ravel(), minlength=len(wanted))
        return not len(live) and bool(np.array_equal(have, wanted))

    def _left(self, column: Float, told: Float) -> Float:
        """What the present graph leaves unexplained, without what missing neighbours add to a node's own entry."""
        a = self.adjacency
        a = (a + sp.identity(a.shape[0])).tocsr() if self.form.loops else a
        once = a @ column
        share = np.divide(1.0, self.degree, out=np.zeros(len(self.degree)), where=self.degree > 0)
        rest: Float = told - 2.0 * once - a @ (share[:, None] * once)
        own = (rest * column).sum(axis=1) / (column**2).sum(axis=1)
        missing = np.bincount(self.edges.ravel(), minlength=len(own)) + int(self.form.loops) != self.degree
        rest -= np.where(missing, np.maximum(own, 0.0), 0.0)[:, None] * column
        return rest

    def _wrong(self, column: Float, rest: Float, spread: Float, live: Int) -> tuple[Int, Int]:
        """Pairs that are clearly in the wrong state.

        Log-odds of a flip that changes entry uv by g: g (e_u.z_v / s_u + e_v.z_u / s_v) - g^2 (z_v.z_v / s_u +
        z_u.z_u / s_v) / 2 + the prior d_u d_v / sum d, with e the rest and s its spread.
        """
        z = column[live].astype(np.float32)
        pull = (rest[live] / spread[live][:, None]).astype(np.float32)
        weight, square = (1 / spread[live]).astype(np.float32), (z**2).sum(axis=1)
        degree = np.maximum(self.degree[live] - int(self.form.loops), 1e-9).astype(np.float64)
        prior = np.log(degree / np.sqrt(max(float(self.degree.sum()), 1.0))).astype(np.float32)
        share = np.float32(self.form.loops) / np.maximum(self.degree[live], 1).astype(np.float32)
        here = self.adjacency[live][:, live]
        found: list[tuple[Int, Int]] = []
        for start in range(0, len(live), BLOCK):
            part = slice(start, start + BLOCK)
            gain = 2.0 + share[part, None] + share
            odds = (pull[part] @ z.T + z[part] @ pull.T) * gain + np.minimum(prior[part, None] + prior, 0.0)
            have = here[part].tocoo()
            odds[have.row, have.col] *= -1
            odds -= 0.5 * gain**2 * (weight[part, None] * square + square[part, None] * weight)
            i, j = np.nonzero(odds > CLEAR)
            keep = i + start < j
            found.append((live[i[keep] + start], live[j[keep]]))
        return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])
