"""The fast selection has the law of the dense one. Each check fails a correct version with probability 1e-6."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from edgeveil.privacy import topcells
from edgeveil.privacy.noise import noise_for
from edgeveil.privacy.topcells import GRID, ContinuousCells, GridCells, keep_top
from laws import fits, same_law

EPSILON = Fraction(2)
RUNS = 3000
CASES = [(20, 400, 20), (3, 200, 6), (5, 10, 12), (10, 12, 21), (0, 300, 4), (6, 0, 3), (4, 200, 1), (30, 300, 200)]


def cells(kind: str, seed: int) -> Any:
    if kind == "continuous":
        return ContinuousCells(float(EPSILON), np.random.default_rng(seed))
    return GridCells(EPSILON, noise_for(None if kind == "secure" else seed))


@cache
def dense(ones: int, zeros: int, top: int, seed: int, grid: bool) -> Any:
    """How many zero-cells are among the `top` largest when every cell is drawn, RUNS times; ties broken at random."""
    rng, shape = np.random.default_rng(seed), (RUNS, ones + zeros)
    if grid:
        q = 1 - np.exp(-float(EPSILON) / GRID)
        noise = (rng.geometric(q, shape) - rng.geometric(q, shape)) / GRID
    else:
        noise = rng.laplace(0, 1 / float(EPSILON), shape)
    values = noise + (np.arange(ones + zeros) < ones)
    best = np.lexsort((rng.random(shape), values))[:, ones + zeros - top :]
    return (best >= ones).sum(axis=1)


@pytest.mark.fast(
    "(20, 400, 20)-secure",
    "(20, 400, 20)-continuous",
    "(5, 10, 12)-secure",
    "(10, 12, 21)-seeded grid",
    "(0, 300, 4)-seeded grid",
    "(6, 0, 3)-secure",
    "(30, 300, 200)-secure",
    "(4, 200, 1)-continuous",
)
@pytest.mark.parametrize("kind", ["continuous", "secure", "seeded grid"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_number_of_zero_cells_has_the_dense_law(kind: str, case: tuple[int, int, int]) -> None:
    ones, zeros, top = case
    source = cells(kind, 1)
    runs = RUNS if kind != "secure" else RUNS // 6
    fast = []
    for _ in range(runs):
        kept = keep_top(ones, zeros, top, source)
        assert kept.ones.sum() + kept.zeros == top
        fast.append(kept.zeros)
    same_law(fast, dense(ones, zeros, top, 2, kind != "continuous"))


@pytest.mark.parametrize("kind", ["continuous", "seeded grid"])
def test_falling_short_of_the_threshold_does_not_change_the_law(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topcells, "SLACK", 0.0)  # half of the runs now fall short
    ones, zeros, top = 12, 300, 25
    source = cells(kind, 3)
    fast = [keep_top(ones, zeros, top, source).zeros for _ in range(RUNS)]
    same_law(fast, dense(ones, zeros, top, 4, kind != "continuous"))


def test_one_cells_are_kept_evenly() -> None:
    source = cells("continuous", 5)
    kept = np.array([keep_top(8, 100, 10, source).ones for _ in range(RUNS)])
    places = np.nonzero(kept)[1]
    same_law(places, np.random.default_rng(0).integers(0, 8, len(places)))


def test_ties_on_the_grid_are_broken_evenly() -> None:
    class Flat:
        """Every cell ties with every other."""

        epsilon, uniform = 1.0, np.random.default_rng(6)

        def ones(self, size: int) -> Any:
            return np.zeros(size, np.int64)

        zeros = ones

    flat: Any = Flat()
    counts = [keep_top(4, 4, 4, flat).zeros for _ in range(RUNS)]
    fits(counts, {k: [1, 16, 36, 16, 1][k] / 70 for k in range(5)})


@pytest.mark.parametrize("kind", ["continuous", "secure"])
def test_all_or_nothing(kind: str) -> None:
    none = keep_top(3, 5, 0, cells(kind, 0))
    assert not none.ones.any() and none.zeros == 0
    kept = keep_top(3, 5, 8, cells(kind, 0))
    assert kept.ones.all() and kept.zeros == 5
