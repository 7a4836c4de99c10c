"""The generated LPGNet page: seeds are paired by their number, and spreads are those of a sample."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).parents[2] / "benchmarks" / "fidelity_lpgnet_page.py"
spec = importlib.util.spec_from_file_location("fidelity_lpgnet_page", PATH)
assert spec is not None and spec.loader is not None
page: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)


def rows(values: dict[int, float], readout: str) -> list[dict[str, Any]]:
    about = {"dataset": "cora", "model": "LPGNet-1", "epsilon": 1.0, "variant": "correct", "readout": readout}
    return [{**about, "seed": seed, "f1": f1} for seed, f1 in values.items()]


def test_differences_are_paired_by_seed_whatever_the_order_and_repetition() -> None:
    mlp, bayes = {0: 0.5, 1: 0.6, 2: 0.9, 5: 0.1}, {2: 1.0, 0: 0.55, 1: 0.69}
    measured = [*rows({0: 0.5}, "mlp"), *rows(mlp, "mlp"), *rows(bayes, "bayes")]
    found = page.Figures(measured)
    assert found.get("cora", "LPGNet-1", 1.0) == [0.5, 0.6, 0.9, 0.1]
    gaps = np.array([0.05, 0.09, 0.1])
    expected = f"{gaps.mean():+.3f} ± {gaps.std(ddof=1) / np.sqrt(3):.3f}"
    table = page.readout_table(found, ["cora"], [1.0])
    assert f"| {expected} | – |" in table and "(4)" in table and "(3)" in table
    assert page.gain({0: 1.0}, {1: 1.0}) == "–" and page.gain({0: 1.0}, {0: 0.5}) == "+0.500"


def test_deviations_are_those_of_a_sample_and_one_seed_has_none() -> None:
    assert page.show([0.5, 0.7]) == f"0.600±{np.std([0.5, 0.7], ddof=1):.3f} (2)"
    assert page.show([0.5]) == "0.500 (1)" and page.show([0.5], "0.5±0.01") == "0.500 (1) / 0.5±0.01"


def test_the_page_says_that_it_compares_means() -> None:
    base = {"dataset": "cora", "seed": 0, "f1": 0.7, "lpa": 0.8, "lpa_published": 0.8, "linkteller": 0.5}
    models = [{"model": "MLP", "epsilon": np.inf}, {"model": "GCN", "epsilon": np.inf, "linkteller": 0.99}]
    ours = {"model": "LPGNet-1", "epsilon": 1.0, "variant": "correct", "readout": "mlp", "f1": 0.8}
    text = page.page([{**base, **m} for m in [*models, ours]], None)
    assert "where it stands (by means)" in text and "sweet spot" in text and "divisor n - 1" in text
