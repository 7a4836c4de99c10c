"""A time limit: kinds are known by what they took, what does not fit is postponed, what overruns is given up."""

from __future__ import annotations

import math
import time
from pathlib import Path

import payload
import pytest

from edgeveil.runs.executors import make_executor
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import carry_on
from edgeveil.runs.tasks import Task
from edgeveil.runs.time_limit import TimeLimit


def task(defence: str, attacked: bool = True) -> Task:
    return Task(defence, {"defence": defence, "attacks": [{"name": "x"}] if attacked else []})


def test_the_dearest_of_a_kind_counts_and_an_unknown_kind_is_taken_for_the_middle_one() -> None:
    limit = TimeLimit(100)
    for seconds in (5.0, 20.0, 8.0):
        limit.learn(task("a").config, seconds)
    limit.learn(task("b").config, 150.0)
    limit.learn(task("c").config, 30.0)
    assert [limit.expected(task(n).config) for n in "abcd"] == [20.0, 150.0, 30.0, 30.0]
    assert limit.expected(task("a", attacked=False).config) == 30.0
    assert limit.admits(task("a")) and limit.admits(task("d")) and not limit.admits(task("b"))
    assert TimeLimit(100).admits(task("never seen")) and not TimeLimit(0).admits(task("never seen"))


def test_a_second_training_of_what_was_started_is_kept_free() -> None:
    limit = TimeLimit(100, workers=2, reserve=True)
    limit.learn(task("a").config, 10.0, again=50.0)
    admitted = [limit.admits(task("a")) for _ in range(5)]
    assert admitted == [True, True, True, False, False]  # 10 + 3 * 50 / 2 = 85 fit, with a tenth of slack, 110 do not
    assert not limit.admits(task("never seen"))  # its second training is expected to be like the others'
    free = TimeLimit(100, workers=2)
    free.learn(task("a").config, 10.0, again=50.0)
    assert all(free.admits(task("a")) for _ in range(5))


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_what_does_not_fit_is_postponed_and_done_with_more_time(name: str, tmp_path: Path) -> None:
    tasks = payload.tasks(6, seconds=0.02)
    limit = TimeLimit(30)
    limit.learn(tasks[0].config, 100.0)
    with Store(tmp_path / "s.sqlite") as store:
        none = carry_on(tasks, store, make_executor(name, 2), {}, function=payload.FUNCTION, limit=limit)
        assert (none.done, [t.id for t in none.postponed], none.failures) == (0, [t.id for t in tasks], {})
        every = TimeLimit(math.inf)
        rest = carry_on(tasks, store, make_executor(name, 2), {}, function=payload.FUNCTION, limit=every)
        assert (rest.done, rest.postponed) == (6, [])


def test_tasks_that_outlast_the_limit_are_given_up(tmp_path: Path) -> None:
    """Of a kind never seen nothing is known: a task that would take a minute ends with the limit, not after it."""
    slow = Task("slow", {"number": 1, "seconds": 60, "defence": "slow"})
    quick = Task("quick", {"number": 2, "defence": "quick"})
    with Store(tmp_path / "warm.sqlite") as store:  # the server of processes is there before the clock runs
        carry_on(payload.tasks(1), store, make_executor("processes", 2), {}, function=payload.FUNCTION)
    started = time.monotonic()
    with Store(tmp_path / "s.sqlite") as store:
        summary = carry_on(
            [slow, quick], store, make_executor("processes", 2), {}, function=payload.FUNCTION, limit=TimeLimit(4)
        )
    assert time.monotonic() - started < 40
    assert [t.id for t in summary.postponed] == ["slow"] and summary.done == 1
