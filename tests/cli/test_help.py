"""Every command's --help ends with an example, and the example runs as it stands, here on a graph of 60 nodes."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from command import edgeveil
from edgeveil.cli.main import build_app
from edgeveil.graph.npz import write_npz
from edgeveil.graph.sources.folders import data_roots
from forked import Child
from zoo import toy

pytestmark = pytest.mark.usefixtures("sketched", "trained_briefly")
MARKS = dict.fromkeys(("audit", "advise", "sweep", "verify", "guard", "reproduce"), pytest.mark.slow)
MARKS |= {"data fetch": [pytest.mark.data, pytest.mark.slow], "data check": pytest.mark.data}
PLAN = """name = "tiny"
seeds = 1

[[grid]]
dataset = ["cora-twin"]
defence = ["mlp"]

[[grid.attack]]
name = "lsa2-attr"
protocol = "sampled"
"""


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, child in getattr(command, "commands", {}).items():
        if getattr(child, "commands", None):
            yield from leaves(child, (*path, name))
        else:
            yield (*path, name), child


COMMANDS = dict(leaves(typer.main.get_command(build_app())))


def examples(command: Any) -> list[str]:
    text = f"{command.help or ''}\n{command.epilog or ''}"
    return [line for line in re.findall(r"(?:: |^ *)(edgeveil [^\n]+)", text, re.MULTILINE) if "NAME" not in line]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny graph under the name cora, the same as own files, and what other commands leave behind."""
    home, graph = tmp_path_factory.mktemp("world") / "checkout", toy()
    assert graph.y is not None
    (home / "cora").mkdir(parents=True)  # a folder with a graph.npz counts before a dataset of that name
    write_npz(graph, home / "cora" / "graph.npz")
    write_npz(graph, home / "graph.npz")
    edges = "\n".join(["source,target", *(f"n{u},n{v}" for u, v in graph.edge_index.T)])
    columns = "id," + ",".join(f"f{j}" for j in range(graph.num_features))
    rows = "\n".join(
        [columns, *(f"n{i}," + ",".join(f"{v:g}" for v in row) for i, row in enumerate(np.asarray(graph.x)))]
    )
    classes = "\n".join(["id,label", *(f"n{i},c{c}" for i, c in enumerate(graph.y))])
    for name, text in {
        "friends": edges,
        "payments": edges,
        "users": rows,
        "customers": rows,
        "classes": classes,
        "segments": classes,
    }.items():
        (home / f"{name}.csv").write_text(text)
    (home / "plan.toml").write_text(PLAN)
    for _, folder in data_roots()[:1]:
        (home.parent / "shared").mkdir()
        (home.parent / "shared" / "data").symlink_to(folder)
    for words in (
        "release cora --defence none --out cora-none",
        "release cora --defence lapgraph --epsilon 4 --out cora-lapgraph --ledger ledger.db",
        "audit cora --defence none,mlp --attack lsa2-attr --runs 1 --coins 0 --executor serial --out audit",
        "keys add bob",
    ):
        run(home, words)
    return home


def run(home: Path, words: str, code: int = 0) -> str:
    done = edgeveil(*shlex.split(words), cwd=home, EDGEVEIL_CACHE=str(home / "cache"))
    assert done.returncode == code, f"edgeveil {words}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(COMMANDS), ids=" ".join)
def test_help_has_an_example_of_this_command(path: tuple[str, ...]) -> None:
    found = examples(COMMANDS[path])
    assert found and all(line.startswith(f"edgeveil {' '.join(path)}") for line in found), found


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, marks=MARKS.get(p[0], ()) or MARKS.get(" ".join(p), ()))
        for p in sorted(COMMANDS)
        if p != ("serve",)
    ],
    ids=" ".join,
)
def test_the_first_example_runs(path: tuple[str, ...], world: Path) -> None:
    line = examples(COMMANDS[path])[0].removeprefix("edgeveil ").rstrip(".")
    if path == ("keys", "revoke"):
        known = re.search(r"\b[0-9a-f]{16}\b", run(world, "keys list"))
        assert known is not None
        line = re.sub(r"[0-9a-f]{16}", known[0], line)
    home = world
    if path == ("release",):  # spends epsilon, so it never overwrites the release that is there
        home = world / "fresh"
        shutil.copytree(world / "cora", home / "cora")
    run(home, line)


def test_a_folder_of_data_that_is_not_there_is_never_replaced_by_another(world: Path) -> None:
    assert "nowhere" in run(world, "data check --data-root nowhere", code=2)


def test_the_example_of_serve_answers(world: Path) -> None:
    words = shlex.split(examples(COMMANDS["serve",])[0])
    log = world / "serve.log"
    log.touch()
    child = Child(*words, "--port", 0, cwd=world, out=log)
    try:
        deadline = time.monotonic() + 60
        while "http" not in log.read_text() and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        address = re.search(r"http://[\d.:]+", log.read_text())
        assert address is not None, log.read_text()
        with urllib.request.urlopen(f"{address[0]}/healthz", timeout=10) as answer:
            assert answer.status == 200
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


def test_edgeveil_alone_suggests_three_paths(tmp_path: Path) -> None:
    done = edgeveil(cwd=tmp_path)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 0
    for part in (
        "You own a graph",
        "edgeveil audit",
        "You compare methods",
        "edgeveil reproduce",
        "You extend it",
        "--plugin",
        "edgeveil --help",
    ):
        assert part in said
    assert "Commands" in edgeveil("--help", cwd=tmp_path).stdout
