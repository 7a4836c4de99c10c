"""What one noisy count says about one more neighbour: log E[L(V | k + 1)] / E[L(V | k)], k ~ Poisson(rate).

L is the public law of the noise: discrete Laplace (LPGNet's default), continuous Laplace (its paper) or Gaussian,
clipped at zero or not. Without noise the ratio is V / rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from edgeveil.errors import UnknownNameError
from edgeveil.release.target import StoredCounts

__all__ = ["CountRatio", "as_counts", "expected_total", "likelihood"]

Float = NDArray[np.float64]
GRID = 160
MOST = 12.0  # log-odds that one count may speak for or against a pair
LAWS = ("discrete", "continuous", "gaussian")


def likelihood(values: Any, true: Any, law: str, scale: float, clipped: bool) -> Float:
    """P(noisy value | true count), or its density, [true, values]; a clipped value of 0 stands for all below.

    `true` counts may differ by value: [true, values].
    """
    if law not in LAWS:
        raise UnknownNameError("law of stored counts", law, LAWS)
    v, k = np.asarray(values, np.float64)[None, :], np.asarray(true, np.float64)
    k = k[:, None] if k.ndim == 1 else k
    if scale == 0:
        return np.asarray(v == k, np.float64)
    if law == "gaussian":
        out, below = np.exp(-0.5 * ((v - k) / scale) ** 2) / (scale * math.sqrt(2 * math.pi)), ndtr((0.5 - k) / scale)
    else:
        q = math.exp(-1 / scale)
        peak, tail = ((1 - q) / (1 + q), 1 / (1 + q)) if law == "discrete" else (0.5 / scale, 0.5)
        out, below = peak * q ** np.abs(v - k), tail * q**k
    return np.asarray(np.where((v <= 0) & clipped, below, out), np.float64)


def as_counts(stored: StoredCounts) -> StoredCounts:
    """The counts behind stored evidence, as far as it shows them; counts as they are.

    Where edges stay inside classes, one more neighbour of class c adds about the same to a node's evidence for c
    alone. Most classes have no neighbour of a node, so its median is the evidence of none; most that have any have one,
    so the median of what is above is the evidence of one. Counts below zero said the same as zero.
    """
    if not stored.evidence:
        return stored
    above = stored.counts - np.median(stored.counts, axis=1, keepdims=True)
    some = above[above > 1e-9 * max(float(np.abs(above).max(initial=0.0)), 1e-300)]
    one = float(np.median(some)) if len(some) else 1.0
    return replace(stored, counts=np.maximum(np.rint(above / one), 0.0), clipped=True, evidence=False)


def expected_total(stored: StoredCounts) -> float:
    """Neighbours in all, by moments: the noise has mean zero, clipping at zero adds about E[max(noise, 0)] a cell."""
    lift = 0.0
    if stored.clipped and stored.scale:
        q = math.exp(-1 / stored.scale)
        by_law = {"discrete": q / (1 - q * q), "continuous": stored.scale / 2}
        lift = by_law.get(stored.law, stored.scale / math.sqrt(2 * math.pi))
    return float(stored.counts.sum() - stored.counts.size * lift)


@dataclass(frozen=True, eq=False)
class CountRatio:
    """The ratio for every cell of one stored query, on a grid of rates, besides neighbours that are known."""

    rates: Float
    table: Float  # [rates, values]
    index: NDArray[np.int64]  # [nodes, clusters]: the column of each cell

    @classmethod
    def of(cls, stored: StoredCounts, known: Any = 0) -> CountRatio:
        cells = np.stack([np.rint(stored.counts), np.broadcast_to(known, stored.counts.shape)], axis=-1)
        kinds, index = np.unique(cells.reshape(-1, 2), axis=0, return_inverse=True)
        values, sure = kinds.T
        top = max(float((values - sure).max(initial=0)), 1.0) * 1.2 + 2
        rates = np.r_[1e-6, np.geomspace(1e-4, top, GRID - 1)]
        if stored.scale == 0:
            table = np.log(np.maximum(values - sure, 1e-6))[None, :] - np.log(rates)[:, None]
        else:
            table = _ratio(rates, values, sure, stored)
        return cls(rates, np.clip(table, -MOST, MOST), index.reshape(stored.counts.shape))

    def at(self, rates: Float) -> Float:
        """Log-odds that every cell adds to a pair, at the rate of its other neighbours."""
        rates = np.clip(rates, self.rates[0], self.rates[-1])
        at = np.clip(np.searchsorted(self.rates, rates) - 1, 0, len(self.rates) - 2)
        part = (rates - self.rates[at]) / (self.rates[at + 1] - self.rates[at])
        out: Float = self.table[at, self.index] * (1 - part) + self.table[at + 1, self.index] * part
        return out


def _ratio(rates: Float, values: Float, sure: Float, stored: StoredCounts) -> Float:
    reach = rates[-1] + 8 * math.sqrt(rates[-1]) + 10 * stored.scale
    k = np.arange(int(reach) + 2)
    true = np.r_[k, k[-1] + 1][:, None] + sure[None, :]
    seen = likelihood(values, true, stored.law, stored.scale, stored.clipped)
    poisson = np.exp(k[None, :] * np.log(rates)[:, None] - rates[:, None] - gammaln(k + 1)[None, :])
    without, with_one = poisson @ seen[:-1], poisson @ seen[1:]
    far = without < 1e-290  # so far from the rate that both underflow: the law's slope is all that is left
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.log(with_one) - np.log(without)
    return np.asarray(np.where(far, np.sign((values - sure)[None, :] - rates[:, None]) / stored.scale, out), np.float64)
