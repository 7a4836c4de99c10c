"""``edgeveil sweep`` and ``edgeveil reproduce`` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import edgeveil
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import write_npz

PLAN = """
name = "small"
seeds = 2

[[grid]]
dataset = "{path}"
defence = ["none", "lapgraph"]
epsilon = [2, 8]
train_params = {{ epochs = 5 }}

[[grid.attack]]
nodes = 50
beliefs = ["k"]
"""

LINKTELLER = [
    "I",
    "II",
    "III",
    "V",
    "VI",
    "VII",
    "VIII",
    "IX",
    "X",
    "XI",
    "XII(a)",
    "XII(b)",
    "XIII",
    "XIV",
    "XV",
    "XVI",
    "XVII",
    "XVIII",
    "XIX",
    "XX",
    "XXI",
    "XXII",
    "XXIII",
    "XXIV",
    "XXV",
    "XXVI",
    "Fig3",
    "Fig4",
]
LPGNET = ["1", "2", *map(str, range(6, 25)), "Fig2", "Fig3", "Fig5", "Fig6", "Fig7", "Fig8"]
GRAPHPRIVATIZER = ["1(a)", "1(b)", "2", "3(a)", "3(b)", *map(str, range(5, 13)), *(f"Fig{n}" for n in range(4, 16))]


@pytest.fixture
def plan(tmp_path: Path, toy: Graph) -> Path:
    write_npz(toy, tmp_path / "toy.npz")
    (tmp_path / "plan.toml").write_text(PLAN.format(path=tmp_path / "toy.npz"))
    return tmp_path / "plan.toml"


def test_a_sweep_runs_resumes_and_exports(plan: Path, tmp_path: Path) -> None:
    first = edgeveil("sweep", str(plan), "--out", "o", "--export", "o/r.csv", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "6 runs: 6 done now, 0 before, 0 failed" in first.stdout and "6/6 runs" in first.stderr
    rows = [json.loads(line) for line in (tmp_path / "o" / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 6 and {r["defence"] for r in rows} == {"none", "lapgraph"}
    assert len((tmp_path / "o" / "r.csv").read_text().splitlines()) == 7
    again = edgeveil("sweep", str(plan), "--out", "o", "--executor", "serial", "--json", "x.jsonl", cwd=tmp_path)
    assert (
        "0 done now, 6 before" in again.stdout
        and (tmp_path / "x.jsonl").read_text() == (tmp_path / "o/rows.jsonl").read_text()
    )


def test_a_failing_grid_lists_its_failures_and_the_way_back(plan: Path, tmp_path: Path) -> None:
    plan.write_text(plan.read_text() + '\n[[grid]]\ndataset = "no-such-graph"\ndefence = "none"\n')
    out = edgeveil("sweep", str(plan), "--out", "o", "--executor", "serial", cwd=tmp_path)
    assert out.returncode == 1 and "6 done now" in out.stdout and "2 failed" in out.stdout
    assert "unknown dataset 'no-such-graph'" in out.stderr and "--only-failed" in out.stderr


def test_dry_run_and_mistakes(plan: Path, tmp_path: Path) -> None:
    dry = edgeveil("sweep", str(plan), "--dry-run", cwd=tmp_path)
    assert dry.returncode == 0 and dry.stdout.strip().endswith("6 runs")
    plan.write_text(plan.read_text().replace("epsilon", "epsilom"))
    bad = edgeveil("sweep", str(plan), cwd=tmp_path)
    assert bad.returncode == 2 and "Did you mean 'epsilon'" in bad.stderr and "Traceback" not in bad.stderr
    assert edgeveil("sweep", cwd=tmp_path).returncode == 2


def test_reproduce_lists_tables_and_refuses_unknown_ones(tmp_path: Path) -> None:
    listed = edgeveil("reproduce", "--list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    lines = {line.split()[0]: line.split()[1:] for line in listed.stdout.splitlines()}
    names = [f"linkteller:{t}" for t in LINKTELLER] + [f"lpgnet:{t}" for t in LPGNET]
    names += [f"graphprivatizer:{t}" for t in GRAPHPRIVATIZER]
    assert set(names) <= lines.keys(), set(names) - lines.keys()
    head = listed.stdout.splitlines()[0]
    assert head.split() == ["table", "printed", "runnable", "measured", "agree", "left", "quick", "default", "full"]
    times = {line.split()[0]: line[70:97].split() for line in listed.stdout.splitlines()}
    for name in names:
        assert "-" not in times[name], f"{name}: no time in some mode: {times[name]}"
    assert lines["lpgnet:1"][:6] == ["10", "10", "10", "10", "of", "10"]
    assert "cannot be run: an average over all datasets" in " ".join(lines["graphprivatizer:text:5.1"])
    bad = edgeveil("reproduce", "lpgnet:99", cwd=tmp_path)
    assert bad.returncode == 2 and "table of lpgnet" in bad.stderr
    assert edgeveil("reproduce", "lpgnet:7", "--quick", "--full", cwd=tmp_path).returncode == 2


def test_a_budget_takes_a_paper_and_refuses_what_it_would_ignore(tmp_path: Path) -> None:
    bad = edgeveil("reproduce", "lpgnet", "--budget", "1h", "--quick", "--seeds", "3", cwd=tmp_path)
    assert bad.returncode == 2 and "leave out --quick, --seeds" in bad.stderr
    assert edgeveil("reproduce", "lpgnet", "--budget", "soon", cwd=tmp_path).returncode == 2
    done = edgeveil("reproduce", "linkteller:text:F6", "--budget", "5s", "--executor", "serial", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0 runs" in done.stdout and "nothing telling is left" in done.stdout  # its graph cannot be had
