"""Edges straight from random measurements of P^2, without its rows.

With degrees known, every pair is a bit. The answers minus what the present graph would answer tell of each pair how
much more likely they are with the pair flipped; the likely ones and the present edges are then weighed together by
least squares, which tells pairs apart that explain nearly the same. A right flip takes its share out of the rest
exactly, so the rest falls until nothing is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.flips import Rest
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.propagate import symmetric

__all__ = ["Bits", "checked", "leading_degrees"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
CLEAR = 0.99  # probability from which an edge is reported where the questions end early
LIKELY = -4.0  # log-odds from which a pair is weighed
CANDIDATES, ENOUGH = 10, 4000  # pairs weighed at most: of each node, and in any case
SCARCE = 400  # live nodes all of whose pairs are looked at
FEW = 0.04  # of the missing edges: with fewer flips in a round another look or another question helps more
SWEEPS, ROUNDS = 40, 4
CYCLE, TRIES = 16, 3  # flips that may go round in circles, and fresh starts that do not help
BITS = 1.3
LOST, CROWD = 0.1, 5000  # of the edges missing, or nodes live: then more questions help more than fresh starts
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
    """The graph `edges` [2, m] for measurements `answers` = P^2 `design`, P of `form` with the given degrees.

    `degree` counts the loop where the form has one. `noise`: size of what no graph explains in one answer.
    """

    form: Form
    degree: Int
    noise: float
    edges: Int = field(default_factory=lambda: np.empty((2, 0), np.int64))
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @property
    def adjacency(self) -> sp.csr_matrix:
        return symmetric(self.edges[0], self.edges[1], len(self.degree))

    @property
    def missing(self) -> int:
        """Edges that the degrees still call for."""
        return max(0, int(self._wanted.sum()) // 2 - int(self.edges.shape[1]))

    @property
    def least(self) -> float:
        """Measurements below which there is hardly a hope: in proportion to the bits of a list of neighbours."""
        d, n = np.maximum(self._wanted, 1), len(self.degree)
        return BITS * float((d * np.log(math.e * n / d)).mean())

    @property
    def _wanted(self) -> Int:
        return self.degree - int(self.form.loops)

    @property
    def _have(self) -> Int:
        return np.bincount(self.edges.ravel(), minlength=len(self.degree))

    def fit(self, design: Float, answers: Float) -> bool:
        """Flip pairs until none is clearly wrong; whether the graph then explains everything."""
        column, told = self._scaled(design, answers)
        rest, best = self._rest(column, told), len(self.degree)
        tries = 0
        for _ in range(SWEEPS):
            if not len(rest.live):
                break
            flipped = self._improve(rest, column, told)
            rest = self._rest(column, told)
            if flipped > max(FEW * self.missing, CYCLE):
                continue
            tries = 0 if len(rest.live) < best else tries + 1
            best = min(best, len(rest.live))
            if tries == TRIES or len(rest.live) > CROWD or self.missing > LOST * self.edges.shape[1]:
                return False
            self._shake(rest)
            rest = self._rest(column, told)
        return not len(rest.live) and bool(np.array_equal(self._have, self._wanted))

    def _scaled(self, design: Float, answers: Float) -> tuple[Float, Float]:
        size = np.sqrt(np.maximum(self.degree, 1))[:, None]
        return design / size, size * (answers - self.form.shift * design)

    def likely(self, design: Float, answers: Float) -> sp.csr_matrix:
        """The present edges that are clearly so, with their probability."""
        u, v = self.edges
        p = self._rest(*self._scaled(design, answers)).support(u, v)
        keep = p > CLEAR
        u, v, p = u[keep], v[keep], np.r_[p[keep], p[keep]]
        return sp.csr_matrix((p, (np.r_[u, v], np.r_[v, u])), shape=(len(self.degree), len(self.degree)))

    def _shake(self, rest: Rest) -> None:
        """Forget half of the edges that no explained node vouches for: what is wrong is among them."""
        live = np.zeros(len(self.degree), dtype=bool)
        live[rest.live] = True
        sure = ~(live[self.edges[0]] & live[self.edges[1]])
        self.edges = self.edges[:, sure | (self._rng.random(len(sure)) < 0.5)]

    def _improve(self, rest: Rest, column: Float, told: Float) -> int:
        """Flip what the likely pairs and the present edges, weighed together, say; again with what is then left."""
        n, flipped = len(self.degree), 0
        few = len(rest.live) <= SCARCE
        u, v = rest.likely(-math.inf if few else LIKELY, max(CANDIDATES * len(rest.live), ENOUGH))
        for _ in range(ROUNDS):
            live = np.zeros(n, dtype=bool)
            live[rest.live] = True
            keys = np.union1d(u * n + v, self.edges[0] * n + self.edges[1])
            i, j = np.divmod(keys, n)
            keep = live[i] & live[j]
            i, j = i[keep], j[keep]
            count = self._turn(i, j, rest.together(i, j)) if len(i) else 0
            flipped += count
            rest = self._rest(column, told)
            if not len(rest.live) or count <= FEW * self.missing:
                break
        return flipped

    def _turn(self, u: Int, v: Int, x: Any) -> int:
        """Flip the pairs of which more than half is to be added, or taken away."""
        n = len(self.degree)
        have = np.isin(u * n + v, self.edges[0] * n + self.edges[1])
        wrong = np.where(have, x < -0.5, x > 0.5)
        self._flip(u[wrong], v[wrong])
        return int(wrong.sum())

    def _rest(self, column: Float, told: Float) -> Rest:
        """What the present graph leaves unexplained, without what missing neighbours add to a node's own entry."""
        loops, shift = int(self.form.loops), self.form.shift
        a = self.adjacency
        a = (a + sp.identity(a.shape[0])).tocsr() if loops else a
        share = np.divide(1.0, self.degree, out=np.zeros(len(self.degree)), where=self.degree > 0)
        once = a @ column
        near = 2.0 * shift * column + share[:, None] * once
        rest: Float = told - 2.0 * shift * once - a @ (share[:, None] * once)
        own = (rest * column).sum(axis=1) / (column**2).sum(axis=1)
        rest -= np.where(self._have != self._wanted, np.maximum(own, 0.0), 0.0)[:, None] * column
        spread = (rest**2).mean(axis=1)
        live = np.flatnonzero(spread > self.noise**2 * np.maximum(self.degree, 1))
        wanted = np.maximum(self._wanted, 1e-9).astype(np.float64)
        prior = np.log(wanted / np.sqrt(max(float(wanted.sum()), 1.0)))
        return Rest(rest, spread, live, a, near, column, share, prior)

    def _flip(self, u: Int, v: Int) -> None:
        n = len(self.degree)
        keys = np.setxor1d(self.edges[0] * n + self.edges[1], u * n + v)
        self.edges = np.stack(np.divmod(keys, n))


def checked(matrix: Any, design: Float, answers: Float) -> tuple[float, float]:
    """The factor of `matrix` that suits the answers, and a bound on the operator norm by which the answers' own matrix
    may differ from it, but for a chance of 1e-15 each time it is asked.

    `design`, uniform in [0, 1] (or normal), was drawn after `matrix` was fixed. If they differ by D, a column of the
    rest is at least D times |v'z| long, v the leading right singular vector. The density of v'z is at most sqrt 2 (Ball
    1986, slices of the cube), so all t are shorter than x with a chance of at most (2.83 x / D)^t (Freivalds 1977); the
    factor costs one.
    """
    told = matrix @ design
    factor = float((told * answers).sum() / (told * told).sum())
    longest = float(np.linalg.norm(factor * told - answers, axis=0).max())
    return factor, 2.83 * longest * 10.0 ** (15.0 / max(1, design.shape[1] - 1))
