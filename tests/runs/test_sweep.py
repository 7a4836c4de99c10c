"""Sweeps resume exactly: whatever is killed, and whenever, no finished row is lost or repeated."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

import payload
import pytest

from edgeveil.errors import DatasetUnavailable
from edgeveil.graph.graph import Graph
from edgeveil.runs.executors import Serial
from edgeveil.runs.rows import TIMES
from edgeveil.runs.run_config import AttackConfig, RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import carry_on, describe, sweep


def start(store: Path, count: int, diary: Path, executor: str) -> Any:
    """The sweep in a process of its own, forked from a server that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["edgeveil.runs.preload"])
    process = context.Process(target=payload.drive, args=(str(store), count, str(diary), executor))
    process.start()
    return process


def read(path: Path) -> dict[str, str]:
    """Finished runs with everything that must never change."""
    if not path.exists():
        return {}
    with Store(path) as store:
        return {r: json.dumps([store.record(r).rows, store.record(r).provenance], sort_keys=True) for r in store.done()}


def diary_numbers(diary: Path) -> list[int]:
    return [int(line.split()[0]) for line in diary.read_text().splitlines()] if diary.exists() else []


def kill_and_resume(tmp_path: Path, executor: str, kills: int) -> None:
    rng = random.Random(kills)
    store, diary, count = tmp_path / "s.sqlite", tmp_path / "diary", 12 * kills
    kept: dict[str, str] = {}
    for kill in range(kills):
        before = len(diary_numbers(diary))
        wanted = before + rng.randint(1, 8)
        process = start(store, count, diary, executor)
        while process.is_alive() and len(diary_numbers(diary)) < wanted:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.02))
        process.kill()
        process.join()
        time.sleep(0.05)  # orphaned workers notice the broken pipe
        now = read(store)
        assert kept.items() <= now.items(), "a finished row was lost or changed"
        repeated = {f"{n:04d}" for n in diary_numbers(diary)[before:]} & kept.keys()
        assert not repeated, f"finished runs were done again after kill {kill}: {repeated}"
        kept = now
    assert 0 < len(kept) < count
    last = start(store, count, diary, executor)
    last.join(120)
    assert last.exitcode == 0
    final = read(store)
    assert kept.items() <= final.items() and final.keys() == {f"{n:04d}" for n in range(count)}
    with Store(store) as opened:
        assert len(list(opened.rows())) == 2 * count


@pytest.mark.slow
def test_22_kills_at_random_moments_lose_and_repeat_nothing(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "serial", 22)


def test_a_killed_sweep_loses_and_repeats_nothing(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "serial", 2)


@pytest.mark.slow
def test_22_kills_of_a_parallel_sweep(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "processes", 22)


def test_failures_are_noted_and_can_be_run_alone(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        first = carry_on(payload.tasks(10, bad=[3, 4]), store, Serial(), {}, function=payload.FUNCTION)
        assert first.done == 8 and set(first.failures) == {"0003", "0004"}
        tasks = payload.tasks(12, bad=[4])
        again = carry_on(tasks, store, Serial(), {}, function=payload.FUNCTION, only_failed=True)
        assert again.done == 1 and set(again.failures) == {"0004"} and again.skipped == 10
        rest = carry_on(payload.tasks(12), store, Serial(), {}, function=payload.FUNCTION)
        assert rest.done == 3 and rest.skipped == 9 and not rest.failures and not store.failed()


CELLS = (
    ("none", None, "gcn"),
    ("mlp", None, "mlp"),
    ("edgerand", 4.0, "gcn"),
    ("lapgraph", 4.0, "sage"),
    ("lpgnet-1", 4.0, "mlp"),
)
RUNS = [
    RunConfig(
        dataset="toy", defence=defence, epsilon=epsilon, model=model, seed=seed, train_params={"epochs": 8},
        attacks=(
            AttackConfig(nodes=60, degrees=("low", "unconstrained"), sample_seeds=(0, 1)),
            AttackConfig(name="lsa2-post", protocol="sampled", nodes=50, beliefs=("k",)),
        ),
    )
    for seed in (0, 1)
    for defence, epsilon, model in CELLS
]  # fmt: skip


def figures(store: Store) -> list[str]:
    rows = ({k: v for k, v in row.items() if k not in TIMES} for row in store.rows())
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.slow
def test_real_runs_give_the_same_rows_on_processes_and_serially(tmp_path: Path, toy: Graph) -> None:
    from edgeveil.runs.executors import make_executor

    found = []
    for name in ("serial", "processes"):
        with Store(tmp_path / f"{name}.sqlite") as store:
            summary = sweep(RUNS, store, make_executor(name, 2), lambda _: toy)
            assert not summary.failures, summary.failures
            assert summary.done == len(RUNS)
            found.append(figures(store))
    assert found[0] == found[1] and len(found[0]) == len(RUNS) * (2 * 2 * 5 + 1)


def test_a_missing_graph_fails_its_runs_only(tmp_path: Path, toy: Graph) -> None:
    def load(name: str) -> Graph:
        if name != "toy":
            raise DatasetUnavailable(f"no {name} anywhere")
        return toy

    runs = [RUNS[1], RUNS[1].model_copy(update={"dataset": "atlantis"})]
    with Store(tmp_path / "s.sqlite") as store:
        summary = sweep(runs, store, Serial(), load)
        assert (summary.total, summary.done) == (2, 1)
        ((what, why),) = summary.failures.values()
        assert what.startswith("atlantis mlp") and "no atlantis anywhere" in why


def test_rows_of_other_code_count_only_when_asked(tmp_path: Path, toy: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        assert sweep(RUNS[1:2], store, Serial(), lambda _: toy).done == 1
        monkeypatch.setattr("edgeveil.runs.sweep.run_digest", lambda config: "another version")
        assert sweep(RUNS[1:2], store, Serial(), lambda _: toy, any_code=True).skipped == 1
        assert sweep(RUNS[1:2], store, Serial(), lambda _: toy).done == 1


def test_a_run_in_words() -> None:
    assert describe(RUNS[2].to_json()) == "toy edgerand eps 4.0 gcn seed 0"


def test_failures_of_a_missing_graph_or_of_other_code_can_be_run_alone(
    tmp_path: Path, toy: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both change a run's id, so the failed runs are found again by their settings, and forgotten once they are done."""

    def missing(name: str) -> Graph:
        raise DatasetUnavailable(f"no {name} anywhere")

    with Store(tmp_path / "s.sqlite") as store:
        assert len(sweep(RUNS[1:2], store, Serial(), missing).failures) == 1
        monkeypatch.setattr("edgeveil.runs.sweep.run_digest", lambda config: "the mended version")
        found = sweep(RUNS[:2], store, Serial(), lambda _: toy, only_failed=True)
        assert (found.done, found.skipped) == (1, 1) and not found.failures
        assert not store.failed() and len(store.done()) == 1
        assert sweep(RUNS[:2], store, Serial(), lambda _: toy, only_failed=True).done == 0
