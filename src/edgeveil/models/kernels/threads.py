"""How torch uses the processor: one thread unless asked, and numbers too small to matter taken as zero.

Two threads on a busy pair of cores are slower than one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from edgeveil.errors import InputError

__all__ = ["available", "flushing", "limited", "resolve"]

VARIABLE = "EDGEVEIL_THREADS"


def available() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def resolve(threads: int | None = None) -> int:
    """The number asked for, else that of EDGEVEIL_THREADS, else 1; never more than the cores there are."""
    asked: int | str = threads if threads is not None else os.environ.get(VARIABLE, 1)
    try:
        number = int(asked)
    except ValueError:
        number = 0
    if number < 1:
        source = "" if threads is not None else f" from {VARIABLE}; unset it or set it to 1"
        raise InputError(f"threads must be a whole number >= 1, got {asked!r}{source}")
    return min(number, available())


@contextmanager
def limited(threads: int | None = None) -> Iterator[int]:
    """Run a block with that many torch threads and put the old number back."""
    number, before = resolve(threads), torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield number
    finally:
        torch.set_num_threads(before)


@contextmanager
def flushing() -> Iterator[None]:
    """Run a block with numbers below 1e-38 (float32; 1e-308 in float64) taken as zero.

    Saturated attention yields many of them, and each costs the processor a hundred ordinary ones. Holds for the calling
    thread; torch's further threads compute with them.
    """
    smallest = torch.tensor(torch.finfo(torch.float32).smallest_normal)
    already = bool(smallest * 0.5 == 0.0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(already)
