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
    value must not be a positive multiple of a power of 1/2, whose digits would take for ever to tell. Hence rational
    numbers and their powers are classes of their own, and everything else comes from e^-x with a rational x > 0,
    which is transcendental. A value close to 1 is to be written as a `complement`: that
    asks for the digits of the small remainder, not for as many nines as it takes.
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

    def ends_by(self, bits: int) -> bool:
        """Whether no binary digit after the first `bits` is 1: p * 2^bits is a whole number."""
        return False

    def _derive(self, name: str, formula: Callable[[Context], Decimal], slack: int) -> Probability:
        """Cached, because the samplers ask for the same few digits again and again."""
        if name not in self._derived:
            self._derived[name] = Probability(formula, slack)
        return self._derived[name]

    def complement(self) -> Probability:
        """1 - p."""
        if "complement" not in self._derived:
            self._derived["complement"] = _Complement(self)
        return self._derived["complement"]

    def power(self, exponent: int) -> Probability:
        """p^exponent for a whole exponent >= 0."""
        if _whole(exponent, "an exponent") == 0:
            return _rational(Fraction(1))
        grown = self._slack + 1 + len(str(exponent))
        return self._derive(f"power {exponent}", lambda c: c.power(self.evaluate(c), exponent), grown)

    def odds_share(self, weight: int = 1) -> Probability:
        """w p / (1 + w p) for a whole weight w >= 0."""
        if _whole(weight, "a weight") == 0:
            return _rational(Fraction(0))
        grown = self._slack + 1 + len(str(weight))
        return self._derive(f"odds share {weight}", lambda c: _odds_share(weight, self.evaluate(c), c), grown)

    def __float__(self) -> float:
        if self._float is None:
            self._float = float(self.evaluate(_context(40 + self._slack)))
        return self._float

    def __repr__(self) -> str:
        return f"Probability({float(self):.6g})"


def _context(digits: int) -> Context:
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)


def _whole(number: int, what: str) -> int:
    if number < 0:
        raise InputError(f"{what} of a probability must be a whole number >= 0, got {number}")
    return number


def _odds_share(weight: int, p: Decimal, c: Context) -> Decimal:
    odds = c.multiply(Decimal(weight), p)
    return c.divide(odds, c.add(Decimal(1), odds))


class _Complement(Probability):
    """1 - p, whose digits are those of p turned over; sharp also where p is far smaller than any precision."""

    def __init__(self, of: Probability) -> None:
        super().__init__(lambda c: c.subtract(Decimal(1), of.evaluate(c)), of._slack)
        self._of = of

    def _floor(self, bits: int) -> int:
        return (1 << bits) - self._of.floor(bits) - (not self._of.ends_by(bits))

    def ends_by(self, bits: int) -> bool:
        """As p does."""
        return self._of.ends_by(bits)

    def complement(self) -> Probability:
        """p."""
        return self._of


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

    def ends_by(self, bits: int) -> bool:
        """True for multiples of 2^-bits."""
        return (self._value.numerator << bits) % self._value.denominator == 0

    def complement(self) -> Probability:
        """1 - p."""
        return _rational(1 - self._value)

    def power(self, exponent: int) -> Probability:
        """p^exponent, as a fraction while that is short."""
        long = _whole(exponent, "an exponent") * self._value.denominator.bit_length() > _LONG
        if long and self._value not in (0, 1):
            return _long_power(self._value, exponent)
        return _rational(self._value ** min(exponent, _LONG))

    def odds_share(self, weight: int = 1) -> Probability:
        """w p / (1 + w p)."""
        odds = _whole(weight, "a weight") * self._value
        return _rational(odds / (1 + odds))


class _LongPower(Probability):
    """p^e for a fraction 0 < p < 1 with more digits than one would write down.

    With p = a/2^m and a odd, p^e ends at digit m e; up to there it is no multiple of the digit's unit and the search
    ends, from there on the number is as long as the digits asked for. Other fractions have powers that never end.
    (a^e/b^e)/(1 + a^e/b^e) = a^e/(a^e + b^e) never ends either for e > 1: no sum of two such powers is a power of two.
    """

    def __init__(self, value: Fraction, exponent: int) -> None:
        super().__init__(lambda c: c.power(_decimal(value, c), exponent), 4 + len(str(exponent)))
        self._value, self._exponent = value, exponent

    def _floor(self, bits: int) -> int:
        if not self.ends_by(bits):
            return super()._floor(bits)
        length = (self._value.denominator.bit_length() - 1) * self._exponent
        return int(self._value.numerator**self._exponent) << (bits - length)

    def ends_by(self, bits: int) -> bool:
        """True from digit m e on, if p is a multiple of 2^-m."""
        below = self._value.denominator
        return below & (below - 1) == 0 and (below.bit_length() - 1) * self._exponent <= bits

    def power(self, exponent: int) -> Probability:
        """p^(e * exponent)."""
        return super().power(0) if exponent == 0 else _long_power(self._value, self._exponent * exponent)

    def odds_share(self, weight: int = 1) -> Probability:
        """p^e / (1 + p^e); other weights are refused, as nothing says whether their digits end."""
        if weight != 1:
            raise InputError(f"a long power of a fraction has odds of weight 1 only, got {weight}")
        return super().odds_share()


_rational = lru_cache(maxsize=1024)(_Rational)
_long_power = lru_cache(maxsize=1024)(_LongPower)


def probability(p: Probability | Fraction | float) -> Probability:
    """Any way of writing a probability as a `Probability`; a float means exactly its binary value."""
    if isinstance(p, Probability):
        return p
    value = Fraction(p)
    if not 0 <= value <= 1:
        raise InputError(f"a probability must lie in [0, 1], got {p}")
    return _rational(value)
