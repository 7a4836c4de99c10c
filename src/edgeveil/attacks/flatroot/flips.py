"""What flipping pairs of a guessed graph would explain of the answers: pair by pair, and many of them together.

D^1/2 P^2 D^1/2 = s^2 D + 2 s A + A R A, with R = 1 / D, s = 1 where P = I + S, and loops in A where the form has them.
Flipping u, v adds 2 s z_v + r_v (A z)_v to the answers of u, r_u z_v to those of u's neighbours, and likewise for v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Rest"]

Float = NDArray[np.float64]
Single = NDArray[np.float32]
Int = NDArray[np.int64]
BLOCK = 2048
PAIRS = 1 << 16  # pairs looked at together
SAMPLE = 300  # nodes that show how far chance goes
MEDIAN = 0.455  # of a squared normal variable
STEPS, MORE, SETTLED = 12, 60, 1e-4  # of conjugate gradients; more of them for few pairs
FEW = 20_000
RIDGE = 4.0  # one over the variance of a bit


@dataclass(eq=False)
class Rest:
    """`rest` [n, m] that the graph leaves unexplained, its `spread` [n], and the `live` nodes where it is not noise.

    `adjacency` has loops where the form has them; `near` [n, m] is what an edge to a node adds to its other end, `far`
    what it adds to that end's neighbours, over r; `prior` [n]: log-odds of an edge are the sum of its ends'.
    """

    rest: Float
    spread: Float
    live: Int
    adjacency: sp.csr_matrix
    near: Float
    far: Float
    share: Float
    prior: Float

    def __post_init__(self) -> None:
        at = self.live
        weight = np.zeros(len(self.share))
        weight[at] = 1 / self.spread[at]
        self._weight = weight.astype(np.float32)
        self._share = self.share.astype(np.float32)[:, None]
        self._adjacency = self.adjacency.astype(np.float32)
        self._near, self._far = self.near.astype(np.float32), self.far.astype(np.float32)
        self._pull = self._weight[:, None] * self.rest.astype(np.float32)
        self._loops = self.adjacency.diagonal()
        self._squares()

    def _squares(self) -> None:
        """What flips cost by themselves: the squares of what they add, over the spreads."""
        own = np.einsum("ij,ij->i", self._near, self._near)
        cross = np.einsum("ij,ij->i", self._near, self._far)
        alone = np.einsum("ij,ij->i", self._far, self._far)
        share = self._share[:, 0]
        around = share**2 * (self._adjacency @ self._weight)
        looped = 2 * self._weight * share * self._loops.astype(np.float32)
        self._cost = np.stack([self._weight, looped, around]), np.stack([own, cross, alone])

    def _costs(self, i: Int, j: Int) -> Single:
        left, right = self._cost
        out: Single = left[:, i].T @ right[:, j] + right[:, i].T @ left[:, j]
        return out

    def likely(self, least: float, most: int) -> tuple[Int, Int]:
        """Pairs of live nodes, u < v, with log-odds of a flip of at least `least`: the `most` best."""
        at = self.live
        pull = np.concatenate([self._pull[at], self._around(self._pull)[at]], axis=1)
        push = np.concatenate([self._near[at], self._far[at]], axis=1)
        blur = self._blur(pull, push)
        prior = self.prior[at].astype(np.float32)
        here = self.adjacency[at][:, at].tocsr()
        found: list[tuple[Int, Int, Single]] = []
        for a in range(0, len(at), BLOCK):
            for b in range(a, len(at), BLOCK):
                one, two = slice(a, a + BLOCK), slice(b, b + BLOCK)
                odds = pull[one] @ push[two].T
                odds += push[one] @ pull[two].T
                there = here[one][:, two].tocoo()
                odds[there.row, there.col] *= -1
                odds -= 0.5 * self._costs(at[one], at[two])
                odds /= np.sqrt(blur[one, None] * blur[two])
                before = np.minimum(prior[one, None] + prior[two], 0.0)
                before[there.row, there.col] *= -1
                odds += before
                i, j = np.nonzero(odds > least)
                keep = i + a < j + b
                i, j = i[keep], j[keep]
                found.append((at[i + a], at[j + b], odds[i, j]))
        u, v, odds = (np.concatenate([f[k] for f in found]) for k in range(3))
        if len(u) > most:
            best = np.argpartition(-odds, most)[:most]
            u, v = u[best], v[best]
        return np.minimum(u, v), np.maximum(u, v)

    def _blur(self, pull: Single, push: Single) -> Single:
        """By how much chance exceeds what independent errors would give, by node."""
        count = len(self.live)
        some = np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64))
        chance = pull @ push[some].T + push @ pull[some].T
        cost = self._costs(self.live, self.live[some])
        out: Single = np.maximum(np.median(chance**2 / np.maximum(cost, 1e-30), axis=1) / MEDIAN, 1.0)
        return out.astype(np.float32)

    def _around(self, rows: Single) -> Single:
        """Sums over neighbours, times r."""
        out: Single = self._share * (self._adjacency @ rows)
        return out

    def support(self, u: Int, v: Int) -> Float:
        """Probability of present edges, each weighed by itself."""
        left, right = self._cost
        cost = sum((left[:, a] * right[:, b]).sum(axis=0) for a, b in ((u, v), (v, u)))
        before = np.minimum(self.prior[u] + self.prior[v], 0.0)
        odds = self._against(self._pull, u, v) + 0.5 * cost + before
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -40, 40))), np.float64)

    def together(self, u: Int, v: Int) -> Single:
        """How much of every pair's edge is to be added, by least squares over all of them (conjugate gradients)."""
        n = len(self.share)
        weight = self._weight[:, None]
        i, j = np.r_[u, v], np.r_[v, u]

        def forward(x: Single) -> Single:
            d = sp.csr_matrix((np.r_[x, x], (i, j)), shape=(n, n))
            out: Single = d @ self._near + self._adjacency @ (self._share * (d @ self._far))
            return out

        left, right = self._cost
        size = sum((left[:, a] * right[:, b]).sum(axis=0) for a, b in ((u, v), (v, u))) + RIDGE
        x = np.zeros(len(u), np.float32)
        rest = self._against(self._pull, u, v)
        step = along = rest / size
        now = first = float(rest @ step)
        for _ in range(STEPS if len(u) > FEW else MORE):
            image = self._against(weight * forward(along), u, v) + RIDGE * along
            length = np.float32(now / float(along @ image))
            x += length * along
            rest = rest - length * image
            step = rest / size
            before, now = now, float(rest @ step)
            if now < SETTLED * first:
                break
            along = step + np.float32(now / before) * along
        return x

    def _against(self, rows: Single, u: Int, v: Int) -> Single:
        """Inner products of `rows` with what every pair adds."""
        around = self._around(rows)
        out = np.empty(len(u), np.float32)
        for start in range(0, len(u), PAIRS):
            part = slice(start, start + PAIRS)
            total: Any = 0
            for a, b in ((u[part], v[part]), (v[part], u[part])):
                total = total + np.einsum("ij,ij->i", rows[a], self._near[b])
                total = total + np.einsum("ij,ij->i", around[a], self._far[b])
            out[part] = total
        return out
