"""Sparse non-negative rows of an unknown matrix from random measurements of all rows at once.

Y = M D with known D [n, m] and m far below n. Rows with few entries are found one by one by matching pursuit. A solved
row gives one entry of every other row (or says that it is zero); rows with fewer unknowns than measurements are solved
by least squares. A row counts as solved only if it explains its measurements with some of them to spare: a wrong set
of columns fits m random measurements with probability zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import nnls

__all__ = ["Rows"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
SPARE = 4  # measurements that a row must explain without having been fitted to them
FEW = 300  # rows that are worth a fit of their own
WIDEST = 300  # unknowns per row of a non-negative fit
BATCH = 1 << 25  # numbers in the bases of rows that are solved together


@dataclass
class Rows:
    """`design` [n, m], `answers` [n, m] of size about 1; `noise`: what of one measurement cannot be explained.

    `mutual`: M equals its transpose, so that solved rows give values to others; else they give only places. `own`: the
    diagonal is there in every row and may have either sign.
    """

    num_nodes: int
    noise: float
    mutual: bool
    own: bool = False
    design: Float = field(init=False)
    answers: Float = field(init=False)
    solved: Bool = field(init=False)
    matrix: sp.csr_matrix = field(init=False)

    def __post_init__(self) -> None:
        n = self.num_nodes
        self.design, self.answers = np.empty((n, 0)), np.empty((n, 0))
        self.solved = np.zeros(n, dtype=bool)
        self.matrix = sp.csr_matrix((n, n))

    @property
    def num_measurements(self) -> int:
        return int(self.design.shape[1])

    def add(self, design: Float, answers: Float) -> None:
        """More measurements of every row."""
        self.design = np.concatenate([self.design, design], axis=1)
        self.answers = np.concatenate([self.answers, answers], axis=1)

    def restart(self, design: Float, answers: Float) -> None:
        """Replace all measurements (a better calibration), keeping the places already found."""
        self.design, self.answers = design, answers

    def solve(self) -> None:
        """Pursuit, elimination and non-negative fits by turns until no further row is solved."""
        if self.num_nodes <= self._room and len(self.unsolved):
            self.solved[:] = False  # more measurements than unknowns: nothing to build on is needed
            self.matrix = sp.csr_matrix(self.matrix.shape)
        tried = 2 * self.num_nodes
        while len(self.unsolved):
            left = len(self.unsolved)
            if self._eliminate():
                continue
            if left < 0.9 * tried:  # far fewer columns than when pursuit last failed
                tried = left
                self._pursue()
            elif not self._fit():
                return

    @property
    def unsolved(self) -> Int:
        return np.flatnonzero(~self.solved)

    def _store(self, rows: Int, columns: list[Any], values: list[Any]) -> None:
        """Write solved rows."""
        if not len(rows):
            return
        count = [len(c) for c in columns]
        place = np.repeat(rows, count)
        add = sp.csr_matrix(
            (np.concatenate(values), (place, np.concatenate(columns).astype(np.int64))), shape=self.matrix.shape
        )
        self.matrix = (self.matrix + add).tocsr()
        self.solved[rows] = True

    def _pursue(self) -> None:
        """Matching pursuit over the columns that may still be there, for every unsolved row."""
        todo = self.unsolved
        m = self.num_measurements
        free = self.unsolved if self.mutual else np.arange(self.num_nodes)  # others are known where M is symmetric
        limit = max(1, min(m - SPARE, m // 2 if len(free) < 4 * m else m // 3))
        size = max(1, BATCH // max(1, m * limit))
        known = self.matrix.T.tocsr()
        for at in range(0, len(todo), size):
            rows = todo[at : at + size]
            left = self.answers[rows].copy()
            if self.mutual:
                left -= known[rows] @ self.design
            first = np.searchsorted(free, rows) if self.own else None
            picked, values, done = pursue(left, self.design[free], limit, self._enough(self.answers[rows]), first)
            good = np.flatnonzero(done)
            own = [free[picked[i][picked[i] >= 0]] for i in good]
            found = [values[i][picked[i] >= 0] for i in good]
            if self.mutual:
                for k, i in enumerate(good):
                    row = known[rows[i]]
                    own[k], found[k] = np.r_[own[k], row.indices], np.r_[found[k], row.data]
            self._store(rows[good], own, found)

    def _eliminate(self) -> bool:
        """Least squares for rows with fewer unknowns than measurements."""
        free = self.unsolved
        if not len(free) or len(free) > self._room:
            return False
        if self.mutual and len(free) > FEW:
            return self._together(free)
        return self._each(free, _least_squares)

    def _together(self, free: Int) -> bool:
        """One factorisation for all unsolved rows: they have the same unknowns where M is symmetric."""
        known = self.matrix.T.tocsr()[free]
        left = self.answers[free] - known @ self.design
        x = np.linalg.lstsq(self.design[free].T, left.T, rcond=None)[0].T
        rest = np.linalg.norm(left - x @ self.design[free], axis=1)
        good = np.flatnonzero(rest <= self._enough(self.answers[free]))
        columns, values = [], []
        for i in good:
            keep = np.abs(x[i]) > self._cut(free, free[i])
            columns.append(np.r_[free[keep], known[i].indices])
            values.append(np.r_[x[i][keep], known[i].data])
        self._store(free[good], columns, values)
        return bool(len(good))

    def _fit(self) -> bool:
        """Non-negative least squares where pursuit fails: exact data and non-negative entries leave one solution."""
        free = self.unsolved
        if len(free) > WIDEST or not self.solved.any():
            return False
        return self._each(free, _non_negative)

    @property
    def _room(self) -> int:
        """Unknowns that the measurements determine well."""
        return int(0.95 * self.num_measurements) - SPARE

    def _each(self, free: Int, method: Callable[[Float, Float], Float | None]) -> bool:
        """Solve unsolved rows one by one over the columns that may be there."""
        known = self.matrix.T.tocsr()
        rows, columns, values = [], [], []
        for u in free:
            row = known[u]
            places = np.r_[free, row.indices]
            given = self.mutual and len(places) > self._room  # else fit known entries again: their errors would add up
            places = free if given else places
            left = self.answers[u] - (row.data @ self.design[row.indices] if given else 0.0)
            x = method(self.design[places].T, left)
            if x is None:
                continue
            keep = np.abs(x) > self._cut(places, u)
            rest = float(np.linalg.norm(left - x @ self.design[places]))
            if keep.sum() + SPARE > self.num_measurements or rest > self._enough(self.answers[u]):
                continue
            rows.append(u)
            columns.append(np.r_[places[keep], row.indices] if given else places[keep])
            values.append(np.r_[x[keep], row.data] if given else x[keep])
        self._store(np.array(rows, np.int64), columns, values)
        return bool(rows)

    def _enough(self, answers: Float) -> Any:
        """A rest of this size is noise."""
        return 8 * self.noise * (np.linalg.norm(answers, axis=-1) + np.sqrt(self.num_measurements))

    def _cut(self, places: Int, u: int) -> float:
        """Below this a fitted entry is noise."""
        return float(self._enough(self.answers[u]) / np.linalg.norm(self.design[places], axis=1).mean() * 10)


def _least_squares(design: Float, left: Float) -> Float | None:
    return np.asarray(np.linalg.lstsq(design, left, rcond=None)[0], np.float64)


def _non_negative(design: Float, left: Float) -> Float | None:
    try:
        return np.asarray(nnls(design, left, maxiter=4 * design.shape[0])[0], np.float64)
    except RuntimeError:  # did not settle: not a row with few entries
        return None


def pursue(answers: Float, columns: Float, limit: int, enough: Float, first: Any = None) -> tuple[Any, Any, Any]:
    """Orthogonal matching pursuit of every row of `answers` [rows, m] over the non-negative span of `columns` [c, m].

    Returns picked columns [rows, limit] (-1: none), their values, and which rows were explained up to a rest of the
    size `enough`. `first`: the column of each row that is picked first and may be negative.
    """
    count, m = answers.shape
    size = np.linalg.norm(columns, axis=1)
    unit = (columns / np.maximum(size, 1e-300)[:, None]).astype(np.float32)  # only ranks columns
    picked = np.full((count, limit), -1)
    basis = np.zeros((count, limit, m))
    share = np.zeros((count, limit))
    triangle = np.tile(np.eye(limit), (count, 1, 1))
    left = answers.copy()
    active = np.flatnonzero(np.linalg.norm(left, axis=1) > enough)
    for k in range(min(limit, len(columns))):
        if not len(active):
            break
        match = left[active].astype(np.float32) @ unit.T
        if k:
            np.put_along_axis(match, picked[active, :k], -np.inf, axis=1)
        best = match.argmax(axis=1) if k or first is None else first[active]
        column = columns[best]
        own = basis[active, :k]
        inner = np.zeros((len(active), k))
        for _ in range(2):
            again = np.matmul(own, column[:, :, None])[:, :, 0]
            column = column - np.matmul(again[:, None, :], own)[:, 0]
            inner += again
        height = np.linalg.norm(column, axis=1)
        fresh = column / np.maximum(height, 1e-300)[:, None]
        basis[active, k] = fresh
        triangle[active, :k, k] = inner
        triangle[active, k, k] = np.maximum(height, 1e-300)
        part = np.einsum("im,im->i", fresh, left[active])
        share[active, k] = part
        left[active] -= part[:, None] * fresh
        picked[active, k] = best
        active = active[np.linalg.norm(left[active], axis=1) > enough[active]]
    values = np.linalg.solve(triangle, share[:, :, None])[:, :, 0]
    done = np.ones(count, dtype=bool)
    done[active] = False
    blur = enough / max(float(size.mean()), 1e-300)
    wrong = (values < -blur[:, None]) & (picked >= 0)
    done &= ~wrong[:, 0 if first is None else 1 :].any(axis=1)
    return picked, values, done
