"""Noise from two sources behind one interface: seeded for experiments, operating-system entropy for real releases.

`noise_for(None)` is secure: every draw is exact in distribution, decided by integer comparisons alone.
`noise_for(seed)` is reproducible, floating point underneath, and therefore never private.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.privacy.guarantee import SEEDED
from edgeveil.privacy.probability import Probability, exp_minus, probability
from edgeveil.privacy.secure import SecureNoise
from edgeveil.seeds import Seed, as_generator

__all__ = ["LARGEST", "Noise", "SecureNoise", "SeededNoise", "noise_for"]

Int = NDArray[np.int64]
LARGEST = 2**62


class Noise(Protocol):
    """What a mechanism may draw from."""

    randomness: str

    def integers(self, low: int, high: int, size: int, /) -> Any:
        """Uniform on [low, high)."""
        ...

    def bernoulli(self, p: Probability | Fraction | float, size: int) -> NDArray[np.bool_]:
        """Coins that are true with probability p."""
        ...

    def geometric(self, failure: Probability | Fraction | float, size: int, limit: int = LARGEST) -> Int:
        """Failures before the first success, cut at `limit`: P(k) = failure^k (1 - failure)."""
        ...

    def binomial(self, trials: int, p: Probability | Fraction | float) -> int:
        """Number of successes."""
        ...

    def discrete_laplace(self, scale: Fraction, size: int) -> Int:
        """Integers with P(k) proportional to exp(-|k|/scale); epsilon = sensitivity/scale."""
        ...

    def discrete_gaussian(self, scale: Fraction, size: int) -> Int:
        """Integers with P(k) proportional to exp(-k^2 / (2 scale^2)); rho = sensitivity^2 / (2 scale^2)."""
        ...

    def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
        """Continuous Laplace noise, for reproducing published numbers; the secure source refuses."""
        ...


class SeededNoise:
    """NumPy's generator: reproducible, floating point, not private."""

    randomness = SEEDED

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def integers(self, low: int, high: int, size: int, /) -> Int:
        """Uniform on [low, high)."""
        return self._rng.integers(low, high, size)

    def bernoulli(self, p: Probability | Fraction | float, size: int) -> NDArray[np.bool_]:
        """Coins that are true with probability p."""
        out: NDArray[np.bool_] = self._rng.random(size) < float(p)
        return out

    def geometric(self, failure: Probability | Fraction | float, size: int, limit: int = LARGEST) -> Int:
        """Failures before the first success, cut at `limit`."""
        success = float(probability(failure).complement())
        return np.minimum(self._rng.geometric(success, size) - 1, limit)

    def binomial(self, trials: int, p: Probability | Fraction | float) -> int:
        """Number of successes."""
        return int(self._rng.binomial(trials, float(p)))

    def discrete_laplace(self, scale: Fraction, size: int) -> Int:
        """Integers with P(k) proportional to exp(-|k|/scale), as the difference of two geometric draws."""
        failure = exp_minus(1 / Fraction(scale))
        return self.geometric(failure, size) - self.geometric(failure, size)

    def discrete_gaussian(self, scale: Fraction, size: int) -> Int:
        """Integers with P(k) proportional to exp(-k^2 / (2 scale^2)), by rejection from the discrete Laplace law."""
        if scale <= 0:
            raise InputError(f"the scale of Gaussian noise must be positive, got {scale}")
        wide, sigma = math.floor(scale) + 1, float(scale)
        out = np.empty(0, np.int64)
        while len(out) < size:
            draws = self.discrete_laplace(Fraction(wide), 3 * (size - len(out)) // 2 + 16)
            chance = np.exp(-((np.abs(draws) - sigma**2 / wide) ** 2) / (2 * sigma**2))
            out = np.concatenate([out, draws[self._rng.random(len(draws)) < chance]])
        return out[:size]

    def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
        """Continuous Laplace noise."""
        return self._rng.laplace(0.0, float(scale), size)


def noise_for(seed: Seed, *path: str | int) -> Noise:
    """Secure noise for None; else a seeded stream named by `path`, or the given generator."""
    return SecureNoise() if seed is None else SeededNoise(as_generator(seed, *path))
