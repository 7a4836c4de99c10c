"""Verdicts and laws here are about code, not about the luck of a run."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def repeatable(same_bits: None) -> None:
    """See `same_bits`."""
