"""The model's threads and the line before them. Questions that wait anyway are computed together.

A small question of the only client at work is computed where it stands, because handing it to a thread and back
takes as long.

Nobody waits for company: an idle thread takes whatever is in line, so a question waits for those before it and never
for those after it. Each is computed on a copy of the graph of its own (`GCNUpdate.changed_each`), and one that fails
does not fail its company.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.serve.engine import Change, Engine
from edgeveil.serve.guard import PASS, Decision
from edgeveil.serve.problems import Problem
from edgeveil.serve.wire import Query

__all__ = ["Inference", "Question"]

T = TypeVar("T")
Outcome = tuple[Decision, NDArray[np.float64] | None]
SMALL = 4096  # entries of the graph, some tenths of a millisecond
FEW = 8  # changed and asked rows of a small question
ROWS = 1024  # changed and asked rows of a batch; a larger question is computed by itself


@dataclass(frozen=True, eq=False)
class Question:
    """A checked and counted question. `judge` is asked first; what it refuses or delays is not computed."""

    engine: Engine
    query: Query
    change: Change | None
    alone: bool = False
    judge: Callable[[], Decision] | None = None

    @property
    def rows(self) -> int:
        """How much work it is, about."""
        asked = self.engine.num_nodes if self.query.answer is None else len(self.query.answer)
        return asked + (0 if self.change is None else len(self.change.nodes))

    @property
    def is_small(self) -> bool:
        """Whether it surely costs less than a millisecond."""
        return not self.alone and self.rows <= FEW and self.engine.effort(self.query, self.change) <= SMALL


class Inference:
    """`threads` threads; `most` questions at a time in each; `queue` callers in line or being served."""

    def __init__(
        self, threads: int, most: int, queue: int, timeout: float, seen: Callable[[int], None] = lambda _: None
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="inference")
        self._threads, self._most, self._queue, self._timeout, self._seen = threads, most, queue, timeout, seen
        self._line: deque[tuple[Question, asyncio.Future[Outcome]]] = deque()
        self._busy = 0
        self.waiting = 0
        self.quiet: Callable[[], bool] = lambda: False  # nobody else is at work in this process

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Any function on a model thread."""
        self.check()
        loop = asyncio.get_running_loop()
        return await self._served(loop.run_in_executor(self._pool, function, *arguments))

    async def ask(self, question: Question) -> Outcome:
        """The guard's decision and, unless it refuses or delays, the logits."""
        self.check()
        if not self.waiting and self.quiet() and question.is_small:
            self._seen(1)
            return _raised(compute([question])[0])
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._line.append((question, future))
        if self._busy < self._threads:
            self._start()
        return await self._served(future)

    def check(self) -> None:
        """Raise when the line is full."""
        if self.waiting >= self._queue:
            raise Problem(503, "overloaded", "too many queries are waiting; try again", retry_after=1)

    def close(self) -> None:
        """Drop what has not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _served(self, future: asyncio.Future[T]) -> T:
        self.waiting += 1
        try:
            return await asyncio.wait_for(future, self._timeout)
        finally:
            self.waiting -= 1

    def _start(self) -> None:
        """Hand the next batch to a thread."""
        batch = self._next()
        if not batch:
            return
        self._busy += 1
        self._seen(len(batch))
        work = asyncio.get_running_loop().run_in_executor(self._pool, compute, [question for question, _ in batch])
        work.add_done_callback(lambda done: self._finish([future for _, future in batch], done))

    def _next(self) -> list[tuple[Question, asyncio.Future[Outcome]]]:
        batch: list[tuple[Question, asyncio.Future[Outcome]]] = []
        rows = 0
        while self._line and len(batch) < self._most:
            question, future = self._line[0]
            if future.done():  # its client has left, or its time is up
                self._line.popleft()
                continue
            rows += question.rows
            if batch and (rows > ROWS or question.engine is not batch[0][0].engine):
                break
            batch.append(self._line.popleft())
        return batch

    def _finish(self, futures: list[asyncio.Future[Outcome]], done: asyncio.Future[list[Outcome | Exception]]) -> None:
        self._busy -= 1
        if done.cancelled() or done.exception() is not None:  # the threads are closing
            for future in futures:
                future.cancel()
            return
        for future, outcome in zip(futures, done.result(), strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        self._start()


def compute(batch: Sequence[Question]) -> list[Outcome | Exception]:
    """Judge and answer questions to one engine; what goes wrong with one is its own."""
    outcomes: list[Outcome | Exception] = [_judge(question) for question in batch]
    passed = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, tuple) and _passes(outcome[0])]
    together = [i for i in passed if not batch[i].alone]
    engine = batch[0].engine
    try:
        found = engine.answers([(batch[i].query, batch[i].change) for i in together])
        logits = dict(zip(together, found, strict=True))
    except Exception:  # whose fault it was shows when each is tried by itself
        logits = {}
    for i in passed:
        decision = outcomes[i][0]  # type: ignore[index]
        try:
            outcomes[i] = decision, logits[i] if i in logits else _answer(batch[i])
        except Exception as error:
            outcomes[i] = error
    return outcomes


def _raised(outcome: Outcome | Exception) -> Outcome:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _judge(question: Question) -> Outcome | Exception:
    try:
        return (PASS if question.judge is None else question.judge()), None
    except Exception as error:
        return error


def _passes(decision: Decision) -> bool:
    return decision.action != "refuse" and not decision.delay


def _answer(question: Question) -> NDArray[np.float64]:
    engine, query, change = question.engine, question.query, question.change
    if question.alone and change is not None:
        return engine.alone(engine.asked(query), change)
    return engine.answer(query, change)
