from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edgeveil.cli.main import build_app
from edgeveil.errors import InputError

FAST = ["--runs", "400", "--canaries", "400"]


def verdict(*args: str) -> tuple[str, str]:
    result = CliRunner().invoke(build_app(), ["verify", *args], catch_exceptions=False)
    assert result.exit_code == 0
    lines = result.stdout.strip().splitlines()
    return lines[-1], result.stdout


def test_prints_claim_bound_and_verdict(tmp_path: Path) -> None:
    last, text = verdict("edgerand", "--epsilon", "4", *FAST, "--json", str(tmp_path / "v.jsonl"))
    assert last == "verdict: consistent"
    assert "claimed epsilon: 4" in text and "empirical lower bound:" in text
    row = json.loads((tmp_path / "v.jsonl").read_text())
    assert row["verdict"] == "consistent" and 0 < row["lower_bound"] <= 4 and len(row["tests"]) == 2


def test_secure_noise_can_be_audited() -> None:
    assert verdict("lapgraph", "--epsilon", "4", "--secure", *FAST)[0] == "verdict: consistent"


def test_too_little_evidence_is_inconclusive() -> None:
    assert verdict("lapgraph", "--epsilon", "1", "--runs", "10", "--canaries", "10")[0] == "verdict: inconclusive"


@pytest.mark.parametrize(("defence", "last"), [("mlp", "consistent"), ("none", "inconclusive")])
def test_through_a_trained_model(defence: str, last: str) -> None:
    line, text = verdict(defence, "--through", "gcn", "--graph", "cora-twin", "--canaries", "60")
    assert line == f"verdict: {last}"
    assert "through gcn with linkteller" in text


@pytest.mark.parametrize(
    "args",
    [
        ["edgerand"],
        ["edgerand", "--epsilon", "-1"],
        ["none"],
        ["edgernd", "--epsilon", "1"],
        ["edgerand", "--epsilon", "1", "--confidence", "1"],
    ],
)
def test_bad_usage(args: list[str]) -> None:
    with pytest.raises(InputError):
        CliRunner().invoke(build_app(), ["verify", *args], catch_exceptions=False)
