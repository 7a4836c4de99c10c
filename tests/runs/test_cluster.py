"""A real local Ray: the rows of the serial executor, and nothing lost when a worker is killed by its process id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgeveil.runs.store import Store

HERE = Path(__file__).parent
pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SAME = """
import sys
sys.path.insert(0, sys.argv[2])
from zoo import three_classes
from test_sweep import RUNS, figures
from edgeveil.runs.executors import make_executor
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import sweep
graph = three_classes()
found = {}
for name in ("serial", "processes", "ray"):
    with Store(f"{sys.argv[1]}/{name}.sqlite") as store:
        summary = sweep(RUNS, store, make_executor(name, 2), lambda _: graph)
        assert not summary.failures, summary.failures
        found[name] = figures(store)
assert found["serial"] == found["processes"] == found["ray"]
print(len(found["ray"]), "equal rows")
"""

KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
import payload
payload.drive(f"{sys.argv[1]}/s.sqlite", 40, f"{sys.argv[1]}/diary", "ray")
"""


def run(code: str, folder: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(HERE)], env=env, cwd=HERE, text=True, stdout=subprocess.PIPE
    )


def test_the_same_plan_gives_identical_rows_on_all_three(tmp_path: Path) -> None:
    process = run(SAME, tmp_path)
    out, _ = process.communicate(timeout=500)
    assert process.returncode == 0 and "equal rows" in out


def test_a_worker_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    process = run(KILLED, tmp_path)
    diary = tmp_path / "diary"
    while process.poll() is None and (not diary.exists() or len(diary.read_text().splitlines()) < 10):
        time.sleep(0.02)
    victim = int(diary.read_text().splitlines()[-1].split()[1])
    os.kill(victim, signal.SIGKILL)
    process.communicate(timeout=500)
    assert process.returncode == 0
    pids = {int(line.split()[1]) for line in diary.read_text().splitlines()}
    assert victim in pids and len(pids) >= 3
    with Store(tmp_path / "s.sqlite") as store:
        assert store.done() == {f"{n:04d}" for n in range(40)} and not store.failed()
        attempts = [json.loads(p)["attempts"] for (p,) in store._select("SELECT provenance FROM runs")]
        assert max(attempts) == 2 and sum(attempts) == 41
