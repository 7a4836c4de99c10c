"""The sweep engine: throughput on two cores, cost per run, and how much work runs share. Ratios of one run.

    python benchmarks/bench_engine.py [--quick]

Throughput: 16 equal single-threaded runs of at least 5 s each, one worker against two, best of three. Overhead: wall
time of runs that do nothing, stored durably. Reuse: the figures of a table computed one by one, each with its own
training, against the engine's shared runs; reduced epochs, one-by-one times measured per kind of figure and multiplied.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

import edgeveil as ev
from edgeveil.defences.lpgnet import lpgnet_stack
from edgeveil.models.memo import Memo
from edgeveil.papers.books import BOOKS
from edgeveil.papers.recipes import Cell
from edgeveil.papers.reproduce import needed
from edgeveil.runs import measure as runs
from edgeveil.runs.executors import make_executor
from edgeveil.runs.run_config import AttackConfig
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import Progress, carry_on
from edgeveil.runs.tasks import Task

RESULTS = Path(__file__).parent / "results"


def burn(config: Mapping[str, Any], graphs: Mapping[str, Any]) -> dict[str, Any]:
    """A fixed amount of floating-point work that fits in cache."""
    x = np.random.default_rng(0).random((192, 192))
    for _ in range(int(config["rounds"])):
        x = x @ x
        x /= np.abs(x).max()
    return {"rows": [], "figures": {"sum": float(x.sum())}}


def idle(config: Mapping[str, Any], graphs: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing, with the rows of a typical run."""
    row = {"dataset": "none", "defence": "none", "auc": 0.5, "precision": 0.5, "recall": 0.5}
    return {"rows": [row] * 15, "figures": {"micro_f1": 0.5}}


def sweep_seconds(function: str, count: int, workers: int, **config: Any) -> float:
    """Wall time of `count` equal tasks, workers already running (a first task per worker is not counted)."""
    tasks = [Task(f"{n:05d}", {"number": n, **config}, group=str(n % workers)) for n in range(count + workers)]
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "s.sqlite") as store:
        first = _First(workers)
        carry_on(
            tasks, store, make_executor("processes", workers), {}, function=f"bench_engine:{function}", progress=first
        )
        return time.perf_counter() - first.started


class _First(Progress):
    """Starts the clock when every worker has answered once."""

    def __init__(self, workers: int) -> None:
        self._left, self.started = workers, 0.0

    def advance(self, outcome: Any, left: float | None) -> None:
        self._left -= 1
        if self._left == 0:
            self.started = time.perf_counter()


def throughput(quick: bool) -> dict[str, Any]:
    """Two workers against one."""
    started = time.process_time()
    burn({"rounds": 400}, {})
    per_round = (time.process_time() - started) / 400
    rounds, count, trials = int((1.0 if quick else 5.5) / per_round), 6 if quick else 16, 1 if quick else 3
    best = {w: min(sweep_seconds("burn", count, w, rounds=rounds) for _ in range(trials)) for w in (1, 2)}
    return {"runs": count, "seconds_1": best[1], "seconds_2": best[2], "speedup": best[1] / best[2]}


def overhead(quick: bool) -> dict[str, Any]:
    """Milliseconds per run that does nothing."""
    count = 100 if quick else 400
    seconds = min(sweep_seconds("idle", count, 1) for _ in range(3))
    return {"runs": count, "ms_per_run": 1000 * seconds / count}


def forget() -> None:
    """Drop everything that earlier runs left in this process."""
    runs._MEMO = Memo()
    lpgnet_stack.FIRST.clear()


def alone(cell: Cell, epochs: int, graphs: Mapping[str, Any]) -> float:
    """Processor seconds of one printed figure computed from nothing."""
    started = time.process_time()
    for term in cell.recipes["published"].terms:
        forget()
        attacks: tuple[AttackConfig, ...] = ()
        if term.pick is not None:
            own, degree = term.pick.attack, term.pick.degree
            only = {"degrees": (degree,) if degree else own.degrees, "beliefs": (term.pick.belief,)}
            attacks = (own.model_copy(update=only),)
        config = term.run.model_copy(update={"attacks": attacks, "train_params": {"epochs": epochs}})
        runs.run(config.to_json(), graphs)
    return time.process_time() - started


def reuse(tables: dict[str, str], keep: Any, epochs: int) -> dict[str, Any]:
    """Figures one by one against shared runs, for some tables that the same runs serve."""
    cells = [c for t, p in tables.items() for c in BOOKS[p].cells(t, "full") if keep(c.published)]
    configs = [c.model_copy(update={"train_params": {"epochs": epochs}}) for c in needed(cells, 1, ("published",))]
    graphs = {name: ev.load(name) for config in configs for name in config.graphs}
    forget()
    started = time.process_time()
    for config in configs:
        runs.run(config.to_json(), graphs)
    together = time.process_time() - started
    kinds: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        p = cell.published
        kinds.setdefault((p.model, p.mechanism, p.epsilon if p.mechanism == "edgerand" else "", p.attack), []).append(
            cell
        )
    separate = sum(len(members) * alone(members[0], epochs, graphs) for members in kinds.values())
    return {
        "figures": len(cells), "runs": len(configs), "seconds_one_by_one": separate, "seconds_shared": together,
        "factor": separate / together,
    }  # fmt: skip


def main() -> None:
    """Measure, print, write benchmarks/results/engine.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: a minute instead of ten")
    quick = parser.parse_args().quick
    epsilons = ("8", "9", "10") if quick else ("6", "7", "8", "9", "10")
    results = {
        "throughput": throughput(quick),
        "overhead": overhead(quick),
        "reuse lpgnet:7": reuse({"7": "lpgnet"}, lambda p: True, 10 if quick else 500),
        "reuse lpgnet:7 with its attack figures in lpgnet:18": reuse(
            {"7": "lpgnet", "18": "lpgnet"}, lambda p: p.dataset == "cora", 10 if quick else 500
        ),
        "reuse linkteller:XIII": reuse({"XIII": "linkteller"}, lambda p: p.epsilon in epsilons, 10 if quick else 200),
    }
    fast, cost = results["throughput"], results["overhead"]
    print(f"2 workers against 1, {fast['runs']} equal runs: {fast['speedup']:.2f}x")
    print(f"engine overhead per run: {cost['ms_per_run']:.1f} ms")
    for name, found in results.items():
        if "factor" in found:
            print(f"{name}: {found['figures']} figures from {found['runs']} runs, {found['factor']:.1f}x less work")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "engine.json").write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
