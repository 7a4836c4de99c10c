"""Named ways to add up what queries on one edge set cost; each is an upper bound with a sentence that says what it is.

None of them is ever worse than adding up pure epsilons, where all queries have one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.privacy.charges import Charge, Gaussian

__all__ = ["ACCOUNTANTS", "Accountant", "accountant"]


class Accountant(Protocol):
    """Sequential, adaptive composition of the charges on one edge set."""

    name: str
    words: str

    def epsilon(self, charges: Sequence[Charge], delta: float) -> Fraction:
        """What all charges together cost at `delta`, never less than the truth."""
        ...


class Pure:
    """Sums of exact fractions."""

    name = "pure"
    words = "the epsilons of the queries on one edge set add up, exactly; nothing is left to chance (delta 0)"

    def epsilon(self, charges: Sequence[Charge], delta: float) -> Fraction:
        """The sum."""
        return sum((c.pure for c in charges), Fraction(0))


class ZCDP:
    """Zero-concentrated DP: exact sums of rho, converted once."""

    name = "zcdp"
    words = (
        "the zero-concentrated costs rho of the queries add up exactly (sensitivity^2 / (2 scale^2) of Gaussian noise, "
        "epsilon^2 / 2 of a pure query), and the sum is converted to epsilon at this delta once (Bun and Steinke 2016; "
        "Canonne, Kamath and Steinke 2020)"
    )

    def epsilon(self, charges: Sequence[Charge], delta: float) -> Fraction:
        """The converted sum of rho; or that of the Gaussian queries alone plus the pure sum, if that is smaller."""
        from edgeveil.privacy.gaussian import zcdp_epsilon

        noisy, pure = _apart(charges)
        rho = sum((g.rho for g in noisy), Fraction(0))
        squares = sum((c.pure**2 / 2 for c in pure), Fraction(0))  # Bun and Steinke 2016, Prop. 1.4
        return _least(zcdp_epsilon(rho + squares, delta), _added(pure, zcdp_epsilon(rho, delta)))


class AnalyticGaussian:
    """The exact curve of Gaussian noise where one is known; zCDP elsewhere."""

    name = "gaussian"
    words = (
        "the smallest epsilon at this delta on the exact privacy curve of all Gaussian noise together (continuous: "
        "Balle and Wang 2018; discrete on counts: the sum over its own masses), or by zero-concentrated composition "
        "where no curve applies or that is smaller"
    )

    def epsilon(self, charges: Sequence[Charge], delta: float) -> Fraction:
        """The best of the curve over all charges, of the curve plus the pure sum, and of zCDP."""
        noisy, pure = _apart(charges)
        curve = _added(pure, _curve(noisy, delta))
        return _least(ZCDP().epsilon(charges, delta), curve, _as_shifts(charges, delta))


def _curve(noises: Sequence[Gaussian], delta: float) -> float:
    """Epsilon of Gaussian queries alone on their exact curve; infinite where none is known."""
    from edgeveil.privacy.gaussian import analytic_epsilon, discrete_epsilon

    if all(g.law == "continuous" for g in noises):
        return analytic_epsilon(sum((2 * g.rho for g in noises), Fraction(0)), delta)
    counts = [g.cells for g in noises if g.law == "discrete" and g.cells is not None]
    scales = Counter(g.scale for g in noises)
    if len(counts) < len(noises) or len(scales) > 1:
        return math.inf
    return discrete_epsilon(sum(counts), next(iter(scales)), delta)


def _as_shifts(charges: Sequence[Charge], delta: float) -> float:
    """Continuous Gaussian and pure queries on one curve, each pure one as the Gaussian that it never exceeds."""
    from edgeveil.privacy.gaussian import analytic_epsilon, equivalent_shift

    total = 0.0
    for charge in charges:
        if charge.gaussian is None:
            total += equivalent_shift(charge.pure) ** 2
        elif charge.gaussian.law == "continuous":
            total += float(2 * charge.gaussian.rho)
        else:
            return math.inf
    return analytic_epsilon(total * (1 + 1e-12), delta)


class PLD:
    """Privacy-loss distributions by Google's dp-accounting."""

    name = "pld"
    words = (
        "the distributions of the queries' privacy losses, rounded upwards on a grid, are convolved numerically "
        "(dp-accounting), and epsilon is read off at this delta"
    )

    def epsilon(self, charges: Sequence[Charge], delta: float) -> Fraction:
        """Read off the convolved losses, or the pure sum if there is no Gaussian noise and that is smaller."""
        from edgeveil.privacy.pld import pld_epsilon

        noisy, pure = _apart(charges)
        return _least(pld_epsilon(charges, delta), math.inf if noisy else _added(pure, 0.0))


def _apart(charges: Sequence[Charge]) -> tuple[list[Gaussian], list[Charge]]:
    return [c.gaussian for c in charges if c.gaussian is not None], [c for c in charges if c.gaussian is None]


def _added(pure: Sequence[Charge], epsilon: float) -> Fraction | float:
    """Basic composition: pure epsilons on top of what the rest costs at delta."""
    return Pure().epsilon(pure, 0.0) + Fraction(epsilon) if math.isfinite(epsilon) else epsilon


def _least(*figures: Fraction | float) -> Fraction:
    """The smallest finite bound; a float counts as its exact value."""
    known = [Fraction(f) for f in figures if math.isfinite(f)]
    if not known:
        raise InputError("the cost of these queries is too large to be computed; add more noise or ask fewer")
    return min(known)


ACCOUNTANTS: dict[str, Accountant] = {a.name: a for a in (Pure(), ZCDP(), AnalyticGaussian(), PLD())}


def accountant(name: str) -> Accountant:
    """The accountant of that name."""
    if name not in ACCOUNTANTS:
        raise UnknownNameError("accountant", str(name), ACCOUNTANTS)
    return ACCOUNTANTS[name]
