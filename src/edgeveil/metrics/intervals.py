"""How far a figure could be off: spread over seeds, and bootstrap over pairs or over nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from edgeveil.errors import InputError
from edgeveil.metrics.ranking import of_groups
from edgeveil.metrics.ties import TieGroups, check
from edgeveil.seeds import stream

__all__ = ["Interval", "bootstrap", "over_seeds"]


@dataclass(frozen=True)
class Interval:
    """A figure with its interval; `sd` is the papers' (population) standard deviation over the repetitions."""

    mean: float
    low: float
    high: float
    sd: float
    n: int
    level: float


def over_seeds(values: Sequence[float] | NDArray[Any], level: float = 0.95) -> Interval:
    """Mean of repeated runs with a Student interval for it; one run has no interval (NaN)."""
    v = np.asarray(values, dtype=np.float64)
    v = v[~np.isnan(v)]
    if not len(v):
        raise InputError("no values to average: every run's figure is undefined")
    mean, sd = float(v.mean()), float(v.std())
    if len(v) == 1:
        return Interval(mean, float("nan"), float("nan"), sd, 1, level)
    half = float(stdtrit(len(v) - 1, 0.5 + level / 2)) * float(v.std(ddof=1)) / len(v) ** 0.5
    return Interval(mean, mean - half, mean + half, sd, len(v), level)


def bootstrap(
    scores: Any,
    truth: Any,
    pairs: Any = None,
    *,
    figures: Callable[[TieGroups], dict[str, float]] = of_groups,
    draws: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Percentile intervals of every figure that `figures` computes from tie groups.

    Without `pairs` the edges and the non-edges are resampled separately (right for pairs that were drawn
    independently, protocol 3). With `pairs` [2, P] whole nodes are resampled and a pair weighs the product of its
    two nodes' counts, because the pairs of one node stand or fall together (protocol 1).
    """
    s, t = check(scores, truth)
    if draws < 2 or not 0 < level < 1:
        raise InputError(f"a bootstrap needs draws >= 2 and a level inside (0, 1), got {draws!r} and {level!r}")
    _, place = np.unique(-s, return_inverse=True)
    size = int(place.max()) + 1
    rng = stream(seed, "bootstrap")
    resample = _pair_resampler(place, t, size, rng) if pairs is None else _node_resampler(place, t, size, pairs, rng)
    drawn = [figures(resample()) for _ in range(draws)]
    point = figures(TieGroups(*(np.bincount(place[m], minlength=size).astype(float) for m in (t, ~t))))
    return {name: _percentile(value, [d[name] for d in drawn], level) for name, value in point.items()}


def _percentile(value: float, drawn: list[float], level: float) -> Interval:
    v = np.asarray(drawn)
    v = v[~np.isnan(v)]
    if not len(v):
        return Interval(value, float("nan"), float("nan"), float("nan"), 0, level)
    low, high = np.quantile(v, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(value, float(low), float(high), float(v.std()), len(v), level)


def _pair_resampler(
    place: NDArray[Any], t: NDArray[np.bool_], size: int, rng: np.random.Generator
) -> Callable[[], TieGroups]:
    counts = [np.bincount(place[m], minlength=size) for m in (t, ~t)]

    def draw() -> TieGroups:
        return TieGroups(*(rng.multinomial(c.sum(), c / max(c.sum(), 1)).astype(float) for c in counts))

    return draw


def _node_resampler(
    place: NDArray[Any], t: NDArray[np.bool_], size: int, pairs: Any, rng: np.random.Generator
) -> Callable[[], TieGroups]:
    ends = np.asarray(pairs, np.int64)
    if ends.shape != (2, len(place)):
        raise InputError(f"pairs must be [2, {len(place)}], one column per score; got {ends.shape}")
    nodes, local = np.unique(ends, return_inverse=True)
    local = local.reshape(2, -1)

    def draw() -> TieGroups:
        count = rng.multinomial(len(nodes), np.full(len(nodes), 1 / len(nodes)))
        weight = (count[local[0]] * count[local[1]]).astype(float)
        return TieGroups(
            *(np.bincount(place[m], weights=weight[m], minlength=size).astype(np.float64) for m in (t, ~t))
        )

    return draw
