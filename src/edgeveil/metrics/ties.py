"""Scores and truth reduced to tie groups, and every ranking figure as an exact expectation over random tie-breaking.

An attacker who must order equal scores can only toss coins. Each function returns the mean over all such orders, so
a constant score behaves exactly like a random one and no figure depends on the order in which pairs were listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from edgeveil.errors import InputError

__all__ = ["TieGroups", "group"]

Float = NDArray[np.float64]
NAN = float("nan")


@dataclass(frozen=True)
class TieGroups:
    """Counts of edges and non-edges per distinct score, best score first. Counts may be weights (bootstrap)."""

    pos: Float
    neg: Float

    @property
    def positives(self) -> float:
        return float(self.pos.sum())

    @property
    def negatives(self) -> float:
        return float(self.neg.sum())

    def auc(self) -> float:
        """Probability that a random edge outranks a random non-edge, ties counting one half."""
        p, n = self.positives, self.negatives
        if p == 0 or n == 0:
            return NAN
        below = n - np.cumsum(self.neg)
        return float((self.pos * (below + 0.5 * self.neg)).sum() / (p * n))

    def average_precision(self) -> float:
        """Mean over edges of the precision at the edge's rank.

        With N0 pairs (P0 edges) above a group of t pairs (p edges), position j of the group holds an edge with
        probability p/t, and then P0 + 1 + (j-1)(p-1)/(t-1) edges are expected up to it; the sum over j is harmonic.
        """
        if self.positives == 0:
            return NAN
        hit = self.pos > 0
        size = self.pos + self.neg
        above = (np.cumsum(size) - size)[hit]
        above_pos = (np.cumsum(self.pos) - self.pos)[hit]
        p, t = self.pos[hit], size[hit]
        slope = np.where(t > 1, (p - 1) / np.where(t > 1, t - 1, 1), 0.0)
        harmonic = np.where(t == 1, 1 / (above + 1), digamma(above + t + 1) - digamma(above + 1))
        total = p / t * ((above_pos + 1 - slope * (above + 1)) * harmonic + slope * t)
        return float(total.sum() / self.positives)

    def tpr_at_fpr(self, fpr: float) -> float:
        """Largest true-positive rate whose false-positive rate does not exceed `fpr`.

        Inside a group with p edges and q non-edges of which F may still be accepted, the edges ahead of the
        (F+1)-th non-edge number p(F+1)/(q+1) on average.
        """
        if not 0 <= fpr <= 1:
            raise InputError(f"a false-positive rate lies in [0, 1], got {fpr!r}")
        if self.positives == 0 or self.negatives == 0:
            return NAN
        allowed = np.floor(fpr * self.negatives * (1 + 1e-12))
        before = np.cumsum(self.neg) - self.neg
        spare = np.clip(allowed - before, -1.0, None)
        share = np.minimum(1.0, (spare + 1) / (self.neg + 1))
        share[before > allowed] = 0.0
        return float((self.pos * share).sum() / self.positives)

    def hits(self, k: float) -> float:
        """Expected edges among the k best pairs; linear in k inside a group, so k need not be whole."""
        size = self.pos + self.neg
        taken = np.clip(k - (np.cumsum(size) - size), 0.0, size)
        return float((self.pos * taken / np.where(size > 0, size, 1.0)).sum())


def check(scores: Any, truth: Any) -> tuple[Float, NDArray[np.bool_]]:
    """Finite scores and a 0/1 truth of one length, or an error that names the first offender."""
    s = np.asarray(scores, dtype=np.float64).ravel()
    t = np.asarray(truth).ravel()
    if len(s) != len(t):
        raise InputError(f"{len(s)} scores but {len(t)} truth values; give one of each per pair")
    if np.isnan(s).any():
        at = int(np.flatnonzero(np.isnan(s))[0])
        raise InputError(f"score {at} is NaN; an undefined score cannot be ranked, so drop or replace it first")
    if t.dtype != np.bool_ and not np.isin(t, (0, 1)).all():
        raise InputError("truth must be 0/1 or boolean, one value per pair")
    return s, t.astype(bool)


def group(scores: Any, truth: Any, rest: tuple[float, float] | None = None, weights: Float | None = None) -> TieGroups:
    """Tie groups, best first. `rest` = (edges, non-edges) among pairs not listed, which all rank last, tied.

    With `weights` each listed pair stands for so many.
    """
    s, t = check(scores, truth)
    _, place = np.unique(-s, return_inverse=True)
    groups = int(place.max()) + 1 if len(s) else 0
    w = np.ones(len(s)) if weights is None else weights
    pos = np.bincount(place[t], weights=w[t], minlength=groups).astype(np.float64)
    neg = np.bincount(place[~t], weights=w[~t], minlength=groups).astype(np.float64)
    if rest is not None and sum(rest) > 0:
        if min(rest) < 0:
            raise InputError(f"rest counts unlisted edges and non-edges, both >= 0; got {rest!r}")
        pos, neg = np.append(pos, rest[0]), np.append(neg, rest[1])
    return TieGroups(pos, neg)
