from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from edgeveil.cli.main import build_app
from edgeveil.errors import InputError
from edgeveil.graph.datasets import load
from edgeveil.graph.npz import read_npz


def perturb(*args: str) -> None:
    assert CliRunner().invoke(build_app(), ["perturb", *args], catch_exceptions=False).exit_code == 0


def test_writes_noisy_edges_and_the_guarantee_and_nothing_else(tmp_path: Path) -> None:
    perturb("cora-twin", "--defence", "lapgraph", "--epsilon", "4", "--out", str(tmp_path / "noisy"))
    assert sorted(p.name for p in (tmp_path / "noisy").iterdir()) == ["graph.npz", "manifest.json"]
    with np.load(tmp_path / "noisy" / "graph.npz") as archive:
        assert set(archive.files) <= {"edge_index", "meta", "node_ids"}
    noisy, secret = read_npz(tmp_path / "noisy"), load("cora-twin")
    assert noisy.num_nodes == secret.num_nodes and noisy.x is None and noisy.y is None and not noisy.splits
    assert 0.02 < noisy.has_edges(*secret.edge_index).mean() < 0.2
    text = (tmp_path / "noisy" / "manifest.json").read_text()
    manifest = json.loads(text)
    assert manifest["guarantee"]["epsilon"] == 4.0 and manifest["guarantee"]["randomness"] == "operating-system entropy"
    assert manifest["num_edges"] == noisy.num_edges and secret.fingerprint not in text


def test_a_seed_is_honoured_and_labelled(tmp_path: Path) -> None:
    for name in "ab":
        perturb("cora-twin", "--defence", "edgerand", "--epsilon", "6", "--seed", "1", "--out", str(tmp_path / name))
    assert read_npz(tmp_path / "a") == read_npz(tmp_path / "b")
    assert "not private" in (tmp_path / "a" / "manifest.json").read_text()


@pytest.mark.parametrize(
    "args", [["--epsilon", "0"], [], ["--defence", "mlp"], ["--defence", "nothing", "--epsilon", "1"]]
)
def test_bad_usage(args: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        perturb("cora-twin", "--out", str(tmp_path / "x"), *args)
    assert not (tmp_path / "x").exists()


def test_an_earlier_export_is_never_overwritten(tmp_path: Path) -> None:
    perturb("cora-twin", "--epsilon", "4", "--out", str(tmp_path))
    with pytest.raises(InputError, match="spends epsilon again"):
        perturb("cora-twin", "--epsilon", "4", "--out", str(tmp_path))
