"""Rows, resume files and releases of the version before the rooms: still right, still read.

`tests/old_version` was made at commit 101cf19: a store with one run or more of every method on `zoo.three_classes`, an
audit's resume file, two releases and what they answered, and a ledger (`tests/serve/test_ledger.py`).
"""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.edgerand import EdgeRand
from edgeveil.graph.graph import Graph
from edgeveil.runs import code_digest as digests
from edgeveil.runs.carried_rows import Compared, compare, sample
from edgeveil.runs.code_digest import code_digest
from edgeveil.runs.executors import Serial
from edgeveil.runs.run_config import RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import sweep

OLD = Path(__file__).parents[1] / "old_version"
OLD_CODE = "d5872c0c34acadb0"
CHANGED = {
    "gp-sound": "unit",  # its promise is no longer said to be for one undirected edge
    "lpgnn": "utility",  # unnamed settings are those that fit the method, in a sweep as in an audit
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copy(OLD / "store.db", tmp_path / "store.db"))


@pytest.fixture
def vouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if today's code had been recorded."""
    entry = {"from": OLD_CODE, "to": code_digest(), "defences": ["none", "mlp", "lapgraph", "rr"]}
    monkeypatch.setattr(digests, "_carried", lambda: [entry])


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, toy: Graph) -> Compared:
    path = shutil.copy(OLD / "store.db", tmp_path_factory.mktemp("old") / "store.db")
    with Store(path) as opened:
        ((code, records),) = sample(opened).items()
    return compare(code, records, lambda _: toy)


def test_every_method_gives_the_figures_it_gave(compared: Compared) -> None:
    assert compared.code == OLD_CODE and compared.runs == 19
    assert set(compared.equal) == {
        "edgerand", "gp-m", "gp-t", "graphprivatizer", "lapgraph", "lpgnet-1", "lpgnet-2", "mlp", "none", "rr"
    }  # fmt: skip
    assert set(compared.changed) == set(CHANGED)
    assert all(word in compared.changed[name] for name, word in CHANGED.items())


def test_a_method_that_changed_is_not_vouched_for(store: Path, toy: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(store) as opened:
        records = [r for r in sample(opened)[OLD_CODE] if r.config.get("defence") in ("edgerand", "mlp")]
    skewed = EdgeRand.perturb
    monkeypatch.setattr(EdgeRand, "perturb", lambda self, graph, seed=None: skewed(self, graph, seed=1))  # the fault
    found = compare(OLD_CODE, records, lambda _: toy)
    assert found.equal == ("mlp",) and "instead of" in found.changed["edgerand"]
    other = compare(OLD_CODE, records, lambda _: toy.with_labels((toy.y + 1) % 3))
    assert other.equal == () and "other content" in other.changed["mlp"]


def test_an_old_store_opens_and_its_vouched_rows_are_not_run_again(store: Path, toy: Graph, vouched: None) -> None:
    with Store(store) as opened:
        runs = [RunConfig.model_validate(opened.record(name).config) for name in sorted(opened.done())]
        kept = [run for run in runs if run.defence in ("none", "mlp", "lapgraph", "rr")]
        before = sorted(map(str, opened.rows()))
        assert sweep(kept, opened, Serial(), lambda _: toy).skipped == len(kept) == 9
        edgerand = [run for run in runs if run.defence == "edgerand"]
        assert sweep(edgerand, opened, Serial(), lambda _: toy).done == 1
        assert set(before) < set(map(str, opened.rows()))
    assert sqlite3.connect(store).execute("PRAGMA user_version").fetchone() == (2,)


def test_an_old_resume_file_is_taken_over(tmp_path: Path, toy: Graph, vouched: None) -> None:
    plan: dict[str, Any] = {
        "defences": ["none", "mlp", "lapgraph"], "epsilons": [2.0], "attacks": ["linkteller", "lsa2-attr"],
        "drawn": "nodes",
    }  # fmt: skip
    keep = Path(shutil.copy(OLD / "cells.jsonl", tmp_path / "kept"))
    found = ev.audit(toy, nodes=40, keep=keep, **plan)
    assert {r.provenance.get("carried_over") for r in found.records} == {"an audit's resume file"}
    fresh = ev.audit(toy, nodes=40, **plan)
    for name in ("auc", "recall", "utility", "n_edges"):
        assert [row[name] for row in found.rows] == pytest.approx([row[name] for row in fresh.rows])
    assert found.verdict[0] == fresh.verdict[0]
    assert "rows without answers per node" in found.verdict[1], "old files cannot say how sure their figures are"
    found.write_exposed(tmp_path / "exposed.csv")
    other = ev.audit(toy, nodes=40, keep=keep, **plan | {"drawn": "edges", "defences": ["mlp"]})
    assert not any("carried_over" in r.provenance for r in other.records), "old files attacked nodes of equal chances"
    assert (tmp_path / "kept.old").is_file() and stat.S_IMODE(keep.stat().st_mode) == 0o600


@pytest.mark.parametrize("defence", ["lapgraph", "lpgnet"])
def test_an_old_release_loads_and_answers_as_it_did(defence: str, toy: Graph) -> None:
    release = ev.Release.load(OLD / f"release-{defence}")
    assert release.guarantee.epsilon == 2.0 and release.num_nodes == toy.num_nodes
    assert np.allclose(release.predict(), np.load(OLD / f"predictions-{defence}.npy"), rtol=1e-9, atol=1e-9)
    assert 0 < release.utility("test", graph=toy)["micro_f1"] <= 1
