"""How tasks are carried out: in this process, in one process per core, or on a Ray cluster. Same results everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.runs.tasks import Outcome, Task, carry_out, find_function
from edgeveil.runs.time_limit import TimeLimit

__all__ = ["EXECUTORS", "Executor", "Serial", "make_executor"]

EXECUTORS = ("serial", "processes", "ray")


class Executor(Protocol):
    """Carries out tasks. `graphs` is shared, read-only; outcomes come in any order, one per task."""

    workers: int

    def run(
        self, function: str, tasks: Sequence[Task], graphs: Mapping[str, Graph], limit: TimeLimit | None = None
    ) -> Iterator[Outcome]:
        """Yield an outcome per task, except those that a `limit` does not admit or that outlast it.

        Closing the iterator stops the workers.
        """


class Serial:
    """One task after another in this process, group by group."""

    workers = 1

    def run(
        self, function: str, tasks: Sequence[Task], graphs: Mapping[str, Graph], limit: TimeLimit | None = None
    ) -> Iterator[Outcome]:
        """Yield an outcome per task, groups in the order of their first task; what has started is finished."""
        from edgeveil.models.kernels.threads import limited

        call = find_function(function)
        order = {group: place for place, group in reversed(list(enumerate(t.group for t in tasks)))}
        with limited(1):
            for task in sorted(tasks, key=lambda t: order[t.group]):
                if limit is None:
                    yield carry_out(call, task, graphs)
                elif limit.admits(task):
                    outcome = carry_out(call, task, graphs)
                    limit.hear(outcome)
                    yield outcome


def make_executor(name: str = "processes", workers: int | None = None, **options: Any) -> Executor:
    """The executor behind a name; `workers` defaults to the cores this process may use."""
    if workers is not None and workers < 1:
        raise InputError(f"workers must be a whole number >= 1, got {workers}")
    address = options.pop("address", None)
    if name == "serial":
        return Serial()
    if name == "processes":
        from edgeveil.runs.processes import Processes

        return Processes(workers)
    if name == "ray":
        from edgeveil.runs.cluster import RayCluster

        return RayCluster(workers, address)
    raise UnknownNameError("executor", name, EXECUTORS)
