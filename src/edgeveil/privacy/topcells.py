"""The T largest of N noised 0/1 cells, without ever holding N cells.

Zero cells are exchangeable, so it is enough to know how many of them reach the top: the caller puts that many on
uniformly random zero cells. To find out, only zero cells above a threshold are drawn: their number is binomial, and
beyond the threshold the Laplace tail has no memory, so each is the threshold plus a fresh exponential (or geometric)
step. The threshold is low enough that the top is almost surely inside; if not, the other cells are drawn as well.
Either way the joint distribution is that of N independent cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from edgeveil.graph.pairs import UniformIntegers, sample_distinct
from edgeveil.privacy.noise import Noise
from edgeveil.privacy.probability import Probability, exp_minus

__all__ = ["GRID", "Cells", "ContinuousCells", "GridCells", "Kept", "keep_top"]

GRID = 1 << 10  # steps per unit of a cell's value
SLACK = 6.0  # surplus cells above the threshold, in standard deviations of their number
Values = NDArray[Any]


class Kept(NamedTuple):
    """Which one-cells are among the top, and how many zero-cells."""

    ones: NDArray[np.bool_]
    zeros: int


class Cells(Protocol):
    """Laplace noise for cells: drawn freely, or above a threshold."""

    @property
    def epsilon(self) -> float | Fraction:
        """Privacy of one cell."""
        ...

    @property
    def uniform(self) -> UniformIntegers:
        """Breaks ties."""
        ...

    def ones(self, size: int) -> Values:
        """Noised one-cells."""
        ...

    def zeros(self, size: int) -> Values:
        """Noised zero-cells."""
        ...

    def count_above(self, level: float, size: int) -> tuple[float, int]:
        """The usable level nearest below `level`, and how many of `size` zero-cells reach it."""
        ...

    def zeros_above(self, level: float, size: int) -> Values:
        """Zero-cells given that they reach `level` > 0."""
        ...


@dataclass(frozen=True)
class ContinuousCells:
    """Lap(1/epsilon) in floating point, as printed in the papers: for seeded experiments."""

    epsilon: float
    uniform: np.random.Generator

    def ones(self, size: int) -> Values:
        """Noised one-cells."""
        return 1 + self.zeros(size)

    def zeros(self, size: int) -> Values:
        """Noised zero-cells."""
        return self.uniform.laplace(0.0, 1 / self.epsilon, size)

    def count_above(self, level: float, size: int) -> tuple[float, int]:
        """The level itself, and how many of `size` zero-cells reach it."""
        return level, int(self.uniform.binomial(size, math.exp(-level * self.epsilon) / 2))

    def zeros_above(self, level: float, size: int) -> Values:
        """Zero-cells given that they reach `level`."""
        return level + self.uniform.exponential(1 / self.epsilon, size)


@dataclass(frozen=True)
class GridCells:
    """Discrete Laplace noise on a grid of 1/GRID, exact with a secure source; values are in steps of the grid."""

    epsilon: Fraction
    uniform: Noise

    @property
    def rate(self) -> Fraction:
        """Epsilon per step of the grid."""
        return self.epsilon / GRID

    def ones(self, size: int) -> Values:
        """Noised one-cells."""
        return GRID + self.zeros(size)

    def zeros(self, size: int) -> Values:
        """Noised zero-cells."""
        return self.uniform.discrete_laplace(1 / self.rate, size)

    def count_above(self, level: float, size: int) -> tuple[float, int]:
        """The step at or below `level` (at least one step above zero), and how many zero-cells reach it."""
        step = max(1, math.floor(level * GRID))
        return step, self.uniform.binomial(size, tail(step, self.rate))

    def zeros_above(self, level: float, size: int) -> Values:
        """Zero-cells given that they reach the step `level`."""
        return int(level) + self.uniform.geometric(exp_minus(self.rate), size)


def tail(step: int, rate: Fraction) -> Probability:
    """P(discrete Laplace >= step) = q^step / (1 + q), for step >= 1 and q = exp(-rate)."""
    q, power = exp_minus(rate), exp_minus(rate * step)
    return Probability(lambda c: c.divide(power.evaluate(c), c.add(1, q.evaluate(c))), 5)


def keep_top(ones: int, zeros: int, top: int, cells: Cells) -> Kept:
    """The `top` largest among `ones` cells 1 + noise and `zeros` cells 0 + noise; ties are broken uniformly."""
    if top in (0, ones + zeros):
        return Kept(np.full(ones, top > 0), zeros if top else 0)
    values = cells.ones(ones)
    rivals = _reveal(zeros, top, cells)
    joint = np.concatenate([values, rivals])
    cut = len(joint) - top
    joint.partition(cut)
    level = joint[cut]
    keep, from_zeros = values > level, int(np.count_nonzero(rivals > level))
    tied = np.flatnonzero(values == level)
    ties = len(tied) + int(np.count_nonzero(rivals == level))
    chosen = sample_distinct(ties, top - int(np.count_nonzero(keep)) - from_zeros, cells.uniform)
    keep[tied[chosen[chosen < len(tied)]]] = True
    return Kept(keep, from_zeros + int(np.count_nonzero(chosen >= len(tied))))


def _reveal(zeros: int, top: int, cells: Cells) -> Values:
    """Values of the largest zero-cells, at least min(top, zeros) of them."""
    wanted = top + SLACK * (math.sqrt(top) + 3)
    if zeros <= 2 * wanted:
        return cells.zeros(zeros)
    level, count = cells.count_above(math.log(zeros / wanted / 2) / float(cells.epsilon), zeros)
    high = cells.zeros_above(level, count)
    return high if count >= top else np.concatenate([high, _zeros_below(level, zeros - count, cells)])


def _zeros_below(level: float, size: int, cells: Cells) -> Values:
    """Zero-cells given that they lie below `level` > 0, by rejecting fewer than half."""
    out = cells.zeros(size)
    while len(bad := np.flatnonzero(out >= level)):
        out[bad] = cells.zeros(len(bad))
    return out
