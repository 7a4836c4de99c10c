"""Public evidence of every pair in one byte: how alike two nodes' features are, and whether they share a class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

__all__ = ["PairLevels", "row_blocks", "unit_rows"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Byte = NDArray[np.uint8]
HALF = 128
MARKED, NEVER = 2 * HALF - 1, HALF - 1  # pairs whose prior is given, and pairs that need no more thought
SURE = 30.0
RAREST = 1e-5
SAMPLE = 400_000
BLOCK = 250_000  # pairs weighed at a time: a few arrays of them fit into the processor's cache


def row_blocks(n: int) -> Iterator[slice]:
    """Rows of an n x n matrix, some at a time."""
    step = max(1, BLOCK // max(n, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def unit_rows(features: Any) -> Any:
    """Rows of length one, CSR where that is much smaller, so that products are cosines."""
    x = features.public() if hasattr(features, "public") else features
    if sp.issparse(x) and x.nnz < 0.1 * x.shape[0] * x.shape[1]:
        size = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
        return (sp.diags(1 / np.maximum(size, 1e-12)) @ x).astype(np.float32).tocsr()
    rows = np.asarray(x.todense() if sp.issparse(x) else x, np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def cosines(unit: Any, rows: Any) -> NDArray[np.float32]:
    """Cosines of some rows with all rows."""
    found = unit[rows] @ unit.T
    return np.asarray(found.toarray() if sp.issparse(found) else found, np.float32)


class PairLevels:
    """One byte per ordered pair: a level of similarity (0..126, fine in the upper tail), plus 128 for one class.

    `marked` pairs [2, P] have the log-odds `odds`, whatever their features say. `known` edges are taken out, because
    `CountRatio` counts them; with `marked` pairs as well, all the others are known not to be edges.
    """

    def __init__(
        self,
        unit: Any,
        classes: Int,
        rng: np.random.Generator,
        marked: Int | None = None,
        odds: float = 0.0,
        known: Int | None = None,
    ) -> None:
        self._odds, self._rest = odds, known is not None and marked is not None
        n = len(classes)
        self.codes: Byte = np.zeros((n, n), np.uint8)
        cuts = None if unit is None else _cuts(unit, n, rng)
        for part in row_blocks(n):
            if cuts is not None:
                self.codes[part] = np.searchsorted(cuts, cosines(unit, part), side="right")
            self.codes[part] += HALF * (classes[part, None] == classes[None, :]).astype(np.uint8)
        if self._rest:
            self.codes[:] = NEVER
        if known is not None:
            self.codes[known[0], known[1]] = self.codes[known[1], known[0]] = NEVER
        if marked is not None:
            self.codes[marked[0], marked[1]] = self.codes[marked[1], marked[0]] = MARKED
        count = np.zeros(2 * HALF)
        for part in row_blocks(n):
            count += np.bincount(self.codes[part].ravel(), minlength=2 * HALF)
        self.count: Float = count - np.bincount(np.diagonal(self.codes), minlength=2 * HALF)
        self.count[[MARKED, NEVER]] = 0

    def start(self, density: float) -> Float:
        """Log-odds before any count is read: alike pairs are likelier, by the root of how rare that is."""
        by_level = self.count[:HALF] + self.count[HALF:] + 1e-9
        above = np.cumsum(by_level[::-1])[::-1] / by_level.sum()
        lift = -0.5 * np.log(np.maximum(above, 1 / by_level.sum()))
        odds = np.r_[lift, lift + 0.7]
        low, high = -60.0, 60.0
        for _ in range(80):
            middle = (low + high) / 2
            mean = (self.count / (1 + np.exp(-(odds + middle)))).sum() / max(self.count.sum(), 1.0)
            low, high = (middle, high) if mean < density else (low, middle)
        return self._given(odds + low)

    def refit(self, mass: Float, density: float) -> Float:
        """Log-odds of each level from the expected edges in it, rising with similarity (the M-step of EM)."""
        out = np.empty(2 * HALF)
        for half in (slice(0, HALF), slice(HALF, 2 * HALF)):
            rate = (mass[half] + 0.5 * density) / (self.count[half] + 0.5)
            rate = np.clip(isotonic_regression(rate, weights=self.count[half] + 1e-9).x, 1e-12, 0.999)
            out[half] = np.log(rate / (1 - rate))
        return self._given(out)

    def _given(self, odds: Float) -> Float:
        odds[MARKED], odds[NEVER] = self._odds, -SURE
        return odds


def _cuts(unit: Any, n: int, rng: np.random.Generator) -> NDArray[np.float32]:
    rows = rng.choice(n, min(n, max(1, SAMPLE // n)), replace=False)
    values = cosines(unit, rows)[np.arange(n)[None, :] != rows[:, None]]
    cuts = np.unique(np.quantile(values, 1 - np.geomspace(1, RAREST, HALF - 1)[1:]))
    return np.asarray(cuts[cuts > values.min()], np.float32)
