"""GraphPrivatizer's averages, heat-maps and tests on made-up runs with known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgeveil.defences.graphprivatizer.gp_analysis import (
    ALPHAS,
    DELTAS,
    grid_average,
    heat_map,
    paired_test,
    utility_gap,
)
from edgeveil.errors import InputError


def runs() -> list[dict[str, float]]:
    return [
        {"alpha": a, "delta": d, "seed": s, "accuracy": 70 + 10 * a + d + s}
        for a in ALPHAS for d in DELTAS for s in range(3)
    ]  # fmt: skip


def test_heat_map_subtracts_the_base_case_per_seed() -> None:
    found = heat_map(runs(), "accuracy")
    assert np.allclose(found.difference, 10 * np.array(ALPHAS)[:, None] + np.array(DELTAS))
    assert (found.runs == 3).all()
    part = heat_map([r for r in runs() if r["alpha"] < 1], "accuracy")
    assert np.isnan(part.difference[-1]).all() and (part.runs[-1] == 0).all()


def test_the_two_averages_differ() -> None:
    positive, _ = grid_average(runs(), "accuracy", "positive")
    rest, _ = grid_average(runs(), "accuracy", "all-but-base")
    assert math.isclose(positive, 71 + 10 * np.mean(ALPHAS[1:]) + np.mean(DELTAS[1:]))
    cells = [10 * a + d for a in ALPHAS for d in DELTAS if (a, d) != (0, 0)]
    assert math.isclose(rest, 71 + np.mean(cells))
    with pytest.raises(InputError, match="positive"):
        grid_average(runs(), "accuracy", "some")


def test_a_missing_base_case_is_an_error() -> None:
    with pytest.raises(InputError, match="base case"):
        heat_map([r for r in runs() if r["alpha"] > 0], "accuracy")


def test_wilcoxon_pairs_by_key() -> None:
    first = {i: 1.0 + i / 100 for i in range(20)}
    found = paired_test(first, dict.fromkeys(range(10, 40), 0.5))
    assert found.pairs == 10 and found.p_value < 0.01 and found.difference > 0.5
    assert paired_test({0: 1.0}, {0: 1.0}).p_value == 1.0
    with pytest.raises(InputError, match="in common"):
        paired_test({0: 1.0}, {1: 1.0})


def test_utility_gap_is_over_models() -> None:
    assert utility_gap({"gcn": 70.0, "gat": 60.0}, {"gcn": 80.0, "gat": 74.0, "sage": 1.0}) == (12.0, 2.0)
    with pytest.raises(InputError, match="gap"):
        utility_gap({"gcn": 1.0}, {})
