"""Edges of a synthetic twin: a given number between every two classes, on a given heavy-tailed degree sequence.

Integers only, so that every platform draws the same graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError

__all__ = ["block_edges", "from_quantiles", "mixing", "split_integer", "with_sum"]

Int = NDArray[np.int64]
PERMILLE = (0, 10, 20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 950, 980, 990, 995, 999, 1000)


def from_quantiles(values: Sequence[int], n: int) -> Int:
    """n sorted integers with these quantiles (at `PERMILLE`), linear in between."""
    position = np.arange(n, dtype=np.int64) * 1000  # in units of 1 / (n - 1) permille
    grid = np.asarray(PERMILLE, np.int64) * max(n - 1, 1)
    heights = np.asarray(values, np.int64)
    left = np.clip(np.searchsorted(grid, position, side="right") - 1, 0, len(grid) - 2)
    span = grid[left + 1] - grid[left]
    out: Int = heights[left] + (heights[left + 1] - heights[left]) * (position - grid[left]) // span
    return out


def split_integer(total: int, weights: Sequence[int]) -> list[int]:
    """Whole parts of `total` proportional to the weights (largest remainders get the rest)."""
    scale = sum(weights)
    parts = [total * w // scale for w in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % scale), i))
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return parts


def with_sum(values: Int, total: int, rng: np.random.Generator, low: int, high: int) -> Int:
    """Scale whole numbers to an exact sum, each kept within [low, high]."""
    if not low * len(values) <= total <= high * len(values):
        raise InputError(f"{len(values)} values within [{low}, {high}] cannot sum to {total}")
    out = np.clip(values * total // max(int(values.sum()), 1), low, high)
    while (gap := total - int(out.sum())) != 0:
        step = 1 if gap > 0 else -1
        movable = np.flatnonzero(out < high if step > 0 else out > low)
        out[rng.permutation(movable)[: abs(gap)]] += step
    return out


def mixing(sizes: Sequence[int], edges: int, homophily: float) -> list[list[int]]:
    """Upper-triangle edge counts between classes: random mixing, plus as many inner edges as the homophily asks."""
    total = sum(sizes)
    inner = split_integer(round(edges * homophily), [s * s for s in sizes])
    across = [sizes[a] * sizes[b] for a in range(len(sizes)) for b in range(a + 1, len(sizes))]
    outer = iter(split_integer(edges - sum(inner), across) if across else [])
    if total < 2:
        raise InputError(f"classes of sizes {list(sizes)} have no pair to connect")
    return [[inner[a], *(next(outer) for _ in range(a + 1, len(sizes)))] for a in range(len(sizes))]


def block_edges(y: Int, degrees: Int, blocks: Sequence[Sequence[int]], rng: np.random.Generator) -> Int:
    """Edges [2, E] with exactly ``blocks[a][b - a]`` of them between classes a <= b, degrees close to `degrees`.

    A configuration model per pair of classes: shuffled stubs are matched, loops and repeats are redrawn.
    """
    n, classes = len(y), len(blocks)
    counts = np.zeros((classes, classes), np.int64)
    for a, row in enumerate(blocks):
        counts[a, a:] = row
    need = counts.sum(axis=0) + counts.sum(axis=1)
    stubs = []
    for a in range(classes):
        members = np.flatnonzero(y == a)
        wanted = degrees[members]
        low = int(wanted.min() > 0) if len(members) and need[a] >= len(members) else 0
        scaled = with_sum(wanted, int(need[a]), rng, low, max(int(need[a]), 1)) if len(members) else wanted
        stubs.append(rng.permutation(np.repeat(members, scaled)))
    found, cursor = [], [0] * classes
    for a in range(classes):
        for b in range(a, classes):
            m = int(counts[a, b])
            if m:
                left = _take(stubs, cursor, a, m)
                found.append(_distinct(left, _take(stubs, cursor, b, m), stubs[a], stubs[b], n, rng))
    keys = np.concatenate(found) if found else np.empty(0, np.int64)
    return np.stack([keys // n, keys % n])


def _take(stubs: list[Int], cursor: list[int], a: int, m: int) -> Int:
    start = cursor[a]
    cursor[a] = start + m
    return stubs[a][start : start + m]


def _distinct(u: Int, v: Int, pool_u: Int, pool_v: Int, n: int, rng: np.random.Generator) -> Int:
    """Keys of len(u) distinct loop-free pairs: the given ones, clashes replaced by draws from the stub pools."""
    goal, keys = len(u), np.empty(0, np.int64)
    for _ in range(10_000):
        fresh = np.minimum(u, v) * n + np.maximum(u, v)
        keys = np.unique(np.concatenate([keys, fresh[u != v]]))
        missing = goal - len(keys)
        if missing <= 0:
            return keys if missing == 0 else np.sort(rng.permutation(keys)[:goal])
        extra = missing + missing // 4 + 4
        u = pool_u[rng.integers(0, len(pool_u), extra)]
        v = pool_v[rng.integers(0, len(pool_v), extra)]
    raise InputError(f"{goal} edges do not fit between classes of {len(set(pool_u))} and {len(set(pool_v))} nodes")
