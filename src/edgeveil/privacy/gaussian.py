"""Epsilon of composed Gaussian noise at a given delta: upper bounds, every rounding against us.

Three routes, from general to exact. `zcdp_epsilon` holds for whatever has a rho. `analytic_epsilon` is the exact curve
of continuous noise (Balle and Wang 2018). The discrete law lies above that curve between the values its loss can take,
so `discrete_epsilon` computes its own curve (Canonne, Kamath and Steinke 2020, Thm 7, for many counts at once).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "analytic_delta",
    "analytic_epsilon",
    "discrete_delta",
    "discrete_epsilon",
    "equivalent_shift",
    "zcdp_epsilon",
]

_UP = 1 + 1e-12  # covers the rounding of a short formula in double precision
_SUMS = 1e-9  # relative error of the tabulated tails, which add up to 10^7 positive terms
_REACH = 12  # standard deviations in a table; the rest of a law weighs less than 2 e^-72
_BEYOND = 2 * math.exp(-_REACH * _REACH / 2)
_WIDEST = 2e5  # standard deviation of the widest table
_SMOOTH = 2.0  # from here on the sum of discrete Gaussians is one, up to a factor of 1 + 10^-15 per term
_TERMS = 500  # most terms that are added up one by one below that


def zcdp_epsilon(rho: Fraction | float, delta: float) -> float:
    """Epsilon of rho-zCDP at delta: the best order of Canonne, Kamath and Steinke 2020, Cor. 13.

    Every order alpha > 1 gives a valid epsilon, so the search need not find the very best one.
    """
    if rho == 0:
        return 0.0
    cost, log_delta = float(rho) * _UP, math.log(delta)

    def at(log_order: float) -> float:
        beyond = math.exp(log_order)  # alpha - 1
        alpha = 1 + beyond
        parts = (alpha * cost, -log_delta / beyond, math.log(beyond), -alpha / beyond * math.log(alpha))
        return sum(parts) + 1e-14 * sum(map(abs, parts))

    start = math.log(math.sqrt(-log_delta / cost) + 1e-3)
    return max(0.0, at(_lowest(at, min(start - 4, -6.0), max(start + 4, 1.0))))


def _lowest(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is lowest, by golden sections after a coarse scan."""
    grid = np.linspace(low, high, 60)
    best = int(np.argmin([of(float(x)) for x in grid]))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-7:
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if of(left) < of(right) else (left, high)
    return (low + high) / 2


def analytic_delta(shift: float, epsilon: float) -> float:
    """Delta of continuous Gaussian noise between answers `shift` standard deviations apart (Balle and Wang, Thm 8)."""
    from scipy.special import log_ndtr

    first = math.exp(float(log_ndtr(shift / 2 - epsilon / shift)))
    second = math.exp(epsilon + float(log_ndtr(-shift / 2 - epsilon / shift)))
    return max(0.0, first - second) + _SUMS * first


def analytic_epsilon(squared_shift: Fraction | float, delta: float) -> float:
    """Smallest epsilon of composed continuous Gaussian queries: squared shifts (sensitivity/sigma)^2 add up."""
    if squared_shift == 0:
        return 0.0
    shift = math.sqrt(float(squared_shift)) * _UP
    return _smallest(lambda epsilon: analytic_delta(shift, epsilon), delta, zcdp_epsilon(shift**2 / 2, delta))


def equivalent_shift(epsilon: Fraction | float) -> float:
    """Shift of the Gaussian pair that no pure epsilon-DP query exceeds: 2 Phi^-1(e^eps / (1 + e^eps)).

    The trade-off curve of pure DP is two straight lines that meet on the diagonal. The Gaussian curve through that
    point and through both corners is convex, so it lies below them, which is to say it promises less.
    """
    from scipy.special import ndtri_exp

    return float(-2 * ndtri_exp(-np.logaddexp(0.0, float(epsilon)))) * _UP


def discrete_delta(cells: int, scale: Fraction, epsilon: float) -> float:
    """Delta when one edge changes `cells` counts by 1 and each has independent discrete Gaussian noise.

    The loss is (2 S + cells) / (2 sigma^2) for the sum S of the noises, so delta = P(S >= k) - e^eps P(S >= k + cells)
    for the first k whose loss exceeds eps; any other k gives less, so where rounding leaves two candidates the larger
    figure is right. Delta is 1, which says nothing, where no table is built.
    """
    tails = _tails(cells, scale)
    if tails is None:
        return 1.0
    middle = epsilon * float(scale) ** 2
    slack = 1e-12 * (middle + cells)
    first = {math.floor(middle - cells / 2 + side) + 1 for side in (-slack, slack)}
    odds = math.exp(min(epsilon, 700.0))
    gaps = [_from(tails, k) * (1 + _SUMS) - odds * _from(tails, k + cells) * (1 - _SUMS) for k in first]
    return min(1.0, max(0.0, *gaps) + cells * _BEYOND)


def discrete_epsilon(cells: int, scale: Fraction, delta: float) -> float:
    """Smallest epsilon of `cells` counts that one edge changes by 1; the zCDP figure where no table is built."""
    most = zcdp_epsilon(Fraction(cells) / (2 * scale**2), delta)
    return _smallest(lambda epsilon: discrete_delta(cells, scale, epsilon), delta, most)


def _smallest(delta_at: Callable[[float], float], delta: float, high: float) -> float:
    """Where a falling curve reaches delta, from above; `high`, which is valid by other means, if it never does."""
    if delta_at(high) > delta:
        return high
    if delta_at(0.0) <= delta:
        return 0.0
    low = 0.0
    while high - low > 1e-10 * max(high, 1e-3):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


def _from(tails: NDArray[np.float64], value: int) -> float:
    """P(S >= value)."""
    return float(tails[min(max(value + (len(tails) - 2) // 2, 0), len(tails) - 1)])


@lru_cache(maxsize=32)
def _tails(cells: int, scale: Fraction) -> NDArray[np.float64] | None:
    """P(S >= s) for s = -reach .. reach + 1, where S is the sum of `cells` discrete Gaussian variables.

    From sigma = 2 on the sum is taken as one discrete Gaussian of variance cells * sigma^2. By Poisson's summation the
    masses of N(a^2) + N(b^2) and N(a^2 + b^2) agree up to (1 + w)/(1 - w) with w < 3 exp(-2 pi^2 a^2 b^2/(a^2 + b^2))
    (Kairouz, Liu and Steinke 2021 have the same): w < 3 exp(-pi^2 sigma^2) < 3e-17 for every term that is added.
    """
    spread = math.sqrt(cells) * float(scale)
    if scale >= _SMOOTH:
        if spread > _WIDEST or cells > 10**6:
            return None
        mass = _masses(spread)
    else:
        if cells > _TERMS:
            return None
        mass = _power(_masses(float(scale)), cells)
    return np.append(np.cumsum(mass[::-1])[::-1], 0.0)


def _masses(scale: float) -> NDArray[np.float64]:
    reach = math.ceil(_REACH * scale) + 1
    weights = np.exp(-((np.arange(-reach, reach + 1) / scale) ** 2) / 2)
    out: NDArray[np.float64] = weights / weights.sum()
    return out


def _power(mass: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """The law of a sum of independent copies; plain sums of positive terms, so that small masses keep their digits."""
    if times == 1:
        return mass
    half = _power(mass, times // 2)
    whole = np.convolve(half, half)
    return np.convolve(whole, mass) if times % 2 else whole
