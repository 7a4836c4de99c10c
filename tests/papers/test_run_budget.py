"""The budget buys the runs that decide most printed cells per hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgeveil.cli.reproduce_command import seconds_of
from edgeveil.errors import UnknownNameError, UsageError
from edgeveil.graph.graph import Graph
from edgeveil.papers import run_budget as budget
from edgeveil.papers.published import Published, published
from edgeveil.papers.recipes import Cell, Recipe, Term, run_key
from edgeveil.papers.run_budget import choose, left, missing, spend, tables_of, worth
from edgeveil.papers.samples import Kept, Samples, cell_key
from edgeveil.runs.run_config import AttackConfig, RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.tasks import Outcome, Task

PRINTED = next(p for p in published("lpgnet") if p.table == "7" and p.metric == "micro_f1")


def cell(mean: float, *runs: RunConfig, table: str = "7", std: float = 0.0) -> Cell:
    p: Published = replace(PRINTED, table=table, mean=mean, std=std)
    return Cell(p, {"published": Recipe(tuple(Term(run, "micro_f1", weight=1 / len(runs)) for run in runs))})


def run(name: str) -> RunConfig:
    return RunConfig(dataset=name, preset="lpgnet")


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """A price list by dataset in place of measured costs."""
    table: dict[str, float] = {}
    monkeypatch.setattr(budget, "estimate", lambda runs: sum(table.get(r.dataset, 1.0) for r in runs))
    monkeypatch.setattr(budget, "speed", lambda: 1.0)
    return table


def test_most_cells_per_second_first_and_shared_runs_once(prices: dict[str, float]) -> None:
    prices |= {"a": 10.0, "b": 1.0, "c": 5.0}
    cells = [cell(0.5, run("a")), cell(0.6, run("b")), cell(0.7, run("b")), cell(0.5, run("b"), run("c"))]
    assert [r.dataset for r in choose(cells, Samples(), 100.0)] == ["b", "c", "a"]
    assert [r.dataset for r in choose(cells, Samples(), 7.0)] == ["b", "c"]
    assert choose(cells, Samples(), 0.5) == []
    failed = {(run_key(run("b")), 0)}
    assert [r.dataset for r in choose(cells, Samples(), 100.0, failed)] == ["a"]


def test_runs_whose_training_others_share_come_first(prices: dict[str, float]) -> None:
    prices |= {"a": 1.0, "b": 5.0}
    attacked = run("a").model_copy(update={"attacks": (AttackConfig(),)})
    cells = [cell(0.5, attacked), cell(0.6, run("b"))]
    assert [bool(r.attacks) for r in choose(cells, Samples(), 100.0)] == [False, True]


def test_a_cell_is_worth_a_run_while_its_verdict_may_turn() -> None:
    samples = Samples()
    near, clear = cell(0.5, run("a")), cell(0.9, run("a"))
    assert worth(near, samples) == 1.0
    samples.add(run_key(run("a")), "micro_f1", {(0, None): 0.521}, "x")  # 0.021 off, 0.02 allowed
    assert worth(near, samples) == 0.5 and worth(clear, samples) == 0.0
    assert {seed for _, seed in missing(near, samples)} == {1}
    samples.add(run_key(run("a")), "micro_f1", {(s, None): 0.521 for s in range(1, 5)}, "x")
    assert worth(near, samples) == 0.0, "five seeds are enough"
    assert worth(replace(near, aside="why"), Samples()) == 0.0 == worth(replace(near, why="no graph"), Samples())
    kept = Samples(cells={(cell_key(near.published), "published"): Kept(0.521, 0.0, 3)})
    assert worth(near, kept) == 0.0, "the seeds behind a kept mean are not known, so none can be added"


def test_hours_left_fall_with_what_is_known(prices: dict[str, float]) -> None:
    prices["a"] = 3600.0
    samples = Samples()
    assert left([cell(0.5, run("a"))], samples, 3) == pytest.approx(3.0)
    samples.add(run_key(run("a")), "micro_f1", {(0, None): 0.5, (2, None): 0.5}, "x")
    assert left([cell(0.5, run("a"))], samples, 3) == pytest.approx(1.0)


def test_names_and_lengths_of_time() -> None:
    assert [table for _, table in tables_of("lpgnet:7")] == ["7"] and len(tables_of("LPGNet")) > 20
    with pytest.raises(UnknownNameError):
        tables_of("lpgnett")
    assert (seconds_of("2h"), seconds_of("90 min"), seconds_of("1.5m"), seconds_of("30s")) == (7200, 5400, 90, 30)
    for bad in ("2", "h", "-1h", "0s", "two hours"):
        with pytest.raises(UsageError, match="2h"):
            seconds_of(bad)


class Answers:
    """An executor that finishes every run at once, or fails those of one dataset."""

    workers = 1

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.done: list[str] = []

    def run(self, function: str, tasks: Sequence[Task], graphs: Mapping[str, Graph]) -> Iterator[Outcome]:
        for task in tasks:
            self.done.append(task.config["dataset"])
            if task.config["dataset"] == self.failing:
                yield Outcome(task, None, error="broken")
            else:
                yield Outcome(task, {"rows": [], "figures": {"micro_f1": 0.2}})


def test_spending_ends_when_nothing_is_left_and_a_failing_run_is_tried_once(
    tmp_path: Path, toy: Graph, prices: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Book:
        def cells(self, table: str, mode: str) -> list[Cell]:
            return [cell(0.9, run("cora")), cell(0.8, run("cora"), run("pubmed")), cell(0.7, run("citeseer"))]

    book = Book()
    every = book.cells("7", "full")
    known = {run_key(t.run): tuple(x for c in every for x in c.recipes["published"].terms if run_key(x.run) == run_key(t.run))
             for c in every for t in c.recipes["published"].terms}  # fmt: skip
    monkeypatch.setattr(budget, "tables_of", lambda name: [(book, "7")])
    monkeypatch.setattr(budget, "asked", lambda: known)
    monkeypatch.setattr(budget, "measured", Samples)
    work = Answers("citeseer")
    with Store(tmp_path / "s.sqlite") as store:
        spent = spend("lpgnet", store, work, toy.named, 3600.0)
        assert sorted(work.done) == ["citeseer", "cora", "pubmed"] and spent.runs == 2
        assert (spent.before, spent.after, spent.finished) == (0, 2, False) and len(spent.failures) == 1
        again = Answers()
        spent = spend("lpgnet", store, again, toy.named, 3600.0)
        assert again.done == ["citeseer"] and (spent.before, spent.after, spent.finished) == (2, 3, True)


def test_runs_that_take_longer_than_estimated_do_not_outlast_the_budget(
    tmp_path: Path, toy: Graph, prices: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    class Slow(Answers):
        def run(self, function: str, tasks: Sequence[Task], graphs: Mapping[str, Graph]) -> Iterator[Outcome]:
            for outcome in super().run(function, tasks, graphs):
                now[0] += 20.0  # estimated: 1 s
                yield outcome

    many = (RunConfig(dataset="cora", preset="lpgnet", epsilon=float(i), defence="lapgraph") for i in range(1, 500))
    every = [cell(0.9, config) for config in many]
    book = type("Book", (), {"cells": lambda self, table, mode: every})()
    monkeypatch.setattr(budget, "tables_of", lambda name: [(book, "7")])
    known = {run_key(t.run): (t,) for c in every for t in c.recipes["published"].terms}
    monkeypatch.setattr(budget, "asked", lambda: known)
    monkeypatch.setattr(budget, "measured", Samples)
    work = Slow()
    with Store(tmp_path / "s.sqlite") as store:
        spend("lpgnet", store, work, toy.named, 7200.0, clock=lambda: now[0])
    assert 0.9 * 7200 < now[0] < 1.1 * 7200
