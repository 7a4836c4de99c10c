"""A paper's table with somebody else's model: the same runs but for the model, labelled, and never an agreement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.papers.test_reproduce import Printed, load_twitch

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.papers.books import BOOKS
from edgeveil.papers.draw import draw_figure
from edgeveil.papers.other_model import cell_with, swap_to
from edgeveil.papers.render import cell_rows, headline, text
from edgeveil.papers.reproduce import needed, reproduce
from edgeveil.runs.run_config import RunConfig
from edgeveil.runs.store import Store

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_pyg_model.py"
pytest.importorskip("torch_geometric", reason="extra pyg is not installed")


def test_no_cell_is_judged_and_every_line_names_the_model(tmp_path: Path, toy: Graph) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        plain = reproduce("linkteller:II", store, Printed(), load_twitch(toy), mode="quick")
        other = reproduce("linkteller:II", store, Printed(), load_twitch(toy), mode="quick", model=f"{EXAMPLE}:MyGIN")
    assert plain.agreement()[1] > 0 and other.agreement() == (0, 0) == other.agreement("correct")
    assert other.model == "own_pyg_model.py:MyGIN" and len(other.cells) == len(plain.cells)
    assert {task.config["model"] for task in other.summary.tasks} == {other.model}
    assert all(task.config["model_code"] for task in other.summary.tasks)
    assert not {t.id for t in plain.summary.tasks} & {t.id for t in other.summary.tasks}
    page = text(other)
    assert "with own_pyg_model.py:MyGIN" in page and "no cell is judged" in headline(other) and "agree" not in page
    for ours, theirs in zip(cell_rows(other), cell_rows(plain), strict=True):
        assert ours["theirs"] == theirs["theirs"] and ours["published_agrees"] is None is ours["correct_agrees"]
        assert ours["our_model"] == other.model and "our_model" not in theirs


def test_methods_that_bring_their_own_model_keep_it(tmp_path: Path, toy: Graph) -> None:
    swap = swap_to("pyg:GIN")[1]
    both = ("published", "correct")
    for paper, table in (("lpgnet", "7"), ("linkteller", "XII(a)"), ("graphprivatizer", "6")):
        cells = [c for c in BOOKS[paper].cells(table, "quick") if not c.why]
        for run in needed([cell_with(cell, swap) for cell in cells], 1, both):
            assert run.model == ("mlp" if run.defence.startswith(("lpgnet", "mlp")) else "pyg:GIN")
            assert not run.model_params or run.model == "mlp"
    with Store(tmp_path / "s.sqlite") as store:
        found = reproduce("lpgnet:18", store, Printed(), lambda name: toy.named(name), mode="quick", model="pyg:GIN")
    assert {row["our_model"] for row in cell_rows(found)} == {"mlp", "pyg:GIN"}
    measured = replace(found, cells=tuple(replace(judged, why="") for judged in found.cells))
    own = sum(judged.cell.published.model.startswith(("mlp", "lpgnet")) for judged in found.cells)
    assert f"{own} cells are of methods that bring their own model and keep it" in text(measured)


def test_one_of_ours_may_stand_in_too_and_nonsense_is_refused() -> None:
    deep = RunConfig(dataset="cora", model_params={"layers": 3, "hidden": 64})
    assert swap_to("gat")[1](deep).model_params == deep.model_params and swap_to("gat")[1](deep).model == "gat"
    assert swap_to("pyg:gin")[0] == "pyg:GIN" and swap_to("pyg:GIN")[1](deep).model_params == {}
    with pytest.raises(UnknownNameError, match="Did you mean"):
        swap_to("gcnn")
    with pytest.raises(InputError, match="cannot find the model"):
        swap_to("no_such_package:Net")


def test_figures_are_drawn_under_another_name(tmp_path: Path, toy: Graph) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        drawing = draw_figure(
            "linkteller", "Fig3", store, Printed(), load_twitch(toy), mode="quick", seeds=1, model="pyg:GIN"
        )
        used = {config["model"] for config, _ in store.seconds()}
    assert drawing.name == "linkteller:Fig3 with pyg:GIN" and "in place of the paper's models" in drawing.title
    assert used == {"pyg:GIN", "mlp"}
