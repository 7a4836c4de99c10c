from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edgeveil.cli.main import build_app
from edgeveil.errors import InputError

pytestmark = pytest.mark.usefixtures("same_bits")
QUICK = ["--quick", "--runs", "50", "--canaries", "1000"]
FAST = ["--runs", "250", "--canaries", "2000"]


def verdict(*args: str) -> tuple[str, str]:
    result = CliRunner().invoke(build_app(), ["verify", *args], catch_exceptions=False)
    assert result.exit_code == 0
    lines = result.stdout.strip().splitlines()
    return lines[-1], result.stdout


def test_prints_claim_bound_and_verdict(tmp_path: Path) -> None:
    last, text = verdict("edgerand", "--epsilon", "2", *FAST, "--json", str(tmp_path / "v.jsonl"))
    assert last == "verdict: consistent"
    assert "claimed epsilon: 2" in text and "empirical lower bound:" in text
    row = json.loads((tmp_path / "v.jsonl").read_text())
    assert row["verdict"] == "consistent" and 0 < row["lower_bound"] <= 2 and len(row["tests"]) >= 5
    assert row["ceiling"] == min(t["ceiling"] for t in row["tests"])
    assert f"ceiling: {row['ceiling']:.2f}" in text.splitlines()


def test_secure_noise_is_the_default_and_seeded_noise_on_request() -> None:
    seeded = [verdict("edgerand", "--epsilon", "1", "--seeded", *QUICK)[1] for _ in range(2)]
    assert seeded[0] == seeded[1] and "quick: fewer runs" in seeded[0]
    secure = [verdict("edgerand", "--epsilon", "1", *QUICK)[1] for _ in range(2)]
    assert secure[0] != secure[1] and "seeded streams" in secure[0]


def test_a_claim_above_the_ceiling_is_inconclusive() -> None:
    last, text = verdict("edgerand", "--epsilon", "12", *QUICK)
    assert last == "verdict: inconclusive" and "above the ceiling" in text


def test_too_little_evidence_is_inconclusive() -> None:
    assert verdict("lapgraph", "--epsilon", "1", "--runs", "10", "--canaries", "10")[0] == "verdict: inconclusive"


def test_an_own_graph_gets_planted_pairs_too() -> None:
    assert (
        "planted pairs in cora-twin: lower bound"
        in verdict("lpgnet-1", "--epsilon", "2", "--graph", "cora-twin", *FAST)[1]
    )


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
        ["edgerand", "--epsilon", "1", "--guesses", "5"],
        ["edgerand", "--epsilon", "1", "--graph", "no-such-graph"],
    ],
)
def test_bad_usage(args: list[str]) -> None:
    with pytest.raises(InputError):
        CliRunner().invoke(build_app(), ["verify", *args], catch_exceptions=False)
