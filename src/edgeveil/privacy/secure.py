"""Exact samplers over operating-system entropy.

Floating-point noise is not differentially private: the last bits of a textbook Laplace draw tell the input (Mironov
2012). Here every draw is a comparison of uniform bits with the binary digits of a probability, so the distribution is
the stated one, not an approximation of it. Geometric and discrete Laplace draws use the fact that the binary digits
of a geometric variable are independent: digit j is 1 with probability q^(2^j) / (1 + q^(2^j)). Unlike rejection
samplers this reads a number of random words that does not depend on the result.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.privacy.guarantee import SECURE
from edgeveil.privacy.probability import Probability, exp_minus, probability

__all__ = ["SecureNoise"]

Int = NDArray[np.int64]
_TAIL = 45.0  # e^-45 < 2^-64: beyond it a geometric draw needs another round
_BLOCK = 1 << 18


class SecureNoise:
    """Exact noise from `os.urandom`; the only source a release may claim privacy for."""

    randomness = SECURE

    def _words(self, kind: Any, size: int) -> NDArray[Any]:
        return np.frombuffer(os.urandom(np.dtype(kind).itemsize * size), dtype=kind)

    def integers(self, low: int, high: int, size: int, /) -> Int:
        """Uniform on [low, high), by rejection of masked words."""
        span = high - low
        if span <= 0:
            raise InputError(f"cannot draw from the empty range [{low}, {high})")
        kind = np.uint32 if span <= 2**32 else np.uint64
        mask = kind((1 << (span - 1).bit_length()) - 1)
        out = np.empty(size, np.int64)
        filled = 0
        while filled < size:
            words = self._words(kind, size - filled) & mask
            words = words[words < span]
            out[filled : filled + len(words)] = words
            filled += len(words)
        out += low
        return out

    def bernoulli(self, p: Probability | Fraction | float, size: int) -> NDArray[np.bool_]:
        """Coins with exactly the given bias: 16 bits decide all but one in 65,536, more bits decide the rest."""
        p = probability(p)
        words, digit = self._words(np.uint16, size), p.floor(16)
        out: NDArray[np.bool_] = words < digit
        open_ = np.flatnonzero(words == digit)
        out[open_] = self._decide(p, 16, len(open_))
        return out

    def _decide(self, p: Probability, used: int, size: int) -> NDArray[np.bool_]:
        """Coins whose first `used` bits all equal those of p."""
        out = np.zeros(size, dtype=bool)
        open_ = np.arange(size)
        while len(open_):
            digit = p.floor(used + 64) - (p.floor(used) << 64)
            words = self._words(np.uint64, len(open_))
            out[open_] = words < digit
            open_ = open_[words == digit]
            used += 64
        return out

    def geometric(self, failure: Probability | Fraction | float, size: int, limit: int = 2**62) -> Int:
        """Failures before the first success, cut at `limit`."""
        failure = probability(failure)
        success = float(failure.complement())
        if success <= 0:
            return np.full(size, limit, np.int64)
        digits = max(1, min(math.ceil(math.log2(_TAIL / success)), limit.bit_length(), 62))
        out = np.empty(size, np.int64)
        for start in range(0, size, _BLOCK):
            out[start : start + _BLOCK] = self._geometric(failure, min(_BLOCK, size - start), digits, limit)
        return out

    def _geometric(self, failure: Probability, size: int, digits: int, limit: int) -> Int:
        """All binary digits at once; the last coin says whether the value reaches 2^digits."""
        coins, thresholds = _digit_coins(failure, digits)
        words = self._words(np.uint16, (digits + 1) * size).reshape(digits + 1, size)
        shows = words < thresholds
        for row, column in np.argwhere(words == thresholds):
            shows[row, column] = self._decide(coins[row], 16, 1)[0]
        packed = np.zeros((8, size), np.uint8)
        packed[: (digits + 7) // 8] = np.packbits(shows[:digits], axis=0, bitorder="little")
        out: Int = np.ascontiguousarray(packed.T).view("<i8").ravel()
        open_ = np.flatnonzero(shows[digits])
        while len(open_) and (1 << digits) <= limit:
            out[open_] = np.minimum(out[open_], limit) + (1 << digits)
            open_ = open_[self.bernoulli(coins[digits], len(open_))]
            open_ = open_[out[open_] < limit]
        out[open_] = limit
        return np.minimum(out, limit)

    def binomial(self, trials: int, p: Probability | Fraction | float) -> int:
        """Number of successes, by exact skips from success to success: O(trials * p)."""
        p = probability(p)
        failure, mean = p.complement(), trials * float(p)
        total, at = 0, -1
        while True:
            size = min(_BLOCK, int(mean - total + 4 * math.sqrt(mean + 1)) + 16) if mean > total else 16
            places = at + np.cumsum(self.geometric(failure, size, trials) + 1)
            inside = int(np.searchsorted(places, trials))
            total += inside
            if inside < size:
                return total
            at = int(places[-1])

    def discrete_laplace(self, scale: Fraction, size: int) -> Int:
        """Integers with P(k) proportional to exp(-|k|/scale), as the difference of two geometric draws."""
        if scale <= 0:
            raise InputError(f"the scale of Laplace noise must be positive, got {scale}")
        failure = exp_minus(1 / Fraction(scale))
        return self.geometric(failure, size) - self.geometric(failure, size)

    def discrete_gaussian(self, scale: Fraction, size: int) -> Int:
        """Integers with P(k) proportional to exp(-k^2 / (2 scale^2)).

        Canonne, Kamath and Steinke 2020, Alg. 3: a discrete Laplace draw y of the whole scale t above `scale` is kept
        with probability exp(-(|y| - scale^2/t)^2 / (2 scale^2)), an exact coin.
        """
        if scale <= 0:
            raise InputError(f"the scale of Gaussian noise must be positive, got {scale}")
        scale = Fraction(scale)
        out = np.empty(size, np.int64)
        filled = 0
        while filled < size:
            draws = self.discrete_laplace(Fraction(math.floor(scale) + 1), min(_BLOCK, 3 * (size - filled) // 2 + 16))
            draws = draws[self._keeps(np.abs(draws), scale)][: size - filled]
            out[filled : filled + len(draws)] = draws
            filled += len(draws)
        return out

    def _keeps(self, sizes: Int, scale: Fraction) -> NDArray[np.bool_]:
        """The coin of each draw: 16 bits against the digits of its size's probability, more where all 16 agree."""
        values, index = np.unique(sizes, return_inverse=True)
        digits = np.array([_kept_digits(scale, int(v)) for v in values], np.int32)[index]
        words = self._words(np.uint16, len(sizes))
        out: NDArray[np.bool_] = words < digits
        for at in np.flatnonzero(words == digits):
            out[at] = self._decide(_kept(scale, int(sizes[at])), 16, 1)[0]
        return out

    def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
        """Refused: continuous noise in floating point is never exact."""
        raise InputError(
            "continuous Laplace noise cannot be drawn privately in floating point; "
            "use discrete_laplace on a grid, or pass a seed if this is an experiment"
        )


def _kept(scale: Fraction, size: int) -> Probability:
    """Chance that the Gaussian sampler keeps a Laplace draw of that size."""
    square = scale**2
    return exp_minus((size - square / (math.floor(scale) + 1)) ** 2 / (2 * square))


@lru_cache(maxsize=1 << 17)
def _kept_digits(scale: Fraction, size: int) -> int:
    return _kept(scale, size).floor(16)


@lru_cache(maxsize=64)
def _digit_coins(failure: Probability, digits: int) -> tuple[list[Probability], NDArray[np.uint16]]:
    """The biases of the binary digits, then that of "2^digits or more", and their first 16 bits as a column."""
    coins = [failure.power(1 << j).odds_share() for j in range(digits)] + [failure.power(1 << digits)]
    return coins, np.array([[coin.floor(16)] for coin in coins], np.uint16)
