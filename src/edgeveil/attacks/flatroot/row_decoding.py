"""Sparse non-negative rows of an unknown matrix from random measurements of all rows at once.

Y = M D with known D [n, m] and m far below n. Rows with few entries are found one by one by matching pursuit. A solved
row gives one entry of every other row (or says that it is zero); rows with fewer unknowns than measurements are solved
by least squares. A row counts as solved only if it explains its measurements with so many of them to spare that no
other set of columns could have done so by accident.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import nnls

from edgeveil.attacks.flatroot.pursuit import pursue

__all__ = ["Rows"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
SPARE = 4  # measurements that a row must explain without having been fitted to them
FEW = 300  # rows that are worth a fit of their own
ROUGH, KEPT = 6000, 40  # unsolved rows that are ranked roughly, and entries of each that are kept
WIDEST = 300  # unknowns per row of a non-negative fit
FILLED = 0.6  # of the measurements that pursuit may use up
BLURRED = 8.0  # times the usual noise: such rows wait until all others are solved and tell most of them
DOUBT = -40.0  # logarithm of the chance that another set of columns explains a row as well


@dataclass
class Rows:
    """`design` [n, m], `answers` [n, m] of size about 1; `noise`: what of one measurement cannot be explained (of all
    nodes, or of each). `coarse`: it is so large that small entries show only on average; such rows prove nothing.

    `mutual`: M equals its transpose, so that solved rows give values to others; else they give only places. `own`: the
    diagonal is there in every row and may have either sign.
    """

    num_nodes: int
    noise: Any
    mutual: bool
    own: bool = False
    coarse: bool = False
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
            self.forget()  # more measurements than unknowns: nothing to build on is needed
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

    def forget(self) -> None:
        """Solve everything anew."""
        self.solved[:] = False
        self.matrix = sp.csr_matrix(self.matrix.shape)

    def rough(self) -> sp.csr_matrix:
        """M as far as known, with the unsolved rows' largest entries by ridge regression: good enough to rank pairs."""
        free = self.unsolved
        if not self.mutual or not len(free) or len(free) > ROUGH or not self.num_measurements:
            return self.matrix
        known = self.matrix.T.tocsr()[free]
        design = self.design[free]
        gram = design.T @ design
        gram[np.diag_indices_from(gram)] += 1e-3 * float(np.diagonal(gram).mean())
        entries = (self.answers[free] - known @ self.design) @ np.linalg.solve(gram, design.T)
        entries = np.maximum((entries + entries.T) / 2, 0.0)
        size = np.sqrt(np.maximum(np.diagonal(entries), 1e-3 * np.diagonal(entries).max()))
        entries /= size[:, None] * size
        cut = np.sort(entries, axis=1)[:, -min(KEPT, len(free)) :][:, :1]
        u, v = np.nonzero(entries >= np.minimum(cut, cut.T))
        add = sp.csr_matrix((entries[u, v] * (size[u] * size[v]), (free[u], free[v])), shape=self.matrix.shape)
        return (self.matrix + add).tocsr()

    def reconciled(self) -> sp.csr_matrix:
        """M of mutual rows, every entry from that of its two rows which has less noise.

        Hubs amplify what they answer and are blurred most: their rows are told by their neighbours', and what these
        leave of their measurements is the diagonal.
        """
        entries, noise = self.matrix.tocoo(), np.broadcast_to(self.noise, self.num_nodes)
        here, there = noise[entries.row], noise[entries.col]
        share = np.where(here < there, 1.0, np.where(here > there, 0.0, 0.5))
        half = sp.csr_matrix((share * entries.data, (entries.row, entries.col)), shape=self.matrix.shape)
        both = half + half.T
        off = (both - sp.diags(both.diagonal())).tocsr()
        left = self.answers - off @ self.design
        own = (left * self.design).sum(axis=1) / (self.design**2).sum(axis=1)
        out = (off + sp.diags(own)).tocsr()
        out.data[out.data < 0] = 0.0
        return out

    @property
    def unsolved(self) -> Int:
        return np.flatnonzero(~self.solved)

    @property
    def _next(self) -> Int:
        """Unsolved rows that it is time for: solved ones give values to others, so blurred ones come last."""
        free = self.unsolved
        clear = self.clear(free) if self.mutual else free
        return clear if len(clear) else free

    def clear(self, rows: Int) -> Int:
        """Those that are not blurred much more than usual."""
        noise = np.broadcast_to(self.noise, self.num_nodes)
        return rows[noise[rows] <= BLURRED * np.median(noise)] if self.coarse else rows

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
        todo = self._next
        m = self.num_measurements
        free = self.unsolved if self.mutual else np.arange(self.num_nodes)  # others are known where M is symmetric
        limit = max(1, min(m - SPARE, int(FILLED * m)))
        known = self.matrix.T.tocsr()
        left = self.answers[todo]
        if self.mutual:
            left = left - known[todo] @ self.design
        first = np.searchsorted(free, todo) if self.own else None
        got = pursue(left, self.design[free], limit, self._enough(todo), first)
        cut = self._cut(free, todo)
        rows, columns, values = [], [], []
        for i in [i for i, one in enumerate(got) if one is not None]:
            place, value = got[i]
            keep = np.abs(value) > cut[i]
            place, value = place[keep], value[keep]
            if (value[place != first[i]] if first is not None else value).min(initial=1.0) < 0:
                continue
            if self._doubt(value, len(free), cut[i]) > DOUBT:
                continue
            row = known[todo[i]] if self.mutual else known[:0]
            rows.append(todo[i])
            columns.append(np.r_[free[place], row.indices])
            values.append(np.r_[value, row.data])
        self._store(np.array(rows, np.int64), columns, values)

    def _doubt(self, value: Float, free: int, cut: float) -> float:
        """Logarithm of a bound on the chance that other columns, as many of `free`, explain this row by accident.

        What a wrong set leaves unexplained is Gaussian in m - k dimensions and at least the smallest entry long; it
        must be noise in all of them.
        """
        k, m = len(value), self.num_measurements
        if not k:
            return -math.inf
        sets = math.lgamma(free + 1) - math.lgamma(k + 1) - math.lgamma(free - k + 1)
        least = float(np.median(value) if self.coarse else np.abs(value).min())
        share = cut / least * (math.sqrt(m) / 2 if self.coarse else 0.1) * math.sqrt(math.e * m / (m - k))
        return sets + (m - k) * math.log(max(share, 1e-300))

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
        todo = self._next
        known = self.matrix.T.tocsr()[todo]
        left = self.answers[todo] - known @ self.design
        x = np.linalg.lstsq(self.design[free].T, left.T, rcond=None)[0].T
        rest = np.linalg.norm(left - x @ self.design[free], axis=1)
        good = np.flatnonzero(rest <= self._enough(todo))
        columns, values = [], []
        cut = self._cut(free, todo)
        for i in good:
            keep = np.abs(x[i]) > cut[i]
            columns.append(np.r_[free[keep], known[i].indices])
            values.append(np.r_[x[i][keep], known[i].data])
        self._store(todo[good], columns, values)
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
        for u in self._next:
            row = known[u]
            places = np.r_[free, row.indices]
            given = self.mutual and len(places) > self._room  # else fit known entries again: their errors would add up
            places = free if given else places
            left = self.answers[u] - (row.data @ self.design[row.indices] if given else 0.0)
            x = method(self.design[places].T, left)
            if x is None:
                continue
            cut = self._cut(places, u)
            keep = np.abs(x) > cut
            rest = float(np.linalg.norm(left - x @ self.design[places]))
            if keep.sum() + SPARE > self.num_measurements or rest > self._enough(u):
                continue
            if method is _non_negative and self._doubt(x[keep], len(places), cut) > DOUBT:
                continue
            rows.append(u)
            columns.append(np.r_[places[keep], row.indices] if given else places[keep])
            values.append(np.r_[x[keep], row.data] if given else x[keep])
        self._store(np.array(rows, np.int64), columns, values)
        return bool(rows)

    def _enough(self, rows: Any) -> Any:
        """A rest of this size is noise."""
        noise = np.broadcast_to(self.noise, self.num_nodes)[rows]
        return 8 * noise * (np.linalg.norm(self.answers[rows], axis=-1) + np.sqrt(self.num_measurements))

    def _cut(self, places: Int, u: Any) -> Any:
        """Below this a fitted entry is noise; much of it averages out where answers are coarse."""
        times = 2 / math.sqrt(self.num_measurements) if self.coarse else 10.0
        return self._enough(u) / np.linalg.norm(self.design[places], axis=1).mean() * times


def _least_squares(design: Float, left: Float) -> Float | None:
    return np.asarray(np.linalg.lstsq(design, left, rcond=None)[0], np.float64)


def _non_negative(design: Float, left: Float) -> Float | None:
    try:
        return np.asarray(nnls(design, left, maxiter=4 * design.shape[0])[0], np.float64)
    except RuntimeError:  # did not settle: not a row with few entries
        return None
