"""Where a figure came from: versions, machine, time and memory."""

from __future__ import annotations

import contextlib
import platform
import socket
import time
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["Meter", "machine"]

_PACKAGES = ("edgeveil", "numpy", "scipy", "torch")


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """Host, processor family and versions of this process; the same for every run it does."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "host": socket.gethostname(),
        "system": platform.system(),
        "machine": platform.machine(),
        "versions": versions,
    }


class Meter:
    """Start, processor time and peak memory of one run."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._started = datetime.now(UTC).isoformat(timespec="milliseconds")
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # Linux: restart the high-water mark

    def read(self) -> dict[str, Any]:
        """Figures up to now; peak memory of the whole process where the system has no resettable mark."""
        cpu = round(time.process_time() - self._cpu, 4)
        return {**machine(), "started": self._started, "cpu_seconds": cpu, "peak_mb": _peak_mb()}


def _peak_mb() -> float | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    with contextlib.suppress(ImportError):
        import resource

        unit = 2**20 if platform.system() == "Darwin" else 1024
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
    return None
