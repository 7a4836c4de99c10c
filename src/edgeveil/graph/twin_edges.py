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


def block_edges(
    y: Int, degrees: Int, blocks: Sequence[Sequence[int]], rng: np.random.Generator, boundary: int = 0
) -> Int:
    """Edges [2, E] with exactly ``blocks[a][b - a]`` of them between classes a <= b, degrees close to `degrees`.

    A configuration model per pair of classes: shuffled stubs are matched, loops and repeats are redrawn. `boundary`
    (of 1,000) is how far edges between classes gather on a few boundary nodes, as they do in real graphs.
    """
    n, classes = len(y), len(blocks)
    counts = np.zeros((classes, classes), np.int64)
    for a, row in enumerate(blocks):
        counts[a, a:] = row
    need = counts.sum(axis=0) + counts.sum(axis=1)
    inner, outer = [], []
    for a in range(classes):
        stubs = _stubs(np.flatnonzero(y == a), degrees, int(need[a]), boundary, rng)
        cut = 2 * int(counts[a, a])
        inner.append(rng.permutation(stubs[:cut]))
        outer.append(rng.permutation(stubs[cut:]))
    found, cursor = [], [0] * classes
    for a in range(classes):
        for b in range(a, classes):
            m = int(counts[a, b])
            if not m:
                continue
            left, right = (inner[a], inner[a]) if a == b else (outer[a], outer[b])
            u = left[:m] if a == b else left[cursor[a] : cursor[a] + m]
            v = right[m:] if a == b else right[cursor[b] : cursor[b] + m]
            if a != b:
                cursor[a] += m
                cursor[b] += m
            members = np.flatnonzero(y == a), np.flatnonzero(y == b)
            found.append(_distinct(u, v, (left, right), members, n, rng))
    keys = np.concatenate(found) if found else np.empty(0, np.int64)
    return np.stack([keys // n, keys % n])


def _stubs(members: Int, degrees: Int, total: int, boundary: int, rng: np.random.Generator) -> Int:
    """`total` edge ends of one class by degree; the later ones will leave the class."""
    if not len(members):
        return members
    wanted = degrees[members]
    low = int(wanted.min() > 0 and total >= len(members))
    stubs = np.repeat(members, with_sum(wanted, total, rng, low, max(total, 1)))
    score = np.zeros(len(degrees), np.int64)
    score[members] = rng.integers(0, 1 << 30, len(members))
    free = rng.integers(0, 1 << 30, len(stubs))
    order = np.where(rng.integers(0, 1000, len(stubs)) < boundary, score[stubs], free)
    return stubs[np.argsort(order, kind="stable")]


Two = tuple[Int, Int]


def _distinct(u: Int, v: Int, stubs: Two, members: Two, n: int, rng: np.random.Generator) -> Int:
    """Keys of len(u) distinct loop-free pairs: the given ones, clashes redrawn by degree, then among all members."""
    goal, keys = len(u), np.empty(0, np.int64)
    a, b = (len(side) for side in members)
    if goal > (a * (a - 1) // 2 if np.array_equal(*members) else a * b):
        raise InputError(f"{goal} edges do not fit between classes of {a} and {b} nodes")
    rounds = 0
    while True:
        fresh = np.minimum(u, v) * n + np.maximum(u, v)
        keys = np.unique(np.concatenate([keys, fresh[u != v]]))
        missing = goal - len(keys)
        if missing <= 0:
            return keys if missing == 0 else np.sort(rng.permutation(keys)[:goal])
        extra = missing + missing // 4 + 4
        rounds += 1
        pools = stubs if rounds < 100 else members
        u, v = (pool[rng.integers(0, len(pool), extra)] for pool in pools)
