"""Two methods of somebody else's, each one file outside the package: they work wherever our own do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
import forked
from edgeveil.errors import InputError, StorageError
from edgeveil.graph.npz import write_npz
from edgeveil.plugins import VARIABLE
from zoo import three_classes, toy

pytestmark = pytest.mark.usefixtures("sketched")
EXAMPLES = Path(__file__).parents[1] / "examples"
GAP, SHADOW = EXAMPLES / "gap_defence.py", EXAMPLES / "shadow_attack.py"


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    ev.load_plugin(GAP)
    ev.load_plugin(SHADOW)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_npz(three_classes(), tmp_path / "secret.npz")
    write_npz(toy(90, seed=5), tmp_path / "public.npz")
    return tmp_path


def edgeveil(home: Path, *args: Any) -> subprocess.CompletedProcess[str]:
    done = forked.edgeveil(*args, cwd=home)
    assert done.returncode == 0, done.stderr
    return done


def test_the_defence_charges_what_it_claims_and_reloads_to_the_bit(tmp_path: Path) -> None:
    release = ev.defend(three_classes(), "gap-like", epsilon=4.0, seed=0, hops=3)
    claim = release.guarantee
    assert claim.epsilon == 4.0 and claim.delta == 1e-6 and claim.accountant == "zcdp" and len(claim.charges) == 3
    assert all(charge.gaussian is not None for charge in claim.charges)
    again = ev.Release.load(release.save(tmp_path / "gap"))
    assert np.array_equal(again.predict(), release.predict()) and again.guarantee == claim
    assert not (tmp_path / "gap" / "private_graph.npz").exists()
    with pytest.raises(
        InputError, match=r"unknown argument of defend with 'gap-like' 'hop'.*'hops'.*hops, inference_graph"
    ):
        ev.defend(three_classes(), "gap-like", epsilon=4.0, hop=3)


def test_the_grid_never_lengthens_a_row_so_that_the_sensitivity_holds() -> None:
    gap: Any = sys.modules[ev.load_plugin(GAP)]
    rows = gap.unit_rows(np.random.default_rng(0).normal(size=(200, 7)))
    assert np.linalg.norm(np.trunc(rows * gap.GRID), axis=1).max() <= gap.GRID


def test_its_noise_falls_with_epsilon_and_the_graph_is_used() -> None:
    graph, gap = three_classes(), sys.modules[ev.load_plugin(GAP)]
    sums = {e: ev.defend(graph, "gap-like", epsilon=e, seed=0, hops=1).predictor.sums for e in (0.5, 5000.0)}  # type: ignore[attr-defined]
    near = ev.defend(graph, "gap-like", epsilon=5000.0, seed=0, hops=1).predictor
    own = gap.unit_rows(gap.predict_logits(near.encoder, near_matrix(graph), gap.no_edges(graph.num_nodes)))  # type: ignore[attr-defined]
    true = gap.unit_rows(graph.adjacency @ own)
    error = {e: float(np.abs(found - true).mean()) for e, found in sums.items()}
    assert error[5000.0] < 0.05 < 0.2 < error[0.5]


def near_matrix(graph: ev.Graph) -> Any:
    return ev.defend(graph, "mlp", seed=0).matrix


def test_the_attack_learns_from_the_shadow_graph() -> None:
    graph, public = three_classes(), toy(90, seed=5)
    release = ev.defend(graph, "none", seed=0)
    found = ev.attack(release, "shadow-pairs", nodes=np.arange(80), shadow=public)
    truth = graph.has_edges(*found.pairs)
    assert found.queries == 1 and ev.metrics.ranking(found.scores, truth)["auc"] > 0.6
    same = ev.attack(release, "shadow-pairs", nodes=np.arange(80), shadow=public)
    assert np.array_equal(same.scores, found.scores)
    with pytest.raises(InputError, match=r"shadow-pairs needs shadow graph; pass shadow="):
        ev.attack(release, "shadow-pairs", nodes=np.arange(80))


def test_in_an_audit_from_python(tmp_path: Path) -> None:
    kept = tmp_path / "store.sqlite"
    plan: dict[str, Any] = {
        "defences": ["none", "gap-like"], "epsilons": [4.0], "attacks": ["linkteller", "shadow-pairs"], "nodes": 60,
        "params": {"gap-like": {"hops": 1}, "shadow-pairs": {"examples": 100}}, "shadow": toy(90, seed=5), "runs": 1,
    }  # fmt: skip
    found = ev.audit(three_classes(), keep=kept, **plan)
    by = {(row["defence"], row["attack"]): row for row in found.rows if row["belief"] == "k"}
    gap = by["gap-like", "shadow-pairs"]
    assert (gap["epsilon"], gap["delta"], gap["status"]) == (4.0, 1e-6, "sound")
    assert (
        gap["params"]["hops"] == 1
        and gap["params"]["attack"]["examples"] == 100
        and gap["params"]["shadow"] == "toy (shadow)"
    )
    assert by["none", "shadow-pairs"]["auc"] > 0.6 and by["gap-like", "linkteller"]["auc"] == 0.5
    page = found.save(tmp_path / "audit").read_text(encoding="utf-8")
    assert "gap-like" in page and "shadow-pairs" in page and "zero-concentrated" in page
    with pytest.raises(InputError, match="is the graph under attack"):
        ev.audit(three_classes(), **plan | {"shadow": three_classes()})


def test_from_the_command_line_saved_reloaded_attacked_and_refused_without_the_plugin(home: Path) -> None:
    edgeveil(home, "--plugin", GAP, "release", "secret.npz", "--defence", "gap-like", "--epsilon", 4, "--set", "hops=1",
             "--out", "gap")  # fmt: skip
    assert json.loads((home / "gap" / "manifest.json").read_text())["params"]["hops"] == 1
    edgeveil(home, "attack", "--release", "gap", "--plugin", GAP, "--plugin", SHADOW, "--attack", "shadow-pairs",
             "--shadow", "public.npz", "--set", "examples=80", "--truth", "secret.npz", "--json", "rows.jsonl")  # fmt: skip
    row = json.loads((home / "rows.jsonl").read_text().splitlines()[0])
    assert row["attack"] == "shadow-pairs" and row["queries"] == 1 and row["auc"] is not None
    bare = subprocess.run(  # a fork server may have been started while the plugins were listed
        [sys.executable, "-m", "edgeveil", "attack", "--release", "gap", "--truth", "secret.npz"], cwd=home,
        capture_output=True, text=True, timeout=120, env={k: v for k, v in os.environ.items() if k != VARIABLE},
    )  # fmt: skip
    assert bare.returncode == 2 and "unknown predictor 'gap-like'" in bare.stderr and "--plugin FILE.py" in bare.stderr


def test_in_a_sweep_over_worker_processes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    (home / "plan.toml").write_text(
        '[[grid]]\ndataset = "secret.npz"\ndefence = ["mlp", "gap-like"]\nepsilon = [2, 8]\n'
        '[[grid.attack]]\nname = "shadow-pairs"\nshadow = "public.npz"\nnodes = 60\n'
    )
    args = ("sweep", "plan.toml", "--plugin", GAP, "--plugin", SHADOW, "--set", "defence.hops=1", "--set", "examples=90",
            "--out", "runs", "--workers", 2)  # fmt: skip
    edgeveil(home, *args)
    rows = [json.loads(line) for line in (home / "runs" / "rows.jsonl").read_text().splitlines()]
    assert {(r["defence"], r["epsilon"]) for r in rows} == {("mlp", 0.0), ("gap-like", 2.0), ("gap-like", 8.0)}
    assert all(r["params"]["hops"] == 1 and r["delta"] == 1e-6 for r in rows if r["defence"] == "gap-like")
    assert all(r["params"]["attack"]["examples"] == 90 and r["auc"] is not None for r in rows)
    assert "3 before" in edgeveil(home, *args).stdout


@pytest.mark.slow
def test_in_the_audit_command_with_processes(home: Path) -> None:
    edgeveil(home, "audit", "secret.npz", "--plugin", GAP, "--plugin", SHADOW, "--defence", "none,gap-like", "--epsilon", 4,
             "--attack", "shadow-pairs", "--shadow", "public.npz", "--nodes", 60, "--workers", 2, "--out", "audit",
             "--set", "gap-like.hops=1", "--runs", 1)  # fmt: skip
    page = (home / "audit" / "report.html").read_text(encoding="utf-8")
    assert "gap-like" in page and "shadow-pairs" in page


def test_a_shadow_graph_that_is_the_graph_under_attack_is_refused(home: Path) -> None:
    from edgeveil.runs.run_config import AttackConfig, RunConfig

    with pytest.raises(ValueError, match="is the graph under attack"):
        RunConfig(dataset="cora", attacks=(AttackConfig(name="shadow-pairs", shadow="Cora"),))


@pytest.mark.slow
def test_a_changed_plugin_is_another_method(home: Path) -> None:
    """Rows of a plugin's earlier text are not taken for those of its present one."""
    copied = home / "gap_copy.py"
    text = GAP.read_text().replace("gap-like", "gap-copy")
    (home / "plan.toml").write_text('[[grid]]\ndataset = "secret.npz"\ndefence = ["none", "gap-copy"]\nepsilon = 4\n')
    args = ("sweep", "plan.toml", "--plugin", copied, "--out", "runs", "--executor", "serial")
    copied.write_text(text)
    assert "2 done now" in edgeveil(home, *args).stdout
    copied.write_text(text.replace("GRID = 256", "GRID = 128"))
    assert "1 done now, 1 before" in edgeveil(home, *args).stdout


def test_loading_without_its_file_names_the_remedy(home: Path) -> None:
    release = ev.defend(three_classes(), "gap-like", epsilon=4.0, seed=0)
    release.save(home / "r")
    manifest = home / "r" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"kind": "gap-like"', '"kind": "gap-unlike"'))
    with pytest.raises(StorageError, match=r"--plugin FILE\.py, ev\.load_plugin"):
        ev.Release.load(home / "r")
