"""Probabilities as real numbers: their binary digits on demand, to any depth, never rounded.

A coin with an irrational bias such as 1/(1+e^epsilon) is exact when uniform bits are compared with the digits of the
bias until they differ. `Probability.floor` gives those digits; the arithmetic behind it is arbitrary precision with
an error bound that is checked on every call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from edgeveil.errors import InputError

__all__ = ["Probability", "exp_minus", "logistic", "probability"]

_DIGITS_PER_BIT = math.log10(2)
_LONG = 1 << 12  # bits of a fraction that is still handled as one


class Probability:
    """A number in [0, 1] given by a formula that can be evaluated at any precision.

    `formula` gets a decimal context and returns the value with an absolute error below 10^(slack - precision). Its
    value must not be a positive multiple of a power of 1/2, whose digits would take for ever to tell; rational
    numbers are a class of their own, and e^x is transcendental for every other rational x.
    """

    def __init__(self, formula: Callable[[Context], Decimal], slack: int = 3) -> None:
        self._formula, self._slack = formula, slack
        self._floors: dict[int, int] = {}
        self._float: float | None = None
        self._derived: dict[str, Probability] = {}

    def evaluate(self, context: Context) -> Decimal:
        """The value at the context's precision."""
        return self._formula(context)

    def floor(self, bits: int) -> int:
        """The first `bits` binary digits as an integer: floor(p * 2^bits)."""
        if bits not in self._floors:
            self._floors[bits] = self._floor(bits)
        return self._floors[bits]

    def _floor(self, bits: int) -> int:
        digits = int(bits * _DIGITS_PER_BIT) + self._slack + 12
        while True:
            context = _context(digits)
            value, unit = self.evaluate(context), context.power(2, bits)
            error = Decimal(1).scaleb(self._slack - digits, context)
            ends = (context.subtract(value, error), context.add(value, error))
            low, high = (int(context.multiply(v, unit).to_integral_value(ROUND_FLOOR, context)) for v in ends)
            if max(low, 0) == high:
                return high
            digits *= 2

    def _derive(self, name: str, formula: Callable[[Context], Decimal], slack: int) -> Probability:
        """Cached, because the samplers ask for the same few digits again and again."""
        if name not in self._derived:
            self._derived[name] = Probability(formula, slack)
        return self._derived[name]

    def complement(self) -> Probability:
        """1 - p."""
        return self._derive("complement", lambda c: c.subtract(Decimal(1), self.evaluate(c)), self._slack)

    def power(self, exponent: int) -> Probability:
        """p^exponent."""
        grown = self._slack + 1 + len(str(exponent))
        return self._derive(f"power {exponent}", lambda c: c.power(self.evaluate(c), exponent), grown)

    def odds_share(self) -> Probability:
        """p / (1 + p)."""
        return self._derive("odds share", lambda c: _odds_share(self.evaluate(c), c), self._slack + 1)

    def __float__(self) -> float:
        if self._float is None:
            self._float = float(self.evaluate(_context(40 + self._slack)))
        return self._float

    def __repr__(self) -> str:
        return f"Probability({float(self):.6g})"


def _context(digits: int) -> Context:
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)


def _odds_share(p: Decimal, c: Context) -> Decimal:
    return c.divide(p, c.add(Decimal(1), p))


def _decimal(x: Fraction, c: Context) -> Decimal:
    return c.divide(Decimal(x.numerator), Decimal(x.denominator))


@lru_cache(maxsize=256)
def exp_minus(x: Fraction) -> Probability:
    """e^-x for x >= 0."""
    if x < 0:
        raise InputError(f"exp(-x) is a probability for x >= 0 only, got x = {x}")
    return Probability(lambda c: c.exp(c.minus(_decimal(x, c)))) if x else _rational(Fraction(1))


@lru_cache(maxsize=256)
def logistic(x: Fraction) -> Probability:
    """1 / (1 + e^x): the chance that randomised response with epsilon = x lies."""
    return exp_minus(x).odds_share() if x >= 0 else exp_minus(-x).odds_share().complement()


class _Rational(Probability):
    """A fraction, whose digits need no search."""

    def __init__(self, value: Fraction) -> None:
        super().__init__(lambda c: _decimal(value, c))
        self._value = value

    def _floor(self, bits: int) -> int:
        return (self._value.numerator << bits) // self._value.denominator

    def complement(self) -> Probability:
        """1 - p."""
        return _rational(1 - self._value)

    def power(self, exponent: int) -> Probability:
        """p^exponent, as a fraction while that is short; a longer one ends on no digit that is ever asked for."""
        if exponent * self._value.denominator.bit_length() <= _LONG:
            return _rational(self._value**exponent)
        return super().power(exponent)

    def odds_share(self) -> Probability:
        """p / (1 + p)."""
        return _rational(self._value / (1 + self._value))


_rational = lru_cache(maxsize=1024)(_Rational)


def probability(p: Probability | Fraction | float) -> Probability:
    """Any way of writing a probability as a `Probability`; a float means exactly its binary value."""
    if isinstance(p, Probability):
        return p
    value = Fraction(p)
    if not 0 <= value <= 1:
        raise InputError(f"a probability must lie in [0, 1], got {p}")
    return _rational(value)
