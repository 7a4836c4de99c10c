"""Kinds of plain values, for checks of parameters: NumPy's numbers count, Python's booleans do not."""

from __future__ import annotations

from numbers import Integral, Real

__all__ = ["is_number", "is_whole"]


def is_number(value: object) -> bool:
    """A real number of Python or NumPy."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """An integer of Python or NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool)
