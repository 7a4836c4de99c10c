"""Edges straight from random measurements, where P = I + S: an edge adds 2 to its own entry of D^1/2 P^2 D^1/2, and two
steps add little, so rows of P^2 need not be sparse.

With degrees known, every pair is a bit. The answers minus what the present graph would answer tell of each pair, from
both of its rows, how much more likely they are with the pair flipped; clear cases are flipped, and what two steps add
is computed anew. A right flip takes its share out of the rest exactly, so the rest falls until nothing is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.propagate import symmetric

__all__ = ["Bits", "checked", "leading_degrees"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
CLEAR = 3.0  # log-odds from which a pair is flipped
FEW = 0.01  # of the missing edges: with fewer flips in a round more questions help more
BLOCK = 512
ROUNDS = 80
MARGIN = 0.1  # a degree is whole if it is this near to one


def leading_degrees(shape: Float, linked: NDArray[np.bool_], lone: int, least: int = 8) -> Int | None:
    """Whole numbers proportional to `shape` (squares of the leading eigenvector), the smallest such; None if none fit.

    Nodes that are not `linked` have the degree `lone`.
    """
    out = np.full(len(shape), lone, np.int64)
    if not linked.any():
        return None
    for smallest in range(1 + lone, least + 1):
        raw = shape[linked] * (smallest / shape[linked].min())
        whole = np.rint(raw)
        raw = raw * (float(whole.sum()) / float(raw.sum()))
        if np.abs(raw - whole).max() < MARGIN and whole.max() <= len(shape):
            out[linked] = whole.astype(np.int64)
            return out
    return None


@dataclass(eq=False)
class Bits:
    """The present graph `edges` [2, m] for measurements `answers` = P^2 `design`, P of `form` with the given degrees.

    `degree` counts the loop where the form has one. `noise`: size of what no graph explains in one answer.
    """

    form: Form
    degree: Int
    noise: float
    edges: Int = field(default_factory=lambda: np.empty((2, 0), np.int64))

    @property
    def adjacency(self) -> sp.csr_matrix:
        return symmetric(self.edges[0], self.edges[1], len(self.degree))

    @property
    def missing(self) -> int:
        """Edges that the degrees still call for."""
        wanted = int((self.degree - int(self.form.loops)).sum()) // 2
        return max(0, wanted - int(self.edges.shape[1]))

    def fit(self, design: Float, answers: Float) -> bool:
        """Flip pairs until none is clearly wrong; whether the graph then explains everything."""
        size = np.sqrt(np.maximum(self.degree, 1))
        column = design / size[:, None]
        told = size[:, None] * (answers - design)
        for _ in range(ROUNDS):
            rest = self._rest(column, told)
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

    def _rest(self, column: Float, told: Float) -> Float:
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

    def _flip(self, u: Int, v: Int) -> None:
        n = len(self.degree)
        keys = np.setxor1d(self.edges[0] * n + self.edges[1], u * n + v)
        self.edges = np.stack(np.divmod(keys, n))


def checked(matrix: Any, design: Float, answers: Float) -> tuple[float, float]:
    """The factor of `matrix` that suits the answers, and a bound on the operator norm by which the answers' own matrix
    may differ from it, but for a chance of 1e-15.

    `design`, uniform in [0, 1] (or normal), was drawn after `matrix` was fixed. If they differ by D, a column of the
    rest is at least D times |v'z| long, v the leading right singular vector. The density of v'z is at most sqrt 2 (Ball
    1986, slices of the cube), so all t are shorter than x with a chance of at most (2.83 x / D)^t (Freivalds 1977); the
    factor costs one.
    """
    told = matrix @ design
    factor = float((told * answers).sum() / (told * told).sum())
    longest = float(np.linalg.norm(factor * told - answers, axis=0).max())
    return factor, 2.83 * longest * 10.0 ** (15.0 / max(1, design.shape[1] - 1))
