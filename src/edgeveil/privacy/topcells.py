"""The T largest of N noised 0/1 cells, without ever holding N cells.

Zero cells are exchangeable, so it is enough to know how many of them reach the top: the caller puts that many on
uniformly random zero cells. Two versions with one result: continuous Laplace noise in floating point for seeded
experiments, and discrete Laplace noise on a grid of 2^-10 with exact integer sampling for real releases.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.graph.pairs import sample_distinct
from edgeveil.privacy.noise import Noise
from edgeveil.privacy.probability import Probability, exp_minus

__all__ = ["GRID", "Kept", "keep_top_continuous", "keep_top_grid"]

Int = NDArray[np.int64]
Float = NDArray[np.float64]
GRID = 1 << 10  # steps per unit of a cell's value


class Kept(NamedTuple):
    """Which one-cells are among the top, and how many zero-cells."""

    ones: NDArray[np.bool_]
    zeros: int


def keep_top_continuous(ones: int, zeros: int, top: int, scale: float, rng: np.random.Generator) -> Kept:
    """The `top` largest among `ones` cells 1 + Lap(scale) and `zeros` cells Lap(scale)."""
    values = 1 + rng.laplace(0.0, scale, ones)
    if top == ones + zeros:
        return Kept(np.ones(ones, dtype=bool), zeros)
    rivals = top_laplace(zeros, min(top, zeros), scale, rng)
    # rivals[k] is among the top exactly if it beats the (top-k)-th largest one-cell, and this is monotone in k.
    ranked = np.sort(values)[::-1]
    place = top - 1 - np.arange(len(rivals))
    beaten = np.where(place < ones, ranked[np.minimum(place, max(ones - 1, 0))] if ones else -np.inf, -np.inf)
    from_zeros = int(np.count_nonzero(rivals > beaten))
    keep = np.zeros(ones, dtype=bool)
    if top > from_zeros:
        keep[np.argpartition(values, ones - (top - from_zeros))[ones - (top - from_zeros) :]] = True
    return Kept(keep, from_zeros)


def top_laplace(count: int, top: int, scale: float, rng: np.random.Generator) -> Float:
    """The `top` largest of `count` independent Lap(scale) draws, in decreasing order.

    Renyi: with E_j standard exponential, a_k = sum over j <= k of E_j / (count - j + 1), the k-th smallest of `count`
    uniforms is 1 - exp(-a_k). As an upper-tail probability it maps to the k-th largest Laplace value; below the
    median the quantile is scale * (ln 2 - a_k), without cancellation.
    """
    a = np.cumsum(rng.standard_exponential(top) / (count - np.arange(top)))
    upper = a <= math.log(2)
    out = math.log(2) - a
    with np.errstate(divide="ignore"):
        out[upper] = -np.log(-2 * np.expm1(-a[upper]))
    return scale * out


def keep_top_grid(ones: int, zeros: int, top: int, epsilon: Fraction, noise: Noise) -> Kept:
    """The same with cells in steps of 1/GRID and exact noise; cells that tie at the end are chosen uniformly."""
    values = GRID + noise.discrete_laplace(GRID / epsilon, ones)
    rivals = _reveal(zeros, top, epsilon / GRID, noise)
    if top == 0:
        return Kept(np.zeros(ones, dtype=bool), 0)
    joint = np.concatenate([values, rivals])
    level = np.partition(joint, len(joint) - top)[len(joint) - top]
    keep, from_zeros = values > level, int(np.count_nonzero(rivals > level))
    tied = np.flatnonzero(values == level)
    ties = len(tied) + int(np.count_nonzero(rivals == level))
    chosen = sample_distinct(ties, top - int(keep.sum()) - from_zeros, noise)
    keep[tied[chosen[chosen < len(tied)]]] = True
    return Kept(keep, from_zeros + int(np.count_nonzero(chosen >= len(tied))))


def _reveal(zeros: int, top: int, rate: Fraction, noise: Noise, slack: float = 6.0) -> Int:
    """Values of the largest zero-cells, at least min(top, zeros) of them.

    Cells are revealed above a falling threshold: first as many as are probably needed, then, if luck fell short, all
    the others. What is revealed never depends on the one-cells, so the cells keep their joint distribution.
    """
    wanted = top + slack * math.sqrt(top) + 16
    threshold = math.floor(math.log(zeros / wanted / 2) / float(rate)) if zeros > 2 * wanted else 0
    if threshold < 1:
        return noise.discrete_laplace(1 / rate, zeros)
    count = noise.binomial(zeros, _tail(threshold, rate))
    high = threshold + noise.geometric(exp_minus(rate), count)  # an exponential tail has no memory
    if count >= top:
        return high
    return np.concatenate([high, _below(threshold, zeros - count, rate, noise)])


def _tail(threshold: int, rate: Fraction) -> Probability:
    """P(discrete Laplace >= threshold) = q^threshold / (1 + q), for threshold >= 1 and q = exp(-rate)."""
    q, power = exp_minus(rate), exp_minus(rate * threshold)
    return Probability(lambda c: c.divide(power.evaluate(c), c.add(1, q.evaluate(c))), 5)


def _below(threshold: int, count: int, rate: Fraction, noise: Noise) -> Int:
    """Discrete Laplace draws given that they lie below `threshold` >= 1, by rejection of fewer than half."""
    out = noise.discrete_laplace(1 / rate, count)
    while len(bad := np.flatnonzero(out >= threshold)):
        out[bad] = noise.discrete_laplace(1 / rate, len(bad))
    return out
