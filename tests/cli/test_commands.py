"""Commands as a user runs them: exit codes, messages, files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from command import edgeveil as run
from forked import Child
from zoo import toy

pytestmark = pytest.mark.usefixtures("sketched", "trained_briefly")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small graph as own files, with string ids."""
    folder, graph = tmp_path_factory.mktemp("own"), toy()
    assert graph.y is not None
    lines = ["source,target", *(f"n{u},n{v}" for u, v in graph.edge_index.T)]
    (folder / "edges.csv").write_text("\n".join(lines))
    rows = [f"n{i}," + ",".join(f"{value:g}" for value in row) for i, row in enumerate(np.asarray(graph.x))]
    (folder / "features.csv").write_text(
        "\n".join(["id," + ",".join(f"f{j}" for j in range(graph.num_features)), *rows])
    )
    (folder / "one.csv").write_text("\n".join(["id,label", *(f"n{i},same" for i in range(graph.num_nodes))]))
    (folder / "empty.csv").write_text("source,target\n")
    (folder / "bytes.csv").write_bytes(bytes(range(128, 256)))
    (folder / "few.csv").write_text("id,f0\nn0,1\n")
    (folder / "labels.csv").write_text("\n".join(["id,label", *(f"n{i},class{c}" for i, c in enumerate(graph.y))]))
    return folder


OWN = ("--edges", "edges.csv", "--features", "features.csv", "--labels", "labels.csv")


def test_audit_of_own_files_writes_table_rows_and_report(files: Path) -> None:
    done = run("audit", *OWN, "--defence", "none,mlp,lapgraph", "--epsilon", "4", "--attack", "linkteller,lsa2-attr",
               "--out", "out", "--json", "rows.jsonl", "--exposed", "exposed.csv", "--executor", "serial", "--runs", 1,
               "--id-column", "id", "--label-column", "label", "--header", cwd=files)  # fmt: skip
    assert done.returncode == 0, done.stderr
    carried = f"edgeveil release {' '.join(OWN)} --id-column id --label-column label --header --defence"
    assert carried in done.stdout and carried in (files / "out" / "report.html").read_text()
    assert "LapGraph ε=4" in done.stdout and "gives away" in done.stdout
    assert "every run draws 50:25:25" in done.stderr and "all of them are attacked" in done.stderr
    assert (files / "out" / "report.html").is_file()
    rows = [json.loads(line) for line in (files / "rows.jsonl").read_text().splitlines()]
    assert {r["defence"] for r in rows} == {"none", "mlp", "lapgraph"}
    exposed = (files / "exposed.csv").read_text()
    assert "n1," in exposed and "n1," not in (files / "out" / "report.html").read_text()
    again = run("report", "out", "--out", "again.html", cwd=files)
    assert again.returncode == 0 and (files / "again.html").read_text() == (files / "out" / "report.html").read_text()


def test_a_release_prints_its_split_and_its_utility(files: Path) -> None:
    done = run("release", *OWN, "--defence", "lapgraph", "--epsilon", "4", "--seed", "0", "--out", "rel", cwd=files)
    assert done.returncode == 0, done.stderr
    assert "split 50:25:25 (30 train, 15 val, 15 test nodes); micro_f1 on test nodes 0." in done.stderr


def test_advise_on_own_files(files: Path) -> None:
    done = run("advise", *OWN, "--defence", "lapgraph,lpgnet-1", "--epsilon", "2,8", "--nodes", "40", "--out", "adv",
               "--executor", "serial", "--runs", 1, cwd=files)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Choosing has a price" in done.stdout and "epsilon 20" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("audit", "cora-twinn"), "cora-twin"),
        (("audit", "cora-twin", "--epsilon", "0"), "epsilon must be > 0"),
        (("audit", "cora-twin", "--epsilon", "a,b"), "not a number"),
        (("audit", "cora-twin", "--defence", "lapgrph"), "lapgraph"),
        (("audit", "--edges", "missing.csv"), "missing.csv"),
        (("audit", "cora-twin", "--edges", "edges.csv"), "not both"),
        (("audit", "cora-twin", "--release", "a", "--url", "b"), "one of"),
        (("audit", *OWN, "--model", "gcnn"), "unknown model"),
        (("audit", *OWN, "--attack", "linktellr"), "unknown attack"),
        (("audit", *OWN, "--preset", "lptgnet"), "unknown paper"),
        (("audit", *OWN, "--executor", "cluster"), "unknown executor"),
        (("audit", "--edges", "edges.csv", "--labels", "labels.csv"), "no features"),
        (("audit", "--edges", "edges.csv", "--features", "features.csv"), "no labels"),
        (("audit", *OWN[:4], "--labels", "one.csv"), "one class only"),
        (("audit", "--edges", "empty.csv", *OWN[2:]), "no edges"),
        (("audit", "--edges", "bytes.csv", *OWN[2:]), "not UTF-8"),
        (("audit", "--edges", "edges.csv", "--features", "few.csv"), "every node needs features"),
        (("audit", *OWN, "--release", "nowhere"), "not a release"),
        (("audit", *OWN, "--callable", "math"), "pkg.module:name"),
        (("audit", *OWN, "--callable", "math:nothing"), "cannot find"),
        (("audit", *OWN, "--url", "nowhere"), "no address"),
        (("advise", *OWN, "--attack", "linktellr"), "unknown attack"),
        (("advise", *OWN, "--epsilon", "-1"), "epsilon must be > 0"),
        (("attack", "--release", "nowhere"), "not a release"),
        (("report", "nowhere"), "neither"),
        (("report", "edges.csv"), "damaged"),
    ],
)
def test_bad_usage_is_one_clear_sentence_and_code_two(files: Path, args: tuple[str, ...], word: str) -> None:
    done = run(*args, "--out", "x", cwd=files) if args[0] == "audit" else run(*args, cwd=files)
    assert done.returncode == 2, done.stderr
    assert word in done.stderr and "Traceback" not in done.stderr
    assert sum(line.startswith("error: ") for line in done.stderr.splitlines()) == 1


@pytest.mark.fast("processes")
@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_an_interrupt_keeps_what_is_finished_and_says_how_to_go_on(files: Path, executor: str) -> None:
    words = ["audit", *OWN, "--defence", "none,mlp,lapgraph", "--epsilon", "1,2,4", "--out", executor, "--runs", "1",
             "--attack", "linkteller", "--executor", executor, "--workers", "1"]  # fmt: skip
    kept = files / executor / "store.sqlite.log"
    said_there = files / f"{executor}.err"
    child = Child("edgeveil", *words, cwd=files, out=files / f"{executor}.out", err=said_there)
    until = time.monotonic() + 120
    while not (kept.is_file() and "\n" in kept.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    code, said = child.wait(60), said_there.read_text()
    finished = len(kept.read_text().splitlines())
    assert code == 130 and "Traceback" not in said and 1 <= finished < 5
    assert f"{finished} of 5 runs are finished" in said and "run the same command again" in said
    again = run(*words, cwd=files)
    assert again.returncode == 0 and f"5 runs, {finished} finished before" in again.stderr


def test_every_command_has_help_with_an_example(tmp_path: Path) -> None:
    listing = run("--help", cwd=tmp_path).stdout
    commands = [line.split()[1] for line in listing.splitlines() if line.startswith("│ ") and line[2].isalpha()]
    assert {"audit", "advise", "report", "data", "perturb", "verify"} <= set(commands)
    for command in commands:
        done = run(command, "--help", cwd=tmp_path)
        assert done.returncode == 0 and (command in ("data", "keys", "ledger") or "xample" in done.stdout), command


def test_the_module_and_its_exit_codes_from_a_shell(tmp_path: Path) -> None:
    for words, code in ((["--version"], 0), (["data", "info", "cora-twinn"], 2)):
        done = subprocess.run([sys.executable, "-m", "edgeveil", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code and "Traceback" not in done.stderr
