"""How many threads torch may use: one per process unless asked, because two on a busy pair of cores are slower."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from edgeveil.errors import InputError

__all__ = ["available", "limited", "resolve"]

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
        raise InputError(f"threads must be a whole number >= 1, got {asked!r}")
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
