"""Ray as the engine for many machines: graphs go into its object store once, one single-threaded actor per core works.

A Ray of this machine is started (and stopped again) unless an address is given. Ray 2.60 and later ask for a token
between machines by default (``RAY_AUTH_MODE=token``): every machine needs the same one, see docs/sweeps.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgeveil.errors import EdgeveilError, MissingExtra
from edgeveil.graph.graph import Graph
from edgeveil.runs.processes import ATTEMPTS, ThreadLimit
from edgeveil.runs.shared_graphs import from_arrays, to_arrays
from edgeveil.runs.tasks import Backlog, Outcome, Task, carry_out, find_function
from edgeveil.runs.time_limit import TimeLimit

__all__ = ["RayCluster"]


class StoredGraphs(Mapping[str, Graph]):
    """Graphs in Ray's object store, fetched on first use; on one machine all workers look at the same memory."""

    def __init__(self, stored: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        self._stored, self._open = stored, {}  # type: ignore[var-annotated]

    def __getitem__(self, name: str) -> Graph:
        if name not in self._open:
            import ray

            facts, refs = self._stored[name]
            self._open[name] = from_arrays(facts, dict(zip(refs, ray.get(list(refs.values())), strict=True)))
        graph: Graph = self._open[name]
        return graph

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


class Worker:
    """The actor: one process, one thread, its own memory of shared work."""

    def __init__(self, function: str, stored: Mapping[str, Any]) -> None:
        import torch

        torch.set_num_threads(1)
        self._call = find_function(function)
        self._graphs = StoredGraphs(stored)

    def carry_out(self, task: Task) -> Outcome:
        """Run one task."""
        return carry_out(self._call, task, self._graphs)


@dataclass
class _Seat:
    actor: Any
    group: str | None = None
    task: Task | None = None


class RayCluster:
    """Runs tasks on Ray actors; a lost actor (or machine) is replaced and its task done again, three times at most."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        from edgeveil.models.kernels.threads import available

        self._address = address
        self.workers = workers or available()
        self._given = workers is not None

    def run(
        self, function: str, tasks: Sequence[Task], graphs: Mapping[str, Graph], limit: TimeLimit | None = None
    ) -> Iterator[Outcome]:
        """Yield outcomes as they come."""
        ray = _import_ray()
        started_here = not ray.is_initialized()
        with ThreadLimit():
            if started_here:
                self._connect(ray)
            if not self._given:
                self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
            try:
                stored = {name: _put(ray, graph) for name, graph in graphs.items()}
                make = ray.remote(num_cpus=1, max_restarts=0)(Worker).options(runtime_env=_environment()).remote
                backlog = Backlog(tasks, None if limit is None else limit.admits)
                yield from self._drive(ray, lambda: make(function, stored), backlog, limit)
            finally:
                if started_here:
                    ray.shutdown()

    def _connect(self, ray: Any) -> None:
        local = {} if self._address else {"num_cpus": self.workers, "include_dashboard": False}
        try:
            ray.init(
                address=self._address, log_to_driver=False, logging_level="ERROR", configure_logging=False, **local
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise EdgeveilError(
                f"cannot reach Ray at {self._address or 'this machine'}: {error}. Check the address, that the cluster "
                "runs the same Ray version, and that it shares the authentication token (RAY_AUTH_TOKEN)"
            ) from error

    def _drive(self, ray: Any, start: Any, backlog: Backlog, limit: TimeLimit | None) -> Iterator[Outcome]:
        running: dict[Any, _Seat] = {}
        for _ in range(min(self.workers, len(backlog))):
            _hand_out(running, _Seat(start()), backlog)
        while running:
            ready, _ = ray.wait(list(running), num_returns=1, timeout=None if limit is None else limit.timeout)
            if not ready:
                for seat in running.values():
                    ray.kill(seat.actor)
                return
            seat = running.pop(ready[0])
            outcome, lost = _receive(ray, ready[0], seat, backlog)
            if lost and len(backlog):
                seat = _Seat(start(), seat.group)
            if outcome is not None and limit is not None:
                limit.hear(outcome)
            _hand_out(running, seat, backlog)
            if outcome is not None:
                yield outcome


def _hand_out(running: dict[Any, _Seat], seat: _Seat, backlog: Backlog) -> None:
    task = backlog.take(seat.group)
    if task is not None:
        seat.task, seat.group = task, task.group
        running[seat.actor.carry_out.remote(task)] = seat


def _receive(ray: Any, ref: Any, seat: _Seat, backlog: Backlog) -> tuple[Outcome | None, bool]:
    """The actor's answer and whether the actor was lost; no answer means that its task went back to the backlog."""
    task = seat.task
    assert task is not None
    attempts = backlog.attempts[task.id]
    try:
        outcome: Outcome = replace(ray.get(ref), attempts=attempts)
    except ray.exceptions.RayError as error:
        ray.kill(seat.actor)
        if attempts < ATTEMPTS:
            backlog.put_back(task)
            return None, True
        reason = f"Ray lost the worker {attempts} times: {str(error).splitlines()[0]}"
        backlog.release(task)
        return Outcome(task, error=reason, attempts=attempts), True
    backlog.release(task)
    return outcome, False


def _put(ray: Any, graph: Graph) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    facts, arrays = to_arrays(graph)
    return facts, {key: ray.put(array) for key, array in arrays.items()}


def _environment() -> dict[str, Any]:
    passed = {
        name: os.environ[name] for name in os.environ if name.startswith("EDGEVEIL_") or name.endswith("NUM_THREADS")
    }
    return {"env_vars": passed}


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("the Ray executor", "ray") from error
    return ray
