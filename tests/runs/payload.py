"""Small pure functions that stand for runs in tests of the engine, and the driver that tests kill."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeveil.runs.executors import make_executor
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import carry_on
from edgeveil.runs.tasks import Task

FUNCTION = "payload:work"


def work(config: Mapping[str, Any], graphs: Mapping[str, Any]) -> dict[str, Any]:
    """Wait a little, say that it ran, and return a row that depends on the settings only."""
    number = int(config["number"])
    if config.get("diary"):
        with Path(config["diary"]).open("a") as file:
            file.write(f"{number} {os.getpid()}\n")
    time.sleep(float(config.get("seconds", 0)))
    if number in config.get("bad", ()):
        raise RuntimeError(f"number {number} is bad")
    if config.get("suicide") == number and not Path(config["grave"]).exists():
        Path(config["grave"]).write_text(str(os.getpid()))
        os.kill(os.getpid(), 9)
    if config.get("always_dies") == number:
        os.kill(os.getpid(), 9)
    nodes = sum(graph.num_nodes for graph in graphs.values())
    row = {"dataset": f"graph{number}", "defence": "none", "seed": number, "auc": number / 7, "n_nodes": nodes}
    return {"rows": [row, {**row, "belief": "k"}], "figures": {"square": float(number * number)}}


def tasks(count: int, **config: Any) -> list[Task]:
    """`count` tasks in groups of five."""
    return [Task(f"{n:04d}", {"number": n, **config}, group=str(n // 5)) for n in range(count)]


def drive(path: str, count: int, diary: str, executor: str) -> None:
    """A whole sweep, to be killed from outside."""
    with Store(path) as store:
        carry_on(tasks(count, seconds=0.01, diary=diary), store, make_executor(executor, 2), {}, function=FUNCTION)
