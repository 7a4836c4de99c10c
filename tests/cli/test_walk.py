"""The three walks of docs/architecture.md are the ways that real audits, tables and predictions take."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import edgeveil
import edgeveil as ev
from edgeveil.cli import reproduce_command
from edgeveil.cli.main import main
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import write_npz
from edgeveil.papers import recipes
from test_house import walks

pytestmark = pytest.mark.usefixtures("sketched", "trained_briefly")
PACKAGE = str(Path(edgeveil.__file__).parent)
Calls = dict[tuple[str, str], int]


@contextmanager
def traced() -> Iterator[Calls]:
    """When each function of the package was first called, in this thread and in those started meanwhile."""
    first: Calls = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            module = code.co_filename.removeprefix(PACKAGE + "/").removesuffix(".py")
            first.setdefault((module, code.co_name), len(first))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield first
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def check(walk: str, first: Calls) -> None:
    stations = walks()[walk]
    assert not [station for station in stations if station not in first]
    assert [first[station] for station in stations] == sorted(first[station] for station in stations)


def edgeveil_traced(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Calls:
    monkeypatch.setattr(sys, "argv", ["edgeveil", *words])
    with traced() as first, pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None)
    return first


def test_an_audit_passes_its_stations_in_order(tmp_path: Path, toy: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    write_npz(toy, tmp_path / "toy.npz")
    words = ["audit", str(tmp_path / "toy.npz"), "--defence", "lapgraph", "--epsilon", "4", "--attack", "linkteller",
             "--executor", "serial", "--out", str(tmp_path / "out"), "--runs", "1"]  # fmt: skip
    check("`edgeveil audit`", edgeveil_traced(words, monkeypatch))


def test_a_printed_table_passes_its_stations_in_order(
    tmp_path: Path, toy: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipes, "_every_cell", cache(recipes._every_cell.__wrapped__))  # as in a new process
    monkeypatch.setattr(reproduce_command, "load_graph", lambda name, **_: toy.named(name))  # a small graph as Cora
    words = ["reproduce", "linkteller:XI", "--quick", "--seeds", "1", "--dataset", "cora", "--variant", "published",
             "--executor", "serial", "--out", str(tmp_path)]  # fmt: skip
    check("`edgeveil reproduce`", edgeveil_traced(words, monkeypatch))


def test_a_prediction_over_http_passes_its_stations_in_order(tmp_path: Path, toy: Graph) -> None:
    pytest.importorskip("fastapi", reason="extra serve is not installed")
    from edgeveil.models.settings import TrainSpec
    from edgeveil.serve.config import load_settings
    from serve.conftest import launch

    release = ev.defend(toy, "none", seed=0, train=TrainSpec(epochs=2))
    settings = load_settings(state=tmp_path / "state", release=tmp_path / "release", changed_features=True,
                             guard={"cross_readings": 8, "cross_readings_all": 8})  # fmt: skip
    with traced() as first:
        server = launch(release, settings)
        try:
            key, row = server.key(), (release.matrix.rows([3]) + 0.5).tolist()
            first.clear()  # what starting the server called
            answer = server.post("/v1/predict", key, json={"nodes": [3], "features": row, "answer": [3, 4]})
        finally:
            server.stop()
    assert answer.status_code == 200, answer.text
    check("One HTTP prediction", first)
