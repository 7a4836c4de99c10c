"""From runs to stored rows: skip what is finished, carry out the rest, keep every result the moment it arrives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from edgeveil.errors import EdgeveilError
from edgeveil.graph.graph import Graph
from edgeveil.runs.code_digest import equal_codes, run_digest
from edgeveil.runs.executors import Executor
from edgeveil.runs.measure import FUNCTION
from edgeveil.runs.records import Record
from edgeveil.runs.run_config import RunConfig, canonical_json, content_id
from edgeveil.runs.store import Store
from edgeveil.runs.tasks import Outcome, Task
from edgeveil.runs.time_limit import TimeLimit

__all__ = ["Progress", "Summary", "carry_on", "describe", "prepare", "stored", "sweep"]

Loader = Callable[[str], Graph]


class Progress(Protocol):
    """Hears what a sweep does."""

    def begin(self, total: int, finished: int) -> None:
        """`finished` of `total` runs were there already."""

    def advance(self, outcome: Outcome, left: float | None) -> None:
        """One more outcome; `left` is the estimated number of seconds to go."""

    def interrupted(self, finished: int, total: int) -> None:
        """The user stopped it; `finished` runs are kept."""


@dataclass
class Summary:
    """What a sweep did. `failures` maps ids to (run, reason)."""

    total: int = 0
    skipped: int = 0
    done: int = 0
    seconds: float = 0.0
    work: float = 0.0
    failures: dict[str, tuple[str, str]] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    postponed: list[Task] = field(default_factory=list)  # what a time limit left no room for
    held: dict[str, str] = field(default_factory=dict)  # id of a task -> id of the finished run that answers it


class Clock:
    """Estimates the time left from the finished tasks' own durations and the number of workers."""

    def __init__(self, workers: int) -> None:
        self._workers, self._seconds, self._count = max(workers, 1), 0.0, 0

    def left(self, outcome: Outcome, remaining: int) -> float:
        """Seconds until `remaining` more tasks like the ones seen so far are done."""
        self._seconds += outcome.seconds
        self._count += 1
        return self._seconds / self._count * remaining / min(self._workers, max(remaining, 1))


def prepare(
    runs: Sequence[RunConfig], load: Loader
) -> tuple[list[Task], dict[str, Graph], dict[str, tuple[Task, str]]]:
    """Tasks with content ids, the graphs they share, and tasks whose graph cannot be had, with the reason."""
    graphs: dict[str, Graph] = {}
    missing: dict[str, str] = {}
    for name in dict.fromkeys(name for run in runs for name in run.graphs):
        try:
            graphs[name] = load(name)
        except EdgeveilError as error:
            missing[name] = f"{type(error).__name__}: {error}"
    tasks, hopeless = [], {}
    for run in runs:
        config = run.to_json()
        prints = {name: graphs[name].fingerprint if name in graphs else "" for name in run.graphs}
        task = Task(content_id(config, prints, run_digest(config)), config, run.group, run.graphs)
        reason = next((missing[name] for name in run.graphs if name in missing), None)
        if reason is None:
            tasks.append(task)
        else:
            hopeless[task.id] = (task, reason)
    return tasks, graphs, hopeless


def sweep(
    runs: Sequence[RunConfig],
    store: Store,
    executor: Executor,
    load: Loader,
    *,
    plan: str = "sweep",
    any_code: bool = False,
    only_failed: bool = False,
    progress: Progress | None = None,
    limit: TimeLimit | None = None,
) -> Summary:
    """Carry out every run that the store does not hold yet. One failing run never stops the others.

    `any_code` accepts finished rows of another version of the code; `only_failed` runs nothing but earlier failures.
    With a `limit` the runs start in their order, and those that it does not admit or that outlast it are postponed.
    """
    tasks, graphs, hopeless = prepare(runs, load)
    tasks = tasks if limit is None else [replace(task, group="") for task in tasks]
    summary = carry_on(
        tasks, store, executor, graphs, plan=plan, any_code=any_code, only_failed=only_failed, progress=progress,
        limit=limit,
    )  # fmt: skip
    for task, reason in hopeless.values():
        store.fail(_record(task, plan, {}, graphs), reason)
        summary.failures[task.id] = (describe(task.config), reason)
        summary.tasks.append(task)
    summary.total += len(hopeless)
    return summary


def carry_on(
    tasks: Sequence[Task],
    store: Store,
    executor: Executor,
    graphs: Mapping[str, Graph],
    *,
    function: str = FUNCTION,
    plan: str = "sweep",
    any_code: bool = False,
    only_failed: bool = False,
    progress: Progress | None = None,
    limit: TimeLimit | None = None,
) -> Summary:
    """The engine below `sweep`: any function of plain settings and shared graphs."""
    by_id, earlier = store.failed(), store.failed_settings()
    held = _held(tasks, store, graphs, any_code)
    todo = [t for t in tasks if t.id not in held]
    # By settings too: what failed for want of a graph, or under other code, has another id by now.
    failed = {t.id: ids for t in todo if (ids := earlier.get(canonical_json(t.config))) or t.id in by_id}
    todo = [t for t in todo if t.id in failed] if only_failed else todo
    summary = Summary(total=len(tasks), skipped=len(tasks) - len(todo), tasks=list(tasks), held=held)
    if progress is not None:
        progress.begin(len(tasks), summary.skipped)
    clock, started = Clock(executor.workers), time.perf_counter()
    outcomes = executor.run(function, todo, graphs) if limit is None else executor.run(function, todo, graphs, limit)
    came: set[str] = set()
    try:
        for count, outcome in enumerate(outcomes, 1):
            came.add(outcome.task.id)
            _keep(outcome, store, plan, graphs, summary)
            if outcome.result is not None and (overcome := failed.get(outcome.task.id)):
                store.forget_failed(overcome)
            if progress is not None:
                progress.advance(outcome, clock.left(outcome, len(todo) - count))
    except KeyboardInterrupt:
        if progress is not None:
            progress.interrupted(len(_held(tasks, store, graphs, any_code)), len(tasks))
        raise
    finally:
        close = getattr(outcomes, "close", None)
        if close is not None:
            close()
    summary.postponed = [task for task in todo if task.id not in came]
    summary.seconds = time.perf_counter() - started
    return summary


def _keep(outcome: Outcome, store: Store, plan: str, graphs: Mapping[str, Graph], summary: Summary) -> None:
    task, result = outcome.task, outcome.result
    provenance = {
        **outcome.provenance,
        "seconds": round(outcome.seconds, 4),
        "attempts": outcome.attempts,
        "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    summary.work += outcome.seconds
    if result is None:
        reason = outcome.error or "unknown"
        store.fail(_record(task, plan, provenance, graphs), reason)
        summary.failures[task.id] = (describe(task.config), reason)
        return
    if result.get("notes"):
        provenance["notes"] = list(result["notes"])
    record = _record(task, plan, provenance, graphs)
    found = {"rows": tuple(result.get("rows", ())), "figures": result.get("figures", {})}
    store.finish(replace(record, **found, details=result.get("details", {})))
    summary.done += 1
    summary.held[task.id] = task.id


def _held(tasks: Sequence[Task], store: Store, graphs: Mapping[str, Graph], any_code: bool) -> dict[str, str]:
    """Which finished run answers each task: its own, or one of code that was found to give equal rows.

    With `any_code` also the newest one with these settings and data.
    """
    done = store.done()
    newest = store.latest() if any_code else {}
    found: dict[str, str] = {}
    for task in tasks:
        names = (
            task.id,
            *(
                _name(task, graphs, code)
                for code in equal_codes(run_digest(task.config), task.config.get("defence", "none"))
            ),
        )
        held = next((name for name in names if name in done), newest.get(_name(task, graphs, "")))
        if held is not None:
            found[task.id] = held
    return found


def stored(store: Store, summary: Summary) -> Iterator[tuple[Task, Record]]:
    """The finished runs behind a sweep, in the order of its tasks."""
    for task in summary.tasks:
        if task.id in summary.held:
            yield task, store.record(summary.held[task.id])


def _name(task: Task, graphs: Mapping[str, Graph], code: str) -> str:
    return content_id(task.config, {n: graphs[n].fingerprint for n in task.needs if n in graphs}, code)


def _record(task: Task, plan: str, provenance: Mapping[str, Any], graphs: Mapping[str, Graph]) -> Record:
    return Record(
        id=task.id,
        key=_name(task, graphs, ""),
        code=run_digest(task.config),
        plan=plan,
        config=task.config,
        provenance=provenance,
    )


def describe(config: Mapping[str, Any]) -> str:
    """A run in a few words: what distinguishes it from its neighbours in a grid."""
    parts = [str(config.get("dataset", "")), str(config.get("defence", "none"))]
    if "epsilon" in config:
        parts.append(f"eps {config['epsilon']}")
    params = config.get("defence_params") or {}
    parts += [f"{key} {value}" for key, value in params.items()]
    return " ".join(filter(None, [*parts, str(config.get("model", "gcn")), f"seed {config.get('seed', 0)}"]))
