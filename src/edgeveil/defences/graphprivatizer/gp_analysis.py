"""GraphPrivatizer's analyses over finished runs: alpha x delta heat-maps, Wilcoxon tests, utility gaps.

A run is a mapping with `alpha`, `delta`, `seed` and the figures; nothing here trains or attacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError

__all__ = ["ALPHAS", "DELTAS", "HeatMap", "Paired", "grid_average", "heat_map", "paired_test", "utility_gap"]

Run = Mapping[str, Any]
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
DELTAS = (0.0, 0.1, 0.25, 0.5, 1.0)
"""The grid of GraphPrivatizer App. A."""


class HeatMap(NamedTuple):
    """Mean difference to the base case alpha = delta = 0 per cell [alpha, delta]; NaN where no run exists."""

    alphas: tuple[float, ...]
    deltas: tuple[float, ...]
    difference: NDArray[np.float64]
    runs: NDArray[np.int64]


def _by_cell(runs: Iterable[Run], figure: str) -> dict[tuple[float, float], dict[Any, float]]:
    cells: dict[tuple[float, float], dict[Any, float]] = {}
    for run in runs:
        cells.setdefault((float(run["alpha"]), float(run["delta"])), {})[run["seed"]] = float(run[figure])
    if (0.0, 0.0) not in cells:
        raise InputError("no run with alpha = delta = 0: the base case that every difference is taken from is missing")
    return cells


def heat_map(
    runs: Iterable[Run], figure: str, alphas: Sequence[float] = ALPHAS, deltas: Sequence[float] = DELTAS
) -> HeatMap:
    """Figures 3-15: differences are taken per seed and then averaged over the seeds both cells have."""
    cells = _by_cell(runs, figure)
    base = cells[0.0, 0.0]
    difference = np.full((len(alphas), len(deltas)), np.nan)
    count = np.zeros(difference.shape, np.int64)
    for i, alpha in enumerate(alphas):
        for j, delta in enumerate(deltas):
            own = cells.get((alpha, delta), {})
            shared = [own[s] - base[s] for s in own.keys() & base.keys()]
            count[i, j] = len(shared)
            if shared:
                difference[i, j] = np.mean(shared)
    return HeatMap(tuple(alphas), tuple(deltas), difference, count)


def grid_average(runs: Iterable[Run], figure: str, over: str = "positive") -> tuple[float, float]:
    """Mean and standard deviation over cells of the seed means.

    The paper averages in two ways under one description: Tables 8-12 over alpha > 0 and delta > 0 (``positive``),
    Tables 2, 3 and 7 over every cell but the base case (``all-but-base``).
    """
    if over not in ("positive", "all-but-base"):
        raise InputError(f"unknown average {over!r}; use 'positive' or 'all-but-base'")
    cells = _by_cell(runs, figure)
    wanted = [c for c in cells if (min(c) > 0 if over == "positive" else c != (0.0, 0.0))]
    means = [float(np.mean(list(cells[c].values()))) for c in wanted]
    return (float(np.mean(means)), float(np.std(means))) if means else (float("nan"), float("nan"))


class Paired(NamedTuple):
    """A paired comparison: mean difference, two-sided Wilcoxon p-value, number of pairs."""

    difference: float
    p_value: float
    pairs: int


def paired_test(first: Mapping[Any, float], second: Mapping[Any, float]) -> Paired:
    """Wilcoxon signed-rank test of first - second over the keys both have (Table 1a); p is 1 when all are equal."""
    from scipy.stats import wilcoxon

    shared = sorted(first.keys() & second.keys(), key=repr)
    if not shared:
        raise InputError("the two sets of runs have no run in common; nothing can be paired")
    gaps = np.array([first[k] - second[k] for k in shared])
    p = 1.0 if not gaps.any() else float(wilcoxon(gaps).pvalue)
    return Paired(float(gaps.mean()), p, len(shared))


def utility_gap(private: Mapping[str, float], open_edges: Mapping[str, float]) -> tuple[float, float]:
    """GAP of Table 1b: accuracy lost against epsilon = infinity, mean and standard deviation over the models."""
    lost = [open_edges[m] - private[m] for m in sorted(private.keys() & open_edges.keys())]
    if not lost:
        raise InputError("no model has both a private and an open-edge accuracy; a gap needs both")
    return float(np.mean(lost)), float(np.std(lost))
