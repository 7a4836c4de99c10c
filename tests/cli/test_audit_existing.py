"""Auditing a model somebody else trained: a saved release, a live server, a Python function; no labels anywhere."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import edgeveil as run
from forked import Child
from zoo import toy

pytestmark = pytest.mark.usefixtures("sketched", "trained_briefly")
TRUTH = ("--edges", "edges.csv", "--features", "features.csv")
MODEL = """
import numpy as np

EDGES = np.load("edges.npy")

def predict(x):
    \"\"\"One round of summing over neighbours.\"\"\"
    x = np.asarray(x.todense() if hasattr(x, "todense") else x, float)
    out = x.copy()
    np.add.at(out, EDGES[0], x[EDGES[1]])
    np.add.at(out, EDGES[1], x[EDGES[0]])
    return out
"""


def figures(path: Path) -> dict[str, dict[str, Any]]:
    """The row of each attack at belief k."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["attack"]: row for row in rows if row["belief"] == "k"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own files with names, features in another order than the edges, and an undefended release of them."""
    folder, graph = tmp_path_factory.mktemp("existing"), toy()
    names = [f"p{(7 * i) % 60:02d}" for i in range(60)]
    assert graph.y is not None and graph.x is not None
    x = np.asarray(graph.x.todense() if hasattr(graph.x, "todense") else graph.x)
    (folder / "edges.csv").write_text(
        "source,target\n" + "".join(f"{names[u]},{names[v]}\n" for u, v in graph.edge_index.T)
    )
    head = "id," + ",".join(f"f{j}" for j in range(x.shape[1]))
    lines = [f"{name}," + ",".join(f"{value:g}" for value in row) for name, row in zip(names, x, strict=True)]
    (folder / "features.csv").write_text("\n".join([head, *lines]))
    (folder / "labels.csv").write_text(
        "id,label\n" + "".join(f"{n},c{c}\n" for n, c in zip(names, graph.y, strict=True))
    )
    (folder / "owner_model.py").write_text(MODEL)
    np.save(folder / "edges.npy", graph.edge_index)
    done = run(
        "release", *TRUTH, "--labels", "labels.csv", "--defence", "none", "--seed", "0", "--out", "open", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[tuple[str, str]]:
    """`edgeveil serve` on a loopback socket, with a key; answers are logits and the guard is off."""
    pytest.importorskip("fastapi")
    (home / "serve.toml").write_text('output = "logits"\nchanged_features = true\n[guard]\naction = "off"\n')
    key = run("keys", "add", "reviewer", "--state", "state", cwd=home).stdout.strip()
    log = home / "serve.log"
    log.touch()
    words = ("serve", "open", "--state", "state", "--config", "serve.toml", "--port", "0")
    child = Child("edgeveil", *words, cwd=home, out=log)
    try:
        until = time.monotonic() + 120
        while " on http" not in log.read_text() and time.monotonic() < until:
            assert child.poll() is None, log.read_text()
            time.sleep(0.05)
        yield re.findall(r" on (http\S+)", log.read_text())[0], key
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


@pytest.fixture(scope="module")
def from_release(home: Path) -> subprocess.CompletedProcess[str]:
    return run("audit", *TRUTH, "--release", "open", "--out", "by-release", "--exposed", "found.csv", cwd=home)


def test_a_release_is_audited_without_labels_or_training(
    home: Path, from_release: subprocess.CompletedProcess[str]
) -> None:
    done = from_release
    assert done.returncode == 0, done.stderr
    assert "This release (no defence) gives away" in done.stdout and "runs" not in done.stdout + done.stderr
    rows = figures(home / "by-release" / "rows.jsonl")
    assert {"linkteller", "linkteller-grouped", "lsa2-post", "lsa2-attr"} <= set(rows)
    assert rows["linkteller"]["auc"] > 0.95 and rows["linkteller"]["utility"] is None
    page = (home / "by-release" / "report.html").read_text()
    assert "figure-budget" in page and "figure-tradeoff" not in page and "sweet spot" not in page
    assert "p07" in (home / "found.csv").read_text() and "p07" not in page


def test_attacking_the_release_later_gives_the_same_numbers(
    home: Path, from_release: subprocess.CompletedProcess[str]
) -> None:
    truth = ("--truth", "edges.csv", "--nodes", "all", "--json", "later.jsonl")
    audited = figures(home / "by-release" / "rows.jsonl")["linkteller"]
    for more in ((), ("--ids", "features.csv")):  # a release knows the names of its nodes
        done = run("attack", "--release", "open", *truth, *more, cwd=home)
        assert done.returncode == 0, done.stderr
        later = json.loads((home / "later.jsonl").read_text())
        for key in ("auc", "average_precision", "precision", "recall", "tpr_at_fpr_001", "n_edges"):
            assert later[key] == pytest.approx(audited[key], abs=1e-9), key


def test_names_without_an_order_are_refused(home: Path, server: tuple[str, str]) -> None:
    url, key = server
    done = run("audit", "--edges", "edges.csv", "--url", url, "--key", key, "--out", "x", cwd=home)
    assert done.returncode == 2 and "in which order" in done.stderr


def test_a_release_knows_the_order_of_its_nodes(home: Path, from_release: subprocess.CompletedProcess[str]) -> None:
    """The edge list alone numbers its nodes in another order than the release does."""
    done = run("audit", "--edges", "edges.csv", "--release", "open", "--out", "by-edges", cwd=home)
    assert done.returncode == 0, done.stderr
    alone, both = (figures(home / name / "rows.jsonl") for name in ("by-edges", "by-release"))
    assert alone["linkteller"]["auc"] == pytest.approx(both["linkteller"]["auc"], abs=1e-9)


def test_a_live_server_is_audited(
    home: Path, server: tuple[str, str], from_release: subprocess.CompletedProcess[str]
) -> None:
    url, key = server
    words = ("audit", *TRUTH, "--url", url, "--key", key, "--queries", 20)
    done = run(*words, "--model-features", "open", "--out", "by-url", cwd=home)
    assert done.returncode == 0, done.stderr
    far, near = (figures(home / name / "rows.jsonl") for name in ("by-url", "by-release"))
    unknown = {"flat-answers"}  # of a server nobody can tell that it keeps no counts; of a release at hand one can
    assert {"linkteller", "linkteller-grouped", "lsa2-post", "lsa2-attr"} <= set(far) <= set(near) | unknown
    assert far["linkteller"]["queries"] == 61 and far["linkteller-grouped"]["queries"] <= 21
    for name in ("lsa2-post", "lsa2-attr", "linkteller"):
        assert far[name]["auc"] == pytest.approx(near[name]["auc"], abs=0.01), name
    assert far["linkteller"]["status"] == near["linkteller"]["status"] and far["linkteller"]["defence"] == "unknown"
    page = (home / "by-url" / "report.html").read_text()
    assert "Stated, not checked" in page
    assert (
        "asks 61 queries" in done.stdout and key not in page and key not in (home / "by-url" / "audit.json").read_text()
    )


def test_without_the_servers_features_only_the_answers_are_used(home: Path, server: tuple[str, str]) -> None:
    url, key = server
    done = run("audit", *TRUTH, "--url", url, "--out", "blind", cwd=home, EDGEVEIL_KEY=key)
    assert done.returncode == 0, done.stderr
    assert set(figures(home / "blind" / "rows.jsonl")) == {"lsa2-post"}
    assert "not run" in done.stderr and "not run" in (home / "blind" / "report.html").read_text()


def test_a_wrong_key_fails_in_one_sentence(home: Path, server: tuple[str, str]) -> None:
    done = run("audit", *TRUTH, "--url", server[0], "--key", "ev_wrong", "--out", "x", cwd=home)
    assert done.returncode == 1 and "refused" in done.stderr and "Traceback" not in done.stderr


def test_a_function_in_the_current_folder_is_audited(home: Path) -> None:
    done = run(
        "audit", *TRUTH, "--callable", "owner_model:predict", "--out", "by-function", "--queries", "30", cwd=home
    )
    assert done.returncode == 0, done.stderr
    rows = figures(home / "by-function" / "rows.jsonl")
    assert rows["linkteller"]["auc"] > 0.99 and rows["linkteller"]["queries"] == 61
    assert "This model gives away 100 % of the edges" in done.stdout and "promises nothing" in done.stdout
