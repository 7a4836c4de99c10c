"""The tables of studies say which nodes and which attack a figure belongs to."""

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
    text = studies.study_tables()
    assert "0.505±0.005 (2)" in text
    assert "| low degree | 0.605±0.005 AUC (2) |" in text and "| high degree | 0.705±0.005 AUC (2) |" in text
