"""Work as executors see it: tasks in groups that share work, outcomes, and a backlog that keeps groups together."""

from __future__ import annotations

import importlib
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgeveil.errors import EdgeveilError, UsageError

__all__ = ["Backlog", "Function", "Outcome", "Task", "carry_out", "find_function"]

Function = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Task:
    """One unit of work: plain settings for a pure function. `needs` names the shared objects it reads."""

    id: str
    config: Mapping[str, Any]
    group: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """A task's result, or the reason why there is none."""

    task: Task
    result: Mapping[str, Any] | None = None
    error: str | None = None
    seconds: float = 0.0
    attempts: int = 1
    provenance: Mapping[str, Any] = field(default_factory=dict)


def find_function(path: str) -> Function:
    """The function behind ``package.module:name``; a name is what every worker, near or far, can resolve."""
    module, _, name = path.partition(":")
    try:
        found: Function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"cannot find the function {path!r}: {error}") from error
    return found


def carry_out(function: Function, task: Task, shared: Mapping[str, Any]) -> Outcome:
    """Run one task here. Nothing but a kill or an interrupt gets past this: a failing cell never stops a sweep."""
    from edgeveil.runs.provenance import Meter

    started = time.perf_counter()
    meter = Meter()
    result, error = None, None
    try:
        result = function(task.config, shared)
    except EdgeveilError as problem:
        error = f"{type(problem).__name__}: {problem}"
    except MemoryError:
        error = "MemoryError: out of memory; use fewer workers or a smaller configuration"
    except Exception:
        error = traceback.format_exc(limit=8)
    seconds = time.perf_counter() - started
    return Outcome(task, result, error, seconds, provenance=meter.read())


class Backlog:
    """Open tasks by group. A worker stays in its group, then takes a group nobody works on, then helps the largest.

    With `admits` a task whose turn has come may be refused; it is then dropped.
    """

    def __init__(self, tasks: Iterable[Task], admits: Callable[[Task], bool] | None = None) -> None:
        self._admits = admits
        self._groups: dict[str, deque[Task]] = {}
        self._held: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        for task in tasks:
            self._groups.setdefault(task.group, deque()).append(task)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def take(self, last: str | None = None) -> Task | None:
        """The next task for a worker whose previous one was in group `last`; None when nothing is open."""
        while (task := self._next(last)) is not None:
            if self._admits is None or self.attempts[task.id] or self._admits(task):
                self._held[task.group] += 1
                self.attempts[task.id] += 1
                return task
        return None

    def _next(self, last: str | None) -> Task | None:
        open_groups = [name for name, tasks in self._groups.items() if tasks]
        if not open_groups:
            return None
        free = [name for name in open_groups if not self._held[name]]
        name = last if last in open_groups else max(free or open_groups, key=lambda g: len(self._groups[g]))
        assert name is not None
        return self._groups[name].popleft()

    def release(self, task: Task) -> None:
        """The worker is through with this task."""
        self._held[task.group] -= 1

    def put_back(self, task: Task) -> None:
        """Open it again, first in its group (its worker was lost)."""
        self.release(task)
        self._groups[task.group].appendleft(task)
