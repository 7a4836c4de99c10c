"""Our own attacks against the command itself, at small size: what benchmarks/attack_server.py measures in full."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "attack_server.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("attack_server", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["attack_server"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_attacks_on_a_running_server() -> None:
    found = load().run(quick=True, seeds=1)
    f1 = {(row["attack"], row["guard"]): row["f1"] for row in found["rows"]}
    given = {(row["attack"], row["guard"]): row["given"] for row in found["rows"]}
    fresh, flat = "linkteller, rows sent fresh", "flat questions with posteriors"
    root = "flatroot, up to 48 questions"
    assert f1[fresh, "off"] > 0.25 and f1[flat, "off"] > 0.5 and f1[root, "off"] > 0.95
    assert f1[fresh, "opened, defaults"] == f1[flat, "opened, defaults"] == f1[root, "opened, defaults"] == 0
    for attack in ("linkteller, 7 keys of one tenant", "linkteller, 25 tenants and 2 restarts"):
        assert given[attack, "2 cross-readings"] == 2
        assert f1[attack, "2 cross-readings"] < f1[fresh, "off"] / 2
    assert 0 < found["stored"]["features"] < found["stored"]["open"] and len(found["stored"]["rows"]) == 6
    assert found["honest"]["refused"] <= 0.01 * found["honest"]["asked"]
    dripped, archives, overflow, guesses = found["service"]
    assert dripped["answered"] == dripped["asked"] and guesses["answered"] == guesses["asked"]
    assert archives["answered"] == archives["asked"] and overflow["answered"] == 0
