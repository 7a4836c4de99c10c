"""How much memory is left, for steps that would otherwise be killed half-way."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_memory"]


def available_memory() -> int | None:
    """Bytes this process may still use (system and control group), or None where the system does not say."""
    limits = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        words = {line.split(":")[0]: line.split()[1] for line in meminfo.read_text().splitlines()}
        limits.append(int(words["MemAvailable"]) * 1024)
    elif hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    group = Path("/sys/fs/cgroup")
    cap, used = group / "memory.max", group / "memory.current"
    if cap.exists() and used.exists() and cap.read_text().strip().isdigit():
        limits.append(int(cap.read_text()) - int(used.read_text()))
    return min(limits, default=None)
