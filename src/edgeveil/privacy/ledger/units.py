"""Epsilon and delta in whole units, and what a guarantee costs one undirected edge.

Integers make sums exact and let the database itself refuse an overdraft. Every rounding goes up, so that no positive
spend is ever recorded as nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from edgeveil.errors import InputError
from edgeveil.privacy.budget import exact
from edgeveil.privacy.guarantee import ONE_EDGE, SEEDED, Guarantee

__all__ = [
    "DELTA_CAP",
    "DELTA_UNIT",
    "UNIT",
    "UNLIMITED",
    "Cost",
    "cost_of",
    "delta_to_units",
    "from_delta_units",
    "from_units",
    "to_units",
]

UNIT = 10**9
DELTA_UNIT = 10**18
UNLIMITED = 2**62
DELTA_CAP = DELTA_UNIT - 1  # deltas that add up to 1 promise nothing


def to_units(epsilon: float | Fraction) -> int:
    """Epsilon in whole 10^-9, rounded up."""
    if isinstance(epsilon, float) and not math.isfinite(epsilon):
        raise InputError(f"epsilon must be a finite number >= 0, got {epsilon!r}")
    value = exact(epsilon)
    if value < 0 or value * UNIT > UNLIMITED:
        raise InputError(f"epsilon must lie in 0..10^9, got {epsilon!r}")
    return math.ceil(value * UNIT)


def from_units(units: int) -> Fraction:
    """Inverse of `to_units`."""
    return Fraction(units, UNIT)


def delta_to_units(delta: float | Fraction) -> int:
    """Delta in whole 10^-18, rounded up."""
    if isinstance(delta, float) and not math.isfinite(delta):
        raise InputError(f"delta must lie in 0..1, got {delta!r}")
    value = exact(delta)
    if not 0 <= value <= 1:
        raise InputError(f"delta must lie in 0..1, got {delta!r}")
    return math.ceil(value * DELTA_UNIT)


def from_delta_units(units: int) -> Fraction:
    """Inverse of `delta_to_units`."""
    return Fraction(units, DELTA_UNIT)


@dataclass(frozen=True)
class Cost:
    """What one undirected edge pays; `unbounded` says why no number bounds it."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    unbounded: str = ""

    @property
    def free(self) -> bool:
        """True when nothing about edges is told."""
        return not (self.epsilon or self.delta or self.unbounded)


def cost_of(guarantee: Guarantee) -> Cost:
    """The cost of telling somebody what this guarantee covers; whatever is not known to be bounded is unbounded."""
    if guarantee.status != "sound":
        kind = "the published claim is refuted" if guarantee.status == "refuted" else "no guarantee for edges"
        return Cost(unbounded=kind)
    if guarantee.unit != ONE_EDGE or guarantee.epsilon is None:
        return Cost(unbounded=f"the guarantee is for {guarantee.unit}, which bounds nothing for {ONE_EDGE}")
    if guarantee.randomness == SEEDED and guarantee.epsilon:
        return Cost(unbounded="the noise was seeded: whoever guesses the seed can undo it")
    return Cost(exact(guarantee.epsilon), exact(guarantee.delta))
