"""How often hypothesis tries a property: as often as stated when the slow tests run, a quarter of that otherwise."""

from __future__ import annotations

import os

__all__ = ["tries"]


def tries(full: int) -> int:
    """For `max_examples`."""
    return full if os.environ.get("EDGEVEIL_SLOW") else full // 4
