"""What one query on private edges costs, as exact numbers: a pure epsilon, or the terms of Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple, get_args

from edgeveil.errors import InputError
from edgeveil.values import is_number

__all__ = [
    "DELTA",
    "Charge",
    "Gaussian",
    "GaussianLaw",
    "check_delta",
    "check_epsilon",
    "exact",
    "exact_square",
    "make_gaussian",
]

DELTA = 1e-6
GaussianLaw = Literal["discrete", "continuous"]
_ROOT = Fraction(1, 2**50)  # a float is the root of a whole number if its square is that close


class Gaussian(NamedTuple):
    """Gaussian noise of standard deviation `scale` (the parameter sigma, for the discrete law) on one query.

    `squared_sensitivity` is the squared L2 change of the answer by one edge. `cells`: the answer is a vector of whole
    numbers of which one edge changes at most that many, each by exactly 1; None when it is not of that kind.
    """

    squared_sensitivity: Fraction
    scale: Fraction
    law: GaussianLaw = "discrete"
    cells: int | None = None

    @property
    def rho(self) -> Fraction:
        """Zero-concentrated DP of the query, exact for both laws: sensitivity^2 / (2 sigma^2).

        Bun and Steinke 2016, Prop. 1.6; discrete noise on whole numbers: Canonne, Kamath and Steinke 2020, Thm 14.
        """
        return self.squared_sensitivity / (2 * self.scale**2)


class Charge(NamedTuple):
    """One query and what it cost; `epsilon` is None for Gaussian noise, which has no pure one."""

    what: str
    epsilon: Fraction | None
    on: str = "graph"
    gaussian: Gaussian | None = None

    @property
    def pure(self) -> Fraction:
        """The pure epsilon; Gaussian noise is refused here, because its pure epsilon is infinite."""
        if self.epsilon is None:
            raise InputError(f"{self.what} has Gaussian noise and no pure epsilon; use an accountant with a delta")
        return self.epsilon

    @property
    def price(self) -> str:
        """The cost in a few words."""
        if self.gaussian is None:
            return f"{float(self.pure):g}"
        root = math.sqrt(self.gaussian.squared_sensitivity)
        return f"Gaussian noise of scale {float(self.gaussian.scale):g} for sensitivity {root:.4g}"

    def to_json(self) -> dict[str, Any]:
        """Plain data; fractions are text."""
        data: dict[str, Any] = {"what": self.what, "epsilon": _text(self.epsilon), "on": self.on}
        if self.gaussian is not None:
            g = self.gaussian
            texts = {"squared_sensitivity": _text(g.squared_sensitivity), "scale": _text(g.scale)}
            data["gaussian"] = {**texts, "law": g.law, "cells": g.cells}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Charge:
        """Inverse of `to_json`; manifests from before Gaussian noise have an epsilon only."""
        epsilon, g = data["epsilon"], data.get("gaussian")
        if (epsilon is None) == (g is None):
            raise InputError(f"the charge {data.get('what')!r} must state either an epsilon or Gaussian noise")
        noise = None
        if g is not None:
            squared, scale = Fraction(g["squared_sensitivity"]), Fraction(g["scale"])
            noise = make_gaussian(scale, squared, law=g["law"], cells=g["cells"])
        return cls(data["what"], None if epsilon is None else Fraction(epsilon), data["on"], noise)


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def make_gaussian(
    scale: float | Fraction, squared_sensitivity: Fraction, *, law: str = "discrete", cells: int | None = None
) -> Gaussian:
    """Checked terms of Gaussian noise."""
    if not is_number(scale) or not 0 < scale < math.inf:
        raise InputError(f"the scale of Gaussian noise must be a finite number > 0, got {scale!r}")
    if squared_sensitivity <= 0:
        raise InputError(f"the sensitivity of a query must be > 0, got the square {squared_sensitivity}")
    if cells is not None and (cells < 1 or cells != squared_sensitivity):
        raise InputError(f"{cells} counts that change by 1 have squared sensitivity {cells}, not {squared_sensitivity}")
    for known in get_args(GaussianLaw):
        if law == known:
            return Gaussian(squared_sensitivity, exact(scale), known, cells)
    raise InputError(f"unknown law {law!r} of Gaussian noise; use {' or '.join(get_args(GaussianLaw))}")


def check_epsilon(epsilon: float | Fraction | None, *, infinite: bool = False) -> float:
    """A positive, finite epsilon as float; `infinite=True` also admits inf (no noise, no guarantee)."""
    if epsilon is None:
        raise InputError("this defence needs an epsilon > 0 (for example epsilon=4.0)")
    if not is_number(epsilon):
        raise InputError(f"epsilon must be a number > 0, got {epsilon!r}")
    value = float(epsilon)
    if math.isnan(value) or value <= 0 or (math.isinf(value) and not infinite):
        raise InputError(f"epsilon must be a finite number > 0, got {epsilon!r}; try a value between 0.1 and 10")
    return value


def check_delta(delta: float | Fraction) -> float:
    """A delta with 0 < delta < 1 as float. It must not be computed from the private graph, such as 1/edges."""
    if not is_number(delta) or not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, both excluded, got {delta!r}; the default is {DELTA:g}")
    value = float(delta)
    if not 0 < value < 1:
        raise InputError(f"delta {delta!r} is 0 or 1 as a floating-point number; try {DELTA:g}")
    return value


def exact(epsilon: float | Fraction | int) -> Fraction:
    """The decimal a person typed, as a rational: 0.1 becomes 1/10, not the nearest binary fraction."""
    return epsilon if isinstance(epsilon, Fraction) else Fraction(str(epsilon))


def exact_square(value: float | Fraction | int) -> Fraction:
    """The square of a sensitivity, rounded against us; math.sqrt(2), the rounded root of a whole number, gives 2."""
    if not is_number(value) or not 0 < value < math.inf:
        raise InputError(f"the sensitivity of a query must be a finite number > 0, got {value!r}")
    if isinstance(value, (int, Fraction)):
        return Fraction(value) ** 2
    square = Fraction(float(value)) ** 2
    whole = round(square)
    if whole and abs(square - whole) <= _ROOT * square:
        return Fraction(whole)
    return max(exact(value) ** 2, square)
