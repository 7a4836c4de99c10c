"""Seed trees: one integer gives independent, named, platform-stable random streams.

``stream(0, "noise", "layer-1")`` and ``stream(0, "noise", "layer-2")`` never share a draw, and adding a
stream elsewhere never shifts an existing one.
"""

from __future__ import annotations

import hashlib

import numpy as np

from edgeveil.errors import InputError

__all__ = ["Seed", "as_generator", "derive", "stream"]

Seed = int | np.random.Generator | None


def _word(part: str | int) -> int:
    digest = hashlib.sha256(str(part).encode()).digest()
    return int.from_bytes(digest[:4], "little")


def derive(seed: int, *path: str | int) -> int:
    """A 63-bit child seed named by `path`."""
    check_seed(seed)
    state = np.random.SeedSequence(seed, spawn_key=tuple(_word(p) for p in path)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """An independent generator named by `path` below `seed`."""
    check_seed(seed)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(_word(p) for p in path)))


def check_seed(seed: int) -> None:
    """Refuse what NumPy would silently misread."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0, got {seed!r}")


def as_generator(seed: Seed, *path: str | int) -> np.random.Generator:
    """A generator as it is, a named stream of an integer seed, or fresh OS entropy for None."""
    if isinstance(seed, np.random.Generator):
        return seed
    if seed is None:
        return np.random.default_rng()
    check_seed(seed)
    return stream(int(seed), *path) if path else np.random.default_rng(int(seed))
