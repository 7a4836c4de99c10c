"""What is public about a mechanism that publishes a noisy graph: how often it shows edges, and pairs that are none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Law", "law_of"]


@dataclass(frozen=True)
class Law:
    """Probability that the stored graph has a pair, if it is an edge (`kept`) and if it is not (`false`)."""

    kept: float
    false: float
    source: str


def law_of(mechanism: Mapping[str, Any] | None, stored: int, pairs: int) -> Law | None:
    """The law of a described mechanism whose noisy graph has `stored` of `pairs`; None where it is not known."""
    name = str((mechanism or {}).get("name", ""))
    params: Mapping[str, Any] = (mechanism or {}).get("params", {})
    epsilon = params.get("epsilon")
    if name == "none":
        return Law(1.0, 0.0, "no noise")
    if epsilon is None or not math.isfinite(float(epsilon)):
        return None
    if name == "edgerand":
        flip = 1 / (math.exp(float(epsilon)) + 1)
        return Law(1 - flip, flip, "EdgeRand's coin")
    if name == "lapgraph":
        given = params.get("count_epsilon")
        count = float(params.get("count_share", 0.01)) * float(epsilon) if given is None else float(given)
        return _cut(float(epsilon) - count, stored, pairs)
    return None


def _cut(epsilon: float, stored: int, pairs: int) -> Law:
    """LapGraph keeps the T largest cells: the level t solves E P(1 + Lap > t) + (N - E) P(Lap > t) = T, with E = T."""
    low, high = -1.0, 2.0 + 60 / epsilon
    for _ in range(200):
        level = (low + high) / 2
        above = stored * _tail(level - 1, epsilon) + (pairs - stored) * _tail(level, epsilon)
        low, high = (level, high) if above > stored else (low, level)
    return Law(_tail(low - 1, epsilon), _tail(low, epsilon), "LapGraph's cut")


def _tail(x: float, epsilon: float) -> float:
    """P(Lap(1/epsilon) > x)."""
    return 0.5 * math.exp(-epsilon * x) if x >= 0 else 1 - 0.5 * math.exp(epsilon * x)
