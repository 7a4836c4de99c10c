"""release, keys, serve and attack together, as a user types them."""

from __future__ import annotations

import csv
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import edgeveil as ev
from edgeveil.cli.main import build_app
from edgeveil.errors import UsageError
from edgeveil.graph.npz import write_npz

APP = build_app()


def run(*words: Any) -> Any:
    result = CliRunner().invoke(APP, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph on disk and an undefended release of it."""
    folder = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    edges = np.unique(np.sort(rng.integers(0, 60, (2, 130)), axis=0), axis=1)
    edges = edges[:, edges[0] < edges[1]]
    graph = ev.Graph.from_edges(edges, x=rng.standard_normal((60, 8)) + y[:, None], y=y, name="small")
    write_npz(graph, folder / "graph.npz")
    with (folder / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["u", "v"], *graph.edge_index.T.tolist()])
    assert (
        run("release", folder / "graph.npz", "--defence", "none", "--seed", 0, "--out", folder / "open").exit_code == 0
    )
    return folder


def test_release_says_what_it_promises_and_never_overwrites(home: Path) -> None:
    out = home / "private"
    done = run("release", home / "graph.npz", "--defence", "lapgraph", "--epsilon", 3, "--out", out)
    assert "epsilon 3" in done.output and "3-differential privacy" in done.output
    assert ev.Release.load(out).guarantee.randomness == "operating-system entropy"
    with pytest.raises(UsageError, match="spends epsilon again"):
        run("release", home / "graph.npz", "--defence", "lapgraph", "--epsilon", 3, "--out", out)
    deep = run(
        "release", home / "graph.npz", "--defence", "lpgnet", "--epsilon", 3, "--set", "layers=1", "--out", home / "l"
    )
    assert deep.exit_code == 0 and ev.Release.load(home / "l").params["layers"] == 1
    with pytest.raises(UsageError, match="NAME=VALUE"):
        run("release", home / "graph.npz", "--defence", "mlp", "--set", "layers", "--out", home / "m")


def test_attack_a_release_with_truth_from_graph_or_csv(home: Path) -> None:
    rows = {}
    for truth in ("graph.npz", "edges.csv"):
        out = home / f"{truth}.jsonl"
        run("attack", "--release", home / "open", "--truth", home / truth, "--nodes", "all", "--json", out,
            "--attack", "linkteller,lsa2-post")  # fmt: skip
        rows[truth] = [json.loads(line) for line in out.read_text().splitlines()]
    first, second = rows["graph.npz"][0], rows["edges.csv"][0]
    assert first["attack"] == "linkteller" and first["access"] == "white-box" and first["auc"] > 0.9
    assert first["auc"] == second["auc"] and first["n_edges"] == second["n_edges"]


def test_attack_without_truth_writes_scores(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("attack", "--release", home / "open", "--nodes", "20")
    assert "auc" not in done.output
    with (tmp_path / "scores.csv").open() as file:
        table = list(csv.DictReader(file))
    scores = [float(row["score"]) for row in table]
    assert len(scores) == 190 and scores == sorted(scores, reverse=True)


def test_bad_usage(home: Path) -> None:
    for words, match in (
        (("attack",), "either --release"),
        (("attack", "--release", home / "open", "--url", "http://x"), "either --release"),
        (("attack", "--release", home / "open", "--nodes", "1"), "at least two"),
        (("attack", "--release", home / "open", "--nodes", "a,b"), "--nodes"),
        (("attack", "--release", home / "open", "--features", home / "none.npy"), "no features"),
    ):
        with pytest.raises(UsageError, match=match):
            run(*words)


def test_keys_add_list_revoke(tmp_path: Path) -> None:
    state = ("--state", tmp_path / "state")
    made = run("keys", "add", "bob", "--queries", 5, "--days", 30, "--note", "test", *state)
    key = made.stdout.strip()
    assert key.startswith("ev_") and "shown only now" in made.stderr
    listed = json.loads(run("keys", "list", "--json", *state).stdout)
    assert listed["tenant"] == "bob" and listed["state"] == "active" and key not in str(listed)
    assert "revoked" in run("keys", "revoke", listed["id"], *state).stdout
    assert "revoked" in run("keys", "list", *state).stdout
    assert "latest time seen" in run("keys", "clock", *state).stdout
    assert "clock reset" in run("keys", "clock", "--reset", *state).stdout


@pytest.fixture
def url(home: Path, tmp_path: Path) -> Any:
    from edgeveil.serve.config import load_settings
    from edgeveil.serve.server import make_server

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    settings = load_settings(
        release=home / "open", state=tmp_path / "state", output="logits", changed_features=True, guard={"action": "off"}
    )
    server = make_server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(15)
    listener.close()


def test_attack_a_live_server_and_resume(home: Path, url: str, tmp_path: Path) -> None:
    key = run("keys", "add", "bob", "--state", tmp_path / "state").stdout.strip()
    words = ("--features", home / "open", "--truth", home / "edges.csv", "--nodes", "30", "--attack", "linkteller")
    far, near = tmp_path / "far.jsonl", tmp_path / "near.jsonl"
    live = ("--url", url, "--key", key, "--transcript", tmp_path / "t.bin")
    run("attack", *live, *words, "--json", far)
    run("attack", "--release", home / "open", "--mode", "query", *words, "--json", near)
    a, b = json.loads(far.read_text()), json.loads(near.read_text())
    assert a["queries"] == b["queries"] == 31 and a["access"] == "black-box"
    assert a["auc"] == pytest.approx(b["auc"]) and a["f1"] == pytest.approx(b["f1"])
    again = tmp_path / "again.jsonl"
    before = (tmp_path / "t.bin").stat().st_size
    run("attack", *live, *words, "--json", again)
    assert json.loads(again.read_text())["auc"] == a["auc"]
    assert (tmp_path / "t.bin").stat().st_size == before  # nothing was asked twice


def test_guard_picks_a_limit(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    line = {"event": "request", "route": "/v1/predict", "status": 200, "tenant": "a", "computed": True}
    log.write_text("".join(json.dumps({**line, "tenant": t}) + "\n" for t in "abcc" * 4))
    done = run("guard", "--release", home / "open", "--truth", home / "graph.npz", "--traffic", log, "--nodes", 40,
               "--limits", "6,20,40")  # fmt: skip
    assert "chosen: Q = 20" in done.stdout and "without a guarantee" in done.stderr
