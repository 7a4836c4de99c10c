"""Loopy belief propagation between pairs and the stored counts they add to, some rows at a time.

A pair (i, j) adds one to cell (i, class of j) and to cell (j, class of i) of every stored query. A cell's message to
the pair is `likelihood.CountRatio` at the rate of its other pairs, where these are believed without the cell's own
word (the cavity). Messages depend on the cell alone but for the pair's own share in the rate, along which they are
linear; so the state is two numbers per cell, and a pair's probability is rebuilt wherever it is needed. Memory: one
byte per pair (`levels`) and one block of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.counts.levels import PairLevels, row_blocks
from edgeveil.attacks.counts.likelihood import CountRatio, expected_total
from edgeveil.release.target import StoredCounts

__all__ = ["Beliefs", "infer"]

Float = NDArray[np.float64]
Single = NDArray[np.float32]
Int = NDArray[np.int64]
Hot = tuple[tuple[NDArray[np.intp], ...], Any]
DAMP = 0.5
COLD = -5.0  # log-odds below which a pair's own share in a rate, under 0.007, is nothing


class Beliefs:
    """Probabilities of all pairs under the current messages."""

    def __init__(self, levels: PairLevels, stored: Sequence[StoredCounts], known: Int | None = None) -> None:
        self.levels, self.stored = levels, tuple(stored)
        self.n = len(levels.codes)
        pairs = self.n * (self.n - 1)
        total = float(np.mean([expected_total(s) for s in stored]))
        self.density = min(max(total, 0.1 * self.n) / pairs, 0.5)
        self.prior = levels.start(self.density)
        self.messages = [np.zeros((2, *s.counts.shape), np.float32) for s in stored]
        self._other = [np.ascontiguousarray(m[0].T) for m in self.messages]
        self._ratios = [CountRatio.of(s, 0 if known is None else count_of(known, s)) for s in stored]
        self._hot = [np.eye(s.counts.shape[1], dtype=np.float32)[s.clusters] for s in stored]

    def rows(self, part: slice) -> tuple[Single, Single, list[Single], Hot]:
        """Log-odds of the pairs of some rows, their probability, what each query says at the rows' own end, and where
        a pair's own share in its cells' rates matters: there log-odds are settled, elsewhere they are as given."""
        base: Single = np.take(self.prior.astype(np.float32), self.levels.codes[part])
        own: list[Single] = []
        for stored, message, other in zip(self.stored, self.messages, self._other, strict=True):
            own.append(np.take(message[0][part], stored.clusters, axis=1))
            base += own[-1]
            base += other[stored.clusters[part]]
        hot = np.nonzero(base > COLD)
        slope = self._slopes(hot[0] + part.start, hot[1])
        settled, certain = _settle(base[hot], slope.sum(axis=(0, 1)))
        p = _sigmoid(base)
        base[hot], p[hot] = settled, certain
        p[np.arange(len(p)), np.arange(self.n)[part]] = 0
        return base, p, own, (hot, slope[0])

    def _slopes(self, i: Any, j: Any) -> Any:
        """How the messages of a pair's cells change with its own probability: [end, query, pair]."""
        both = tuple(zip(self.stored, self.messages, strict=True))
        return np.array([[m[1][a, s.clusters[b]] for s, m in both] for a, b in ((i, j), (j, i))])

    def of_pairs(self, i: Int, j: Int) -> Float:
        """Probabilities of the given pairs."""
        base = self.prior[self.levels.codes[i, j]]
        for stored, message in zip(self.stored, self.messages, strict=True):
            for a, b in ((i, j), (j, i)):
                base += message[0][a, stored.clusters[b]]
        return np.asarray(_settle(base, self._slopes(i, j).sum(axis=(0, 1)))[1], np.float64)

    def step(self) -> None:
        """One round: all messages from the current beliefs, then the prior of every level."""
        rates = [np.zeros(s.counts.shape) for s in self.stored]
        mass = np.zeros(256)
        for part in row_blocks(self.n):
            odds, p, own, (hot, slopes) = self.rows(part)
            mass += np.bincount(self.levels.codes[part].ravel(), weights=p.ravel(), minlength=256)
            alone = np.arange(len(p)), np.arange(self.n)[part]
            for k, (word, slope, stored) in enumerate(zip(own, slopes, self.stored, strict=True)):
                if stored.scale:
                    np.subtract(odds, word, out=word)
                    word[hot] -= slope * p[hot]
                    cavity = _sigmoid(word)
                    cavity[alone] = 0
                    rates[k][part] = cavity @ self._hot[k]
                else:
                    rates[k][part] = p @ self._hot[k]
        for k, (rate, ratio, stored) in enumerate(zip(rates, self._ratios, self.stored, strict=True)):
            self.messages[k] = self._message(self.messages[k], rate, ratio, exact=not stored.scale)
            self._other[k] = np.ascontiguousarray(self.messages[k][0].T)
        self.prior = (1 - DAMP) * self.prior + DAMP * self.levels.refit(mass, self.density)

    @staticmethod
    def _message(old: Single, rate: Float, ratio: CountRatio, exact: bool) -> Single:
        """Damped belief propagation; exact counts are fitted proportionally (IPF), where propagation overshoots."""
        full = ratio.at(rate)
        if exact:
            fitted = np.clip(old[0] + DAMP * full, -60, 60)
            return np.stack([fitted, np.zeros_like(fitted)]).astype(np.float32)
        new = np.stack([full, ratio.at(rate - 1) - full])
        return np.asarray((1 - DAMP) * old + DAMP * new, np.float32)

    def best(self, nodes: Int, keep: int) -> tuple[Float, Int]:
        """The `keep` likeliest pairs among the nodes, with their probabilities."""
        mine = np.zeros(self.n, dtype=bool)
        mine[nodes] = True
        value, ends = np.empty(0, np.float32), np.empty((2, 0), np.int64)
        for part, p in self._later(mine):
            i, j = np.nonzero(p > (value.min() if len(value) >= keep else 0))
            value = np.r_[value, p[i, j]]
            ends = np.concatenate([ends, np.stack([i + part.start, j])], axis=1)
            if len(value) > keep:
                top = np.sort(np.argpartition(-value, keep - 1)[:keep])
                value, ends = value[top], ends[:, top]
        return value.astype(np.float64), ends

    def _later(self, mine: Any) -> Iterator[tuple[slice, Single]]:
        for part in row_blocks(self.n):
            p = self.rows(part)[1]
            later = np.arange(self.n)[None, :] > np.arange(self.n)[part, None]
            yield part, p * (later & mine[None, :] & mine[part, None])


def count_of(edges: Int, stored: StoredCounts) -> Float:
    """What known edges add to every cell."""
    out = np.zeros(stored.counts.shape)
    for a, b in ((edges[0], edges[1]), (edges[1], edges[0])):
        np.add.at(out, (a, stored.clusters[b]), 1.0)
    return out


def infer(levels: PairLevels, stored: Sequence[StoredCounts], rounds: int, known: Int | None = None) -> Beliefs:
    """So many rounds of messages and EM."""
    beliefs = Beliefs(levels, stored, known)
    for _ in range(rounds):
        beliefs.step()
    return beliefs


def _sigmoid(odds: Any) -> Any:
    out = np.exp(np.minimum(odds, 80))
    out /= 1 + out
    return out


def _settle(base: Any, slope: Any) -> tuple[Any, Any]:
    """p = sigmoid(base + slope p): the pair's own share in its cells' rates."""
    p = _sigmoid(base + 0.5 * slope)
    for _ in range(2):
        p = 0.5 * p + 0.5 * _sigmoid(base + slope * p)
    odds = base + slope * p
    return odds, _sigmoid(odds)
