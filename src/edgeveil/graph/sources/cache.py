"""What all sources share: the cache folder, the offline switch, the failure that moves on to the next source."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from edgeveil.errors import EdgeveilError

__all__ = ["Progress", "SourceFailed", "cache_dir", "offline"]

Progress = Callable[[str, int, int], None]
"""Called with what is being fetched, bytes so far and bytes in all (0 if unknown)."""


class SourceFailed(EdgeveilError):
    """This source cannot give the dataset; the next one is tried."""


def cache_dir() -> Path:
    """``EDGEVEIL_CACHE``, else the user's cache folder of this platform."""
    given = os.environ.get("EDGEVEIL_CACHE")
    if given:
        return Path(given).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("edgeveil"))


def offline() -> bool:
    """Whether ``EDGEVEIL_OFFLINE`` forbids every source that needs a network."""
    return os.environ.get("EDGEVEIL_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")
