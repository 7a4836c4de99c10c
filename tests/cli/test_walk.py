"""The walk of an audit in docs/architecture.md is the way a real one takes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import edgeveil
from edgeveil.cli.main import main
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import write_npz
from test_house import walks

PACKAGE = str(Path(edgeveil.__file__).parent)


def test_an_audit_passes_its_stations_in_order(tmp_path: Path, toy: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    write_npz(toy, tmp_path / "toy.npz")
    words = ["audit", str(tmp_path / "toy.npz"), "--defence", "lapgraph", "--epsilon", "4", "--attack", "linkteller",
             "--executor", "serial", "--out", str(tmp_path / "out")]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["edgeveil", *words])
    first: dict[tuple[str, str], int] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            module = code.co_filename.removeprefix(PACKAGE + "/").removesuffix(".py")
            first.setdefault((module, code.co_name), len(first))

    sys.setprofile(note)
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        sys.setprofile(None)
    assert end.value.code in (0, None)
    stations = walks()["`edgeveil audit`"]
    assert not [station for station in stations if station not in first]
    assert [first[station] for station in stations] == sorted(first[station] for station in stations)
