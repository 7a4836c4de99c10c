"""The figures of studies say which nodes and which attack they belong to."""

from __future__ import annotations

import pytest

from edgeveil.papers import studies
from edgeveil.papers.recipes import run_key
from edgeveil.papers.samples import Samples
from edgeveil.runs.plan import parse_plan

PLAN = {
    "name": "Depth",
    "seeds": 2,
    "grid": [
        {
            "dataset": "cora",
            "utility": "micro_f1",
            "attack": [{"name": "linkteller", "degrees": ["low", "high"], "beliefs": ["k"]}],
        }
    ],
}


def test_classes_of_nodes_have_lines_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = parse_plan(PLAN, "depth.toml")
    known = Samples()
    for run in plan.runs():
        for term in studies.study_terms(run):
            value = {"micro_f1": 0.5, "0 low k auc": 0.6, "0 high k auc": 0.7}[term.figure]
            known.add(run_key(run), term.figure, {(run.seed, None): value + run.seed / 100}, "x")
    monkeypatch.setattr(studies, "plans", lambda: {"depth": plan})
    monkeypatch.setattr(studies, "measured", lambda: known)
    rows = studies.measured_studies()["depth"]
    assert [(row["attacked"], row["figure"], row["mean"], row["samples"]) for row in rows] == [
        ("", "micro_f1", 0.505, 2), ("low degree", "auc", 0.605, 2), ("high degree", "auc", 0.705, 2),
    ]  # fmt: skip
    assert all(row["std"] == 0.005 and row["epsilon"] is None for row in rows)
    assert "| Depth | `depth.toml` | [3](fidelity/study-depth.csv) | 2 |" in studies.study_list()
