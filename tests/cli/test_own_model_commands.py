"""A user's module by its path on the command line: every command that trains takes it and says whose figures these are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forked
from tests.command import edgeveil
from tests.zoo import toy

from edgeveil.graph.npz import write_npz
from edgeveil.models import own_models
from edgeveil.plugins import VARIABLE

pytest.importorskip("torch_geometric", reason="extra pyg is not installed")
pytestmark = pytest.mark.usefixtures("sketched", "trained_briefly")
SLOW = pytest.mark.slow
MODULE = """
import torch
from torch_geometric.nn import GCNConv

class Net(torch.nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.a, self.norm, self.b = GCNConv(in_dim, 8), torch.nn.LayerNorm(8), GCNConv(8, out_dim)

    def forward(self, x, edge_index):
        return self.b(self.norm(self.a(x, edge_index)).relu(), edge_index)

def make(in_dim, out_dim):
    return Net(in_dim, out_dim)
"""
PLAN = """
[[grid]]
dataset = "toy.npz"
defence = ["none", "lapgraph", "mlp"]
epsilon = 8
train_params = { epochs = 5 }
[[grid.attack]]
nodes = 30
beliefs = ["k"]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a graph, a plan and a package `theirs`, in a process that has not heard of them."""
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(own_models, "_known", {})
    for name in [name for name in sys.modules if name.partition(".")[0] == "theirs"]:
        monkeypatch.delitem(sys.modules, name)
    write_npz(toy(), tmp_path / "toy.npz")
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "net.py").write_text(MODULE)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").touch()
    (tmp_path / "theirs" / "models.py").write_text(MODULE)
    return tmp_path


def rows_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def models_by_defence(rows: list[dict[str, object]]) -> dict[object, set[object]]:
    return {d: {r["model"] for r in rows if r["defence"] == d} for d in {r["defence"] for r in rows}}


@pytest.mark.parametrize(
    "path", ["net.py:Net", pytest.param("theirs.models:make", marks=SLOW), pytest.param("pyg:GIN", marks=SLOW)]
)
def test_audit(home: Path, path: str) -> None:
    done = edgeveil("audit", "toy.npz", "--model", path, "--defence", "none,lapgraph", "--epsilon", 8, "--nodes", 30,
                    "--attack", "linkteller", "--executor", "serial", "--out", "a", "--json", "rows.jsonl",
                    cwd=home)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = models_by_defence(rows_of(home / "rows.jsonl"))
    assert found["none"] == found["lapgraph"] == {path}
    assert path in (home / "a" / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_advise(home: Path) -> None:
    done = edgeveil("advise", "toy.npz", "--model", "net.py:Net", "--defence", "none,lapgraph", "--epsilon", 8,
                    "--floor", 0.01, "--runs", 3, "--nodes", 30, "--executor", "serial", "--json", "rows.jsonl",
                    cwd=home)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert models_by_defence(rows_of(home / "rows.jsonl"))["lapgraph"] == {"net.py:Net"}


def test_release_is_attacked_by_whoever_names_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = edgeveil("release", "toy.npz", "--model", "net.py:Net", "--defence", "lapgraph", "--epsilon", 8,
                    "--out", "r", cwd=home)  # fmt: skip
    assert done.returncode == 0, done.stderr
    manifest = json.loads((home / "r" / "manifest.json").read_text())
    assert manifest["model"] == "net.py:Net" and manifest["predictor"]["settings"]["module"]["digest"]
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(own_models, "_known", {})
    silent = edgeveil("attack", "--release", "r", "--truth", "toy.npz", cwd=home)
    assert (
        silent.returncode != 0 and "'net.py:Net' is not here" in silent.stderr and "--plugin FILE.py" in silent.stderr
    )
    told = edgeveil(
        "attack", "--release", "r", "--truth", "toy.npz", "--plugin", "net.py", "--json", "x.jsonl", cwd=home
    )
    assert told.returncode == 0, told.stderr
    assert rows_of(home / "x.jsonl")[0]["auc"] is not None


def test_sweep_in_place_of_the_plans_model_and_again_when_its_code_changes(home: Path) -> None:
    args = ("sweep", "plan.toml", "--model", "net.py:Net", "--executor", "serial", "--out", "s")
    assert "net.py:Net" in edgeveil(*args, "--dry-run", cwd=home).stdout
    assert "3 done now" in edgeveil(*args, cwd=home).stdout
    found = models_by_defence(rows_of(home / "s" / "rows.jsonl"))
    assert found == {"none": {"net.py:Net"}, "lapgraph": {"net.py:Net"}, "mlp": {"mlp"}}
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "net.py").write_text(MODULE + "# moved, and the same\n")
    moved = tuple("elsewhere/net.py:Net" if word == "net.py:Net" else word for word in args)
    assert "0 done now, 3 before" in edgeveil(*moved, cwd=home).stdout
    (home / "elsewhere" / "net.py").write_text(MODULE.replace(".relu()", ".tanh()"))
    again = forked.edgeveil(*moved, cwd=home)  # a new process, as Python imports a file once
    assert again.returncode == 0, again.stderr
    assert "2 done now, 1 before" in again.stdout


def test_a_plan_that_sets_the_width_of_an_own_model_is_refused_before_anything_runs(home: Path) -> None:
    (home / "plan.toml").write_text(PLAN.replace("train_params", "model_params = { hidden = 8 }\ntrain_params"))
    done = edgeveil("sweep", "plan.toml", "--model", "net.py:Net", "--out", "s", cwd=home)
    assert done.returncode == 2 and "hidden is no setting of the own model 'net.py:Net'" in done.stderr
    assert not (home / "s").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("executor", ["processes", "ray"])
@pytest.mark.parametrize("path", ["net.py:Net", "theirs.models:make"])
def test_sweep_in_worker_processes(home: Path, executor: str, path: str) -> None:
    """Workers find the code where the command found it, and the rows are those of one process."""
    if executor == "ray":
        pytest.importorskip("ray")
    found = {}
    for name in ("serial", executor):
        words = ["sweep", "plan.toml", "--model", path, "--executor", name, "--workers", "2", "--out", name]
        env = {key: value for key, value in os.environ.items() if key != VARIABLE}
        done = subprocess.run([sys.executable, "-m", "edgeveil", *words], cwd=home, env=env, capture_output=True,
                              text=True, timeout=500)  # fmt: skip
        assert done.returncode == 0 and "3 done now" in done.stdout, done.stderr
        rows = rows_of(home / name / "rows.jsonl")
        found[name] = sorted((r["defence"], r["model"], r["utility"], r["auc"]) for r in rows)
    assert found["serial"] == found[executor] and {row[1] for row in found["serial"]} == {path, "mlp"}


@pytest.mark.slow
@pytest.mark.data
def test_reproduce(home: Path) -> None:
    done = edgeveil("reproduce", "linkteller:XI", "--quick", "--dataset", "cora", "--model", "net.py:Net", "--seeds", 1,
                    "--executor", "serial", "--cells", "cells.csv", "--json", "rows.jsonl", cwd=home)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "with net.py:Net" in done.stdout and "no cell is judged" in done.stdout and "agree" not in done.stdout
    assert {row["model"] for row in rows_of(home / "rows.jsonl")} == {"net.py:Net"}
    head, *lines = (home / "cells.csv").read_text().splitlines()
    assert head.endswith("our_model") and len(lines) == 3 and all(line.endswith("net.py:Net") for line in lines)


def test_an_entry_point_names_a_factory(home: Path) -> None:
    """An installed package: `[project.entry-points."edgeveil.models"] their-net = "theirs.models:make"`."""
    info = home / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[edgeveil.models]\ntheir-net = theirs.models:make\n")

    def run(*words: str) -> None:
        done = forked.edgeveil(*words, cwd=home)  # finds what is installed in its folder, as on PYTHONPATH
        assert done.returncode == 0, done.stderr

    run("release", "toy.npz", "--model", "their-net", "--defence", "none", "--out", "r")
    source = json.loads((home / "r" / "manifest.json").read_text())["predictor"]["settings"]["module"]
    assert source["name"] == "their-net" and source["version"] == "1.0" and source["digest"]
    run("attack", "--release", "r", "--truth", "toy.npz", "--json", "x.jsonl")
    assert rows_of(home / "x.jsonl")[0]["auc"] is not None
