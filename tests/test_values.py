"""What counts as a number in a parameter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from edgeveil.values import is_number, is_whole


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2)])
def test_whole_numbers(value: object) -> None:
    assert is_whole(value) and is_number(value)


@pytest.mark.parametrize("value", [2.0, np.float32(2), Fraction(1, 3), float("nan")])
def test_other_numbers(value: object) -> None:
    assert is_number(value) and not is_whole(value)


@pytest.mark.parametrize("value", [True, np.True_, "2", None, [2], 2j])
def test_everything_else(value: object) -> None:
    assert not is_number(value) and not is_whole(value)
