"""One process per core, one thread each. Workers are forked from a server that has imported everything once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from edgeveil import plugins
from edgeveil.errors import InputError, StorageError
from edgeveil.graph.graph import Graph
from edgeveil.runs.shared_graphs import open_graph, save_graph
from edgeveil.runs.tasks import Backlog, Outcome, Task, carry_out, find_function
from edgeveil.runs.time_limit import TimeLimit

__all__ = ["Processes", "ThreadLimit"]

ATTEMPTS = 3
_PREFIX = "edgeveil-graphs-"
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class ThreadLimit(contextlib.AbstractContextManager["ThreadLimit"]):
    """Processes started inside inherit one thread per library; two threads on contended cores are slower than one."""

    def __enter__(self) -> ThreadLimit:
        self._before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
        os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
        return self

    def __exit__(self, *exc: object) -> None:
        for name, value in self._before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


class SharedFolder(Mapping[str, Graph]):
    """Graphs that the sweeping process wrote once and every worker maps into memory."""

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        self._folder, self._names = folder, dict(names)
        self._open = cache(lambda name: open_graph(folder / self._names[name]))

    def __getitem__(self, name: str) -> Graph:
        return self._open(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    task: Task | None = None
    group: str | None = None


class Processes:
    """A pool that keeps groups of tasks together and replaces workers that die; a task is tried three times."""

    def __init__(self, workers: int | None = None) -> None:
        from edgeveil.models.kernels.threads import available

        self.workers = workers or available()

    def run(
        self, function: str, tasks: Sequence[Task], graphs: Mapping[str, Graph], limit: TimeLimit | None = None
    ) -> Iterator[Outcome]:
        """Yield outcomes as they come; closing the iterator, or the end of a `limit`, ends the workers."""
        backlog = Backlog(tasks, None if limit is None else limit.admits)
        pool: list[_Worker] = []
        _sweep_leftovers()
        with ThreadLimit(), tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as folder:
            names = {name: str(place) for place, name in enumerate(graphs)}
            for name, graph in graphs.items():
                _share(graph, Path(folder) / names[name])
            try:
                for _ in range(min(self.workers, len(backlog))):
                    pool.append(_start(function, folder, names))
                yield from _drive(pool, backlog, lambda: _start(function, folder, names), limit)
            finally:
                for worker in pool:
                    _stop(worker)


def _share(graph: Graph, folder: Path) -> None:
    try:
        save_graph(graph, folder)
    except OSError as error:
        raise StorageError(
            f"cannot share {graph.name} with the workers through {folder.parent}: {error.strerror or error}; free some "
            "space there, set TMPDIR to another disk, or use --executor serial"
        ) from error


def _drive(pool: list[_Worker], backlog: Backlog, start: Any, limit: TimeLimit | None) -> Iterator[Outcome]:
    for worker in pool:
        _hand_out(worker, backlog)
    while any(worker.task for worker in pool):
        ready = wait([worker.pipe for worker in pool if worker.task], None if limit is None else limit.timeout)
        if not ready:
            return
        for place, worker in enumerate(pool):
            if worker.pipe not in ready or worker.task is None:
                continue
            outcome = _receive(worker, backlog)
            if len(backlog) and not worker.process.is_alive():
                _stop(worker)
                worker = pool[place] = start()
            if outcome is not None and limit is not None:
                limit.hear(outcome)
            _hand_out(worker, backlog)
            if outcome is not None:
                yield outcome


def _hand_out(worker: _Worker, backlog: Backlog) -> None:
    task = backlog.take(worker.group)
    worker.task = task
    if task is not None:
        worker.group = task.group
        with contextlib.suppress(OSError):  # a dead worker is found when its answer is awaited
            worker.pipe.send(task)


def _receive(worker: _Worker, backlog: Backlog) -> Outcome | None:
    """The worker's answer; None if it died and its task went back to the backlog."""
    task = worker.task
    assert task is not None
    attempts = backlog.attempts[task.id]
    try:
        outcome: Outcome = replace(worker.pipe.recv(), attempts=attempts)
    except (EOFError, OSError):
        worker.process.join(5)
        worker.process.kill()
        if attempts < ATTEMPTS:
            backlog.put_back(task)
            return None
        code = worker.process.exitcode
        reason = f"the worker process died {attempts} times (last exit code {code}); out of memory?"
        outcome = Outcome(task, error=reason, attempts=attempts)
    backlog.release(task)
    return outcome


def _sweep_leftovers() -> None:
    """Remove graph copies of sweeps that were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _start(function: str, folder: str, names: Mapping[str, str]) -> _Worker:
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(["edgeveil.runs.preload"])
    ours, theirs = context.Pipe()
    args = (theirs, function, folder, dict(names), os.environ.get(plugins.VARIABLE, ""))
    process = context.Process(target=_work, args=args, daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _stop(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.join(0.2)
    if worker.process.is_alive():
        worker.process.terminate()
        worker.process.join(2)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


def _work(pipe: Connection, function: str, folder: str, names: Mapping[str, str], files: str) -> None:
    """A worker's life: take a task, send an outcome. It dies with its parent, because then the pipe ends.

    `files`: the plugins named so far; the server it is forked from may have started before they were.
    """
    import torch

    os.environ[plugins.VARIABLE] = files
    with contextlib.suppress(InputError):  # who needs one that cannot be imported says so by name
        plugins.import_listed()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    inbox: queue.SimpleQueue[Task] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, inbox), daemon=True).start()
    call = find_function(function)
    graphs = SharedFolder(Path(folder), names)
    while True:
        pipe.send(carry_out(call, inbox.get(), graphs))


def _listen(pipe: Connection, inbox: queue.SimpleQueue[Task]) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            inbox.put(pipe.recv())
    os._exit(0)
