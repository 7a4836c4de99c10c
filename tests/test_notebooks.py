"""The notebooks in examples/ run, and show what they are stored with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.zoo import toy

import edgeveil as ev
from edgeveil.audits.advise import Advice, Choice
from edgeveil.errors import MissingExtra
from edgeveil.runs.store import Store

ROOT = Path(__file__).parents[1]
BOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
sys.path.append(str(ROOT / "scripts"))


@pytest.mark.parametrize("path", BOOKS, ids=lambda p: p.stem)
def test_notebooks_run_and_show_what_they_are_stored_with(path: Path) -> None:
    pytest.importorskip("torch_geometric", reason="extra pyg is not installed")
    from notebook import run

    stored = path.read_text(encoding="utf-8")
    assert run(path, check=True) == [] and path.read_text(encoding="utf-8") == stored
    cells = [c for c in json.loads(stored)["cells"] if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in cells] == list(range(1, len(cells) + 1))
    assert sum(bool(c["outputs"]) for c in cells) >= 3


def test_there_are_two() -> None:
    assert [p.stem for p in BOOKS] == ["own_pyg_model", "own_tables"]


def test_tables_for_notebooks_escape_names() -> None:
    graph = ev.Graph.from_edges([[0, 1], [1, 1]], name="<b>graph</b>", num_nodes=3)
    shown = graph._repr_html_()
    assert "&lt;b&gt;graph" in shown and "public" in shown and "1 self-loops" in shown
    result = ev.attack(ev.defend(toy(), "mlp", seed=0), "lsa2-attr", nodes=np.arange(20))
    page = result._repr_html_()
    assert page.count("<tr>") == 11 and f"{result.scores.max():.4g}" in page
    choice = Choice("lapgraph", 4.0, "sound", 0.8, 0.01, utility=0.7)
    shown = Advice(0.5, "the floor you gave", [choice], words=["say <this>"])._repr_html_()
    assert "lapgraph" in shown and "unknown" in shown and "say &lt;this&gt;" in shown


def test_rows_as_a_data_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="extra pandas is not installed")
    ev.audit(
        toy(), defences=["none"], epsilons=[], attacks=["lsa2-attr"], nodes=20, runs=1, keep=tmp_path / "store.sqlite"
    )
    with Store(tmp_path / "store.sqlite") as store:
        frame, rows = store.to_pandas(), list(store.rows())
        assert len(frame) == len(rows) and set(frame["defence"]) == {"none"}
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtra, match=r"edgeveil\[pandas\]"):
            store.to_pandas()
