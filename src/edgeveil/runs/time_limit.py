"""A sweep that must end: tasks start only if what their kind took here still fits, the others are postponed."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from typing import Any

from edgeveil.runs.tasks import Outcome, Task

__all__ = ["TimeLimit"]

SLACK = 1.1  # other work on the same cores comes and goes


class TimeLimit:
    """Seconds for some tasks, and what tasks of each kind (defence and whether it is attacked) were seen to take.

    `again` of a kind is what it takes to train it once more without attacks: with `reserve` a task is admitted only if
    that fits too, shared among `workers`. A kind never seen is expected to be like the middle one of those seen; if it
    takes longer, it is given up at the end.
    """

    def __init__(self, seconds: float, workers: int = 1, *, reserve: bool = False) -> None:
        self._end = time.monotonic() + seconds
        self._workers, self._reserve = max(workers, 1), reserve
        self._took: dict[Any, float] = {}
        self._again: dict[Any, float] = {}
        self._promised = 0.0

    def left(self) -> float:
        """Seconds until tasks under way are given up."""
        return max(self._end - time.monotonic(), 0.0)

    @property
    def timeout(self) -> float | None:
        """`left` for functions that wait; None: as long as it takes."""
        return None if math.isinf(self._end) else self.left()

    def learn(self, config: Mapping[str, Any], seconds: float, again: float = 0.0) -> None:
        """A finished task; of one kind the dearest counts."""
        kind = _kind(config)
        self._took[kind] = max(self._took.get(kind, 0.0), seconds)
        self._again[kind] = max(self._again.get(kind, 0.0), again)

    def hear(self, outcome: Outcome) -> None:
        """`learn` from an outcome."""
        rows = (outcome.result or {}).get("rows")
        train = float(rows[0].get("seconds_train") or 0.0) if rows else 0.0
        self.learn(outcome.task.config, outcome.seconds, train)

    def expected(self, config: Mapping[str, Any]) -> float:
        """Seconds that a task will take."""
        return _seen(self._took, config)

    def admits(self, task: Task) -> bool:
        """Whether a task that a free worker would start now can end in time; an admitted one has its reserve."""
        again = _seen(self._again, task.config) if self._reserve else 0.0
        fits = SLACK * (self.expected(task.config) + (self._promised + again) / self._workers) < self.left()
        self._promised += again if fits else 0.0
        return fits

    def keep(self, seconds: float) -> None:
        """Set some processor seconds aside for later."""
        self._promised += seconds


def _seen(known: Mapping[Any, float], config: Mapping[str, Any]) -> float:
    return known.get(_kind(config), statistics.median(known.values()) if known else 0.0)


def _kind(config: Mapping[str, Any]) -> tuple[Any, ...]:
    return config.get("defence", "none"), bool(config.get("attacks")), bool(config.get("coins"))
