"""Exports hold the store's rows, in three formats, and fail clearly."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from edgeveil.errors import StorageError, UsageError
from edgeveil.runs.row_files import export, write_table
from edgeveil.runs.rows import FIELDS, Row

ROWS = [
    Row(dataset="cora", defence="lapgraph", epsilon=4.0, params={"a": [1, 2]}, auc=0.5, queries=7, seed=1).to_json(),
    Row(dataset="cora", defence="none", belief="k/4", is_twin=True).to_json(),
]


def test_json_lines(tmp_path: Path) -> None:
    assert export(ROWS, tmp_path / "deep" / "r.jsonl") == 2
    assert [json.loads(line) for line in (tmp_path / "deep" / "r.jsonl").read_text().splitlines()] == ROWS


def test_csv(tmp_path: Path) -> None:
    export(ROWS, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        back = list(csv.DictReader(file))
    assert tuple(back[0]) == FIELDS and json.loads(back[0]["params"]) == {"a": [1, 2]} and back[1]["auc"] == ""


def test_parquet(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    export(ROWS, tmp_path / "r.parquet")
    back = pq.read_table(tmp_path / "r.parquet").to_pylist()
    assert (
        back[0]["queries"] == 7 and back[0]["epsilon"] == 4.0 and back[1]["auc"] is None and back[1]["is_twin"] is True
    )


def test_failures_leave_the_old_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format"):
        export(ROWS, tmp_path / "r.xlsx")
    (tmp_path / "file").write_text("old")
    with pytest.raises(StorageError, match="cannot write"):
        export(ROWS, tmp_path / "file" / "r.csv")
    write_table([{"a": 1, "b": None}], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().split() == ["a,b", "1,"]
