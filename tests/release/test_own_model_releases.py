"""A user's GIN with BatchNorm from training to a running server: one model, every defence, nothing unpickled."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.serve.conftest import launch
from tests.serve.test_process import Process, ledger_of
from tests.zoo import toy

import edgeveil as ev
from edgeveil.errors import StorageError
from edgeveil.models import own_models
from edgeveil.models.own_models import OwnModel, model_name
from edgeveil.models.settings import TrainSpec
from edgeveil.release.remote import HttpTarget
from edgeveil.serve.auth import KeyStore
from edgeveil.serve.config import load_settings

pytest.importorskip("torch_geometric", reason="extra pyg is not installed")
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_pyg_model.py"
SHORT = TrainSpec(epochs=15)


@pytest.fixture
def gin() -> str:
    return model_name(f"{EXAMPLE}:MyGIN")


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that was never told of any model."""
    monkeypatch.setattr(own_models, "_known", {})
    monkeypatch.delenv("EDGEVEIL_PLUGINS", raising=False)


@pytest.mark.parametrize(
    ("defence", "epsilon"), [("none", None), ("edgerand", 6.0), ("lapgraph", 6.0), ("lpgnet", 6.0)]
)
def test_train_save_load_and_attack(gin: str, defence: str, epsilon: float | None, tmp_path: Path) -> None:
    release = ev.defend(toy(), defence, epsilon=epsilon, model=gin, seed=0, train=SHORT)
    release.save(tmp_path / "r")
    again = ev.Release.load(tmp_path / "r")
    np.testing.assert_array_equal(again.predict(), release.predict())
    assert again.guarantee == release.guarantee and again.guarantee.epsilon == epsilon
    found = ev.attack(again, "linkteller", nodes=np.arange(30))
    asked = ev.attack(again, "linkteller", nodes=np.arange(30), mode="query", delta=1e-7)
    if defence == "lpgnet":
        assert release.model == "mlp" and "is ignored" in release.notes[0] and found.scores.max() == 0
    else:
        assert release.model == "own_pyg_model.py:MyGIN" and release.layers == 2
        assert np.abs(found.scores - asked.scores).max() <= 1e-6 * asked.scores.max() and found.scores.max() > 0


def test_the_weights_are_the_modules_state_dict(gin: str, tmp_path: Path) -> None:
    """Whoever has the class needs nothing of ours to use the weights."""
    import torch

    release = ev.defend(toy(), "lapgraph", epsilon=4.0, model=gin, seed=0, train=SHORT)
    release.save(tmp_path / "r")
    plain = runpy.run_path(str(EXAMPLE))["MyGIN"](24, 3).double().eval()
    with np.load(tmp_path / "r" / "weights.npz", allow_pickle=False) as arrays:
        plain.load_state_dict({name: torch.tensor(arrays[name]) for name in arrays.files})
    a = release.predictor.adjacency.tocoo()
    x = torch.from_numpy(np.asarray(release.matrix.toarray(), np.float64))
    logits = plain(x, torch.from_numpy(np.stack([a.col, a.row]).astype(np.int64))).detach().numpy()
    np.testing.assert_allclose(logits, release.predict(), atol=1e-12)


def test_nothing_is_imported_on_the_word_of_a_file(gin: str, tmp_path: Path, forgotten: None) -> None:
    model_name(f"{EXAMPLE}:MyGIN")
    release = ev.defend(toy(), "lapgraph", epsilon=4.0, model=gin, seed=0, train=SHORT)
    release.save(tmp_path / "r")
    factory = own_models._known[gin].factory
    own_models._known.clear()
    os.environ.pop("EDGEVEIL_PLUGINS", None)
    with pytest.raises(StorageError, match=r"'own_pyg_model.py:MyGIN' is not here: supply it .*modules="):
        ev.Release.load(tmp_path / "r")
    for modules in ({gin: factory}, factory, [factory]):
        ev.Release.load(tmp_path / "r", modules=modules)
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    for evil in ("evil:Net", f"{tmp_path}/evil.py:Net", "os:system"):
        manifest["predictor"]["settings"]["model"]["name"] = evil
        (tmp_path / "r" / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(StorageError, match="is not here"):
            ev.Release.load(tmp_path / "r")
    assert not (tmp_path / "ran").exists()


def test_changed_code_is_refused_and_moved_comments_are_not(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    names = {}
    for version, body in {
        "same": text.replace("    def forward", "    # a remark\n    def forward"),
        "other": text.replace("self.second(self.dropout(", "self.second(2 * self.dropout("),
    }.items():
        path = tmp_path / version / "own_pyg_model.py"
        path.parent.mkdir()
        path.write_text(body)
        names[version] = own_models._imported(str(path), "MyGIN")
    release = ev.defend(toy(), "lapgraph", epsilon=4.0, model=f"{EXAMPLE}:MyGIN", seed=0, train=SHORT)
    release.save(tmp_path / "r")
    ev.Release.load(tmp_path / "r", modules={release.model: names["same"]})
    with pytest.raises(StorageError, match="has changed since this release was made"):
        ev.Release.load(tmp_path / "r", modules={release.model: names["other"]})


def test_audit_and_sweep_rows_name_the_model(gin: str) -> None:
    audit = ev.audit(
        toy(),
        model=gin,
        defences=["none", "lapgraph"],
        epsilons=[8.0],
        attacks=["linkteller"],
        nodes=40,
        runs=1,
        train_params={"epochs": 15},
    )
    rows = [row for row in audit.rows if row["defence"] in ("none", "lapgraph")]
    assert rows and {row["model"] for row in rows} == {gin}


@pytest.mark.fast("none", "lpgnet")
@pytest.mark.parametrize("defence", ["none", "edgerand", "lapgraph", "lpgnet"])
def test_a_users_gin_from_training_to_an_attacked_server(gin: str, defence: str, tmp_path: Path) -> None:
    """Trained under a defence, audited, saved, reloaded, served on a real socket, attacked there."""
    graph, epsilon = toy(), None if defence == "none" else 6.0
    how = {"attacks": ["linkteller"], "nodes": 30, "runs": 1, "train_params": {"epochs": 15}}
    audit = ev.audit(graph, model=gin, defences=[defence], epsilons=[6.0], **how)
    own = defence != "lpgnet"  # its MLPs stay its own, and it says so
    assert {row["model"] for row in audit.rows if row["defence"].startswith(defence)} == {gin if own else "mlp"}
    release = ev.defend(graph, defence, epsilon=epsilon, model=gin, train=SHORT)
    assert own or any("is ignored" in note for note in release.notes)
    again = ev.Release.load(release.save(tmp_path / "saved"), modules=own_models.find_model(gin))
    state = tmp_path / "state"
    open_to_bob = {"cross_readings": 1000, "cross_readings_all": 1000, "action": "off"}
    settings = load_settings(
        state=state, release=tmp_path / "served", changed_features=True, output="logits", guard=open_to_bob
    )
    server = launch(again, settings)
    try:
        key = server.key("bob", queries=500)["authorization"].removeprefix("Bearer ")
        with HttpTarget(server.url, key=key, features=again.matrix) as target:
            np.testing.assert_allclose(target.query(nodes=np.arange(60)), release.predict(), atol=1e-9)
            found = ev.attack(target, "linkteller", nodes=np.arange(12), mode="query")
    finally:
        server.stop()
    here = ev.attack(release, "linkteller", nodes=np.arange(12))
    assert found.access == "black-box" and found.queries >= 12
    if own:
        assert np.corrcoef(found.scores, here.scores)[0, 1] > 0.95
    else:
        assert found.scores.max() == here.scores.max() == 0


@pytest.mark.slow
def test_served_over_http_and_attacked_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command trains and saves it, a server process that was told of the file answers, Bob attacks the address."""
    graph = toy()
    release = ev.defend(graph, "lapgraph", epsilon=6.0, model=f"{EXAMPLE}:MyGIN", train=SHORT)
    release.save(tmp_path / "release")
    silent = {k: v for k, v in os.environ.items() if k != "EDGEVEIL_PLUGINS"}
    command = [sys.executable, "-m", "edgeveil", "serve", str(tmp_path / "release"), "--state", str(tmp_path / "s")]
    refused = subprocess.run([*command, "--port", "0"], env=silent, capture_output=True, text=True, timeout=120)
    assert refused.returncode in (1, 2)
    assert "is not here" in refused.stderr and "Traceback" not in refused.stderr
    monkeypatch.delenv("EDGEVEIL_PLUGINS", raising=False)
    key, _ = KeyStore(ledger_of(tmp_path).database).add("bob", "query", queries=500)
    server = Process(tmp_path, "--output", "logits", "--plugin", str(EXAMPLE))
    try:
        with HttpTarget(server.url, key=key, features=release.matrix) as target:
            np.testing.assert_allclose(target.query(nodes=np.arange(20)), release.predict()[:20], atol=1e-9)
            found = ev.attack(target, "linkteller", nodes=np.arange(12), mode="query")
        here = ev.attack(release, "linkteller", nodes=np.arange(12))
        assert found.access == "black-box" and np.corrcoef(found.scores, here.scores)[0, 1] > 0.95
    finally:
        server.end()


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(EXAMPLE))
    names["main"](tmp_path)
    said = capsys.readouterr().out
    assert "lapgraph" in said and "accuracy" in said
    own: OwnModel = names["MyGINWithOwnTraining"]
    release = ev.defend(names["small_graph"](), "edgerand", epsilon=6.0, model=own, seed=0)
    assert release.utility("train")["accuracy"] > 0.4
