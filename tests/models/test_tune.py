from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from test_train import planted

from edgeveil.errors import InputError, StorageError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.models.presets import preset
from edgeveil.models.tune import SPACES, Trial, _arguments, best, grid_search, points, problem, read_trials, tpe_search

TINY = {"lr": (0.01, 0.05), "hidden": (4, 8), "epochs": (8,)}


def small_graph() -> Graph:
    x, structure, y, train, val, test = planted()
    edges = np.stack(structure.adjacency.nonzero())
    return Graph.from_edges(edges, x=x.values, y=y, train_mask=train, val_mask=val, test_mask=test, name="small")


@pytest.fixture
def task():
    return problem(small_graph(), preset("lpgnet", "small", "gcn"))


def test_the_papers_spaces_have_the_stated_sizes():
    assert len(points("lpgnet")) == 72
    assert len(points("linkteller")) == 7 * 6 * 3 * 4 * 4
    assert len({json.dumps(p) for p in points("lpgnet")}) == 72
    with pytest.raises(UnknownNameError, match="lpgnet"):
        points("lpgnett")


def test_test_labels_are_gone_before_anything_sees_them():
    graph = small_graph()
    hidden = problem(graph, preset("lpgnet", "small", "gcn"))
    assert (hidden.y[graph.test_mask] == -1).all()
    assert (hidden.y[graph.train_mask | graph.val_mask] == graph.y[graph.train_mask | graph.val_mask]).all()
    flipped = graph.with_labels(np.where(graph.test_mask, (graph.y + 1) % 3, graph.y))
    other = problem(flipped, preset("lpgnet", "small", "gcn"))
    point = points(TINY)[0]
    assert hidden.run(point, 0).val_loss == other.run(point, 0).val_loss


def test_a_grid_resumes_without_repeating(task, tmp_path):
    store = tmp_path / "deep" / "trials.jsonl"
    first = grid_search(task, TINY, store)
    assert len(first) == len(points(TINY)) == 4
    lines = store.read_text().splitlines()
    store.write_text("\n".join(lines[:2]) + "\n" + lines[2][:20])  # killed while writing the third
    ran = []
    again = grid_search(task, TINY, store, progress=lambda done, total, trial: ran.append((done, total)))
    assert ran[-1] == (4, 4)
    assert [(t.point, t.val_loss) for t in again] == [(t.point, t.val_loss) for t in first]
    assert len(store.read_text().splitlines()) == 4
    assert store.read_text().splitlines()[:2] == lines[:2]
    assert best(again).val_score == max(t.val_score for t in again)


def test_a_broken_store_is_refused(tmp_path):
    store = tmp_path / "trials.jsonl"
    store.write_text("nonsense\n{}\n")
    with pytest.raises(StorageError, match="line 1"):
        read_trials(store)


def test_diverged_trials_lose(task):
    trial = task.run({"lr": 1e30, "epochs": 4}, 0)
    assert trial.val_loss == float("inf")
    good = Trial({}, 0.1, 1.0, 1, 0.0)
    assert best([trial, good]) is good
    with pytest.raises(InputError, match="no trial"):
        best([trial])


@pytest.mark.filterwarnings("ignore")
def test_tpe_counts_the_trials_already_stored(task, tmp_path):
    pytest.importorskip("optuna")
    store = tmp_path / "study.db"
    assert len(tpe_search(task, TINY, store, trials=2)) == 2
    found = tpe_search(task, TINY, store, trials=3)
    assert len(found) == 3
    assert {tuple(t.point) for t in found} == {tuple(TINY)}
    assert set(SPACES) == {"lpgnet", "linkteller"}


def test_a_graph_without_validation_nodes_cannot_be_tuned_on():
    graph = small_graph()
    bare = Graph.from_edges(graph.edge_index, x=graph.x, y=graph.y)
    with pytest.raises(InputError, match="training and validation"):
        problem(bare, preset("lpgnet", "small", "gcn"))


def test_the_training_loss_may_decide_where_nothing_else_is_there(tmp_path):
    graph = small_graph()
    bare = Graph.from_edges(graph.edge_index, x=graph.x, y=graph.y)
    task = problem(bare, preset("lpgnet", "small", "gcn"), on_training=True)
    assert task.train.all() and task.val.all()
    trials = grid_search(task, TINY, tmp_path / "trials.jsonl")
    assert best(trials, by_loss=True).val_loss == min(trial.val_loss for trial in trials)


def test_the_noted_command_is_one_that_runs():
    for entry in json.loads(files("edgeveil.models").joinpath("tuned.json").read_text()).values():
        words = entry["command"].split()
        assert words[:3] == ["python", "-m", "edgeveil.models.tune"]
        args = _arguments(words[3:])
        assert args.store == Path(f"{args.dataset}-{args.model}.jsonl") and entry["points"] == len(points(args.space))
