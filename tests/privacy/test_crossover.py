"""The table of docs/theory.md is what its command computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench() -> Any:
    spec = importlib.util.spec_from_file_location("gaussian_crossover", HERE / "benchmarks" / "gaussian_crossover.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_documented_table_is_current(bench: Any) -> None:
    text = (HERE / "docs" / "theory.md").read_text(encoding="utf-8")
    assert text.split(bench.START)[1].split(bench.END)[0].strip() == bench.table().strip()


def test_gaussian_noise_wins_from_a_number_of_queries_on_and_stays_ahead(bench: Any) -> None:
    for epsilon in (1.0, 4.0):
        first = bench.crossover(epsilon, 1e-6)
        assert 4 <= first <= 8
        ahead = [
            bench.gaussian_spread(epsilon, k, 1e-6) < bench.laplace_spread(epsilon, k) for k in range(1, first + 6)
        ]
        assert ahead == [False] * (first - 1) + [True] * 6
