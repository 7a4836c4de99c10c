"""`edgeveil verify` on the local mechanisms: a refutation anyone can follow, and a count of what no noise touches."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from edgeveil.cli.main import build_app


def lines(*args: str) -> list[str]:
    result = CliRunner().invoke(build_app(), ["verify", *args, "--runs", "2000", "--canaries", "5000"])
    assert result.exit_code == 0
    return result.stdout.strip().splitlines()


@pytest.mark.parametrize("name", ["gp-m", "gp-t"])
def test_graphprivatizer_is_refuted_in_the_open(name: str) -> None:
    said = lines(name, "--epsilon", "4")
    assert said[-1] == "verdict: refuted"
    assert any("cannot occur on its neighbour" in line for line in said)
    assert any("released with certainty on cora-twin" in line and "10,556 list entries" in line for line in said)


def test_its_relative_is_not() -> None:
    said = lines("gp-sound", "--epsilon", "2")
    assert any("for one undirected edge nothing is claimed" in line for line in said)
    assert said[-1] == "verdict: consistent" and not any("certainty" in line for line in said)
