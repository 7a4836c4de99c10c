"""Group orthogonal matching pursuit: many sparse rows from few signed sums.

Every receiver u answers y_q = sum_v design[q, v] x_v with unknown vectors x_v, few of them large. All receivers share
one design, so they are solved in lock step.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Recovered", "group_omp"]

Array = NDArray[Any]
BLOCK = 1 << 24  # numbers that one block of receivers may hold
FEW = 0.75  # share of receivers still pursued below which the others are left out
EXPLAINED = 1e-3  # a residual of this share of the answer is curvature, not a missing sender


@dataclass(frozen=True)
class Recovered:
    """Norms of the recovered vectors [receivers, senders], and which receivers were explained down to their noise."""

    norms: Array
    explained: Array


def group_omp(
    answers: Array, design: Array, open_: Array, noise: Array, limit: int, heard: Array | None = None
) -> Recovered:
    """Recover ||x_v|| for every receiver.

    `answers` [receivers, queries, classes]; `heard` [receivers, queries]: which of them count (default all); `design`
    [queries, senders]; `open_` [receivers, senders]: senders not yet excluded; `noise` [receivers]: norm of one
    answer's error; at most `limit` senders are picked per receiver. The others get the size at which their column
    still fits the residual, which orders them below the picked ones.
    """
    receivers, queries, classes = answers.shape
    senders = design.shape[1]
    step = max(1, BLOCK // max(senders * classes + queries * limit, 1))
    heard = np.ones((receivers, queries), dtype=bool) if heard is None else heard
    norms, explained = np.zeros((receivers, senders)), np.zeros(receivers, dtype=bool)
    for at in range(0, receivers, step):
        part = slice(at, at + step)
        solver = _Pursuit(answers[part], heard[part], design, open_[part], noise[part], limit)
        norms[part], explained[part] = solver.run()
    return Recovered(norms, explained)


_BY_RECEIVER = (
    "answers", "heard", "size", "match", "open", "basis", "triangle", "shares", "picked", "left", "enough", "explained",
)  # fmt: skip


class _Pursuit:
    """One block of receivers. `basis` is the Gram-Schmidt basis of the picked columns, `triangle` its coefficients."""

    def __init__(self, answers: Array, heard: Array, design: Array, open_: Array, noise: Array, limit: int) -> None:
        count, queries, classes = answers.shape
        answers = answers * heard[:, :, None]
        self.answers, self.heard, self.design, self.limit = answers, heard, design, limit
        self.size = np.sqrt(heard @ design**2)
        asked = self.size > 0
        self.size[~asked] = 1.0
        self.match = np.einsum("qv,uqc->uvc", design, answers, optimize=True)
        self.open = open_ & asked
        self.basis = np.zeros((count, queries, limit))
        self.triangle = np.tile(np.eye(limit), (count, 1, 1))
        self.shares = np.zeros((count, limit, classes))
        self.picked = np.full((count, limit), -1)
        self.left = (answers**2).sum(axis=(1, 2))
        self.enough = np.maximum(heard.sum(axis=1) * noise**2, 1e-18 * self.left)
        self.explained = np.maximum(self.enough, EXPLAINED**2 * self.left)

    def run(self) -> tuple[Array, Array]:
        """Pick until everything is explained, nothing is left to pick, or the limit is reached."""
        self._pick_from(0)
        vectors = np.linalg.solve(self.triangle, self.shares)
        rest = np.sqrt((self.match**2).sum(axis=2)) / self.size**2
        norms = np.where(self.open, rest, 0.0)
        rows, columns = np.nonzero(self.picked >= 0)
        norms[rows, self.picked[rows, columns]] = np.sqrt((vectors**2).sum(axis=2))[rows, columns]
        return norms, self.left <= self.explained

    def _pick_from(self, start: int) -> None:
        """Pick on; receivers that are through stay so, and are left out once they are many."""
        for k in range(start, self.limit):
            active = self._pick(k)
            if not active.any():
                return
            if active.mean() < FEW:
                some = copy(self)
                for name in _BY_RECEIVER:
                    setattr(some, name, getattr(self, name)[active])
                some._pick_from(k + 1)
                for name in _BY_RECEIVER:
                    getattr(self, name)[active] = getattr(some, name)
                return

    def _pick(self, k: int) -> NDArray[np.bool_]:
        fit = np.where(self.open, (self.match**2).sum(axis=2) / self.size**2, -1.0)
        best = fit.argmax(axis=1)
        rows = np.arange(len(best))
        active = (fit[rows, best] > 0) & (self.left > self.enough)
        if not active.any():
            return np.asarray(active)
        column = self.design[:, best].T * self.heard
        inner = np.zeros((len(rows), k))
        for _ in range(2):  # twice is enough for full orthogonality
            again = np.einsum("uqk,uq->uk", self.basis[:, :, :k], column)
            column -= np.einsum("uqk,uk->uq", self.basis[:, :, :k], again)
            inner += again
        height = np.linalg.norm(column, axis=1)
        new = active & (height > 1e-8 * self.size[rows, best])
        unit = np.where(new[:, None], column / np.where(height > 0, height, 1.0)[:, None], 0.0)
        self.basis[:, :, k] = unit
        self.triangle[:, :k, k] = np.where(new[:, None], inner, 0.0)
        self.triangle[:, k, k] = np.where(new, height, 1.0)
        share = np.einsum("uq,uqc->uc", unit, self.answers)
        self.shares[:, k] = share
        self.left = np.maximum(self.left - (share**2).sum(axis=1), 0.0)
        self.match -= (unit @ self.design)[:, :, None] * share[:, None, :]
        self.picked[new, k] = best[new]
        self.open[rows[active], best[active]] = False
        return np.asarray(active)
