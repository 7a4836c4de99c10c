"""k-ary randomised response: keep one of k values with probability e^eps/(e^eps + k - 1), else any other, uniformly.

The number of values may differ from draw to draw (ragged). With the secure source every coin and every uniform index
is exact; draws are grouped by k, so nothing loops over single draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.privacy.noise import Noise
from edgeveil.privacy.probability import Probability, exp_minus

__all__ = ["keep_probability", "ragged_coins", "ragged_uniform", "respond"]

Int = NDArray[np.int64]


@lru_cache(maxsize=4096)
def keep_probability(epsilon: Fraction, k: int) -> Probability:
    """e^eps / (e^eps + k - 1), to any number of digits."""
    if epsilon < 0 or k < 1:
        raise InputError(f"k-ary randomised response needs epsilon >= 0 and k >= 1, got {epsilon} and {k}")
    return exp_minus(epsilon).odds_share(k - 1).complement()


def _groups(sizes: Int) -> Iterator[tuple[int, Any]]:
    """Each distinct size with the places where it occurs, in increasing order of size."""
    if not len(sizes):
        return
    order = np.argsort(sizes, kind="stable")
    values, starts = np.unique(sizes[order], return_index=True)
    for value, at in zip(values, np.split(order, starts[1:]), strict=True):
        yield int(value), at


def ragged_coins(noise: Noise, epsilon: Fraction, sizes: Int) -> NDArray[np.bool_]:
    """One coin per draw: true (keep the value) with `keep_probability(epsilon, sizes[i])`."""
    out = np.ones(len(sizes), dtype=bool)
    for k, at in _groups(sizes):
        if k > 1:
            out[at] = noise.bernoulli(keep_probability(epsilon, k), len(at))
    return out


def ragged_uniform(noise: Noise, sizes: Int) -> Int:
    """One uniform integer in [0, sizes[i]) per draw; 0 where the range is empty."""
    out = np.zeros(len(sizes), np.int64)
    for k, at in _groups(sizes):
        if k > 1:
            out[at] = noise.integers(0, k, len(at))
    return out


def respond(noise: Noise, epsilon: Fraction, values: Int, k: int) -> Int:
    """Plain k-ary randomised response on values 0..k-1."""
    keep = noise.bernoulli(keep_probability(epsilon, k), len(values)) if k > 1 else np.ones(len(values), dtype=bool)
    other = np.asarray(noise.integers(0, max(k - 1, 1), len(values)), np.int64)
    other += other >= values
    return np.where(keep, values, other)
