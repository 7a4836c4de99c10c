"""The noise of degree vectors: law, independence, and the published fault that must not come back."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from edgeveil.defences.lpgnet.degree_vectors import (
    SLICES,
    degree_noise,
    fill_empty,
    local_report,
    noise_scale,
    noisy_degrees_from_file,
)
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.errors import BudgetExceeded, GraphError, InputError
from edgeveil.graph.cluster_degrees import cluster_degrees_from_file
from edgeveil.privacy.budget import Budget
from edgeveil.privacy.noise import noise_for
from edgeveil.seeds import derive

FALSE_ALARM = 1e-6


def repeat_probability(scale: float) -> float:
    """P(two independent discrete Laplace draws are equal)."""
    q = math.exp(-1 / scale)
    k = np.arange(-400, 401)
    return float((((1 - q) / (1 + q) * q ** np.abs(k)) ** 2).sum())


def query_noise(defence: LPGNet, shape: tuple[int, int], phase: str, layer: int, seed: int = 0) -> np.ndarray:
    """The noise that a release with this seed adds in one query."""
    stream = derive(seed, "noise", *defence._stream(phase, layer))
    high = np.full(shape, 10_000, np.int64)  # far from 0, so that clipping shows nothing
    return defence.perturb_counts(high, Fraction(1), stream) - high


def compared(noise: dict[str, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pairs of noise blocks that the published code had equal: layers, phases and slices of nodes."""
    first = noise["training 1"]
    parts = np.stack(np.array_split(first, SLICES))
    return {
        "layers": (first, noise["training 2"]),
        "phases": (first, noise["inference 1"]),
        "slices": (parts[[0, 2]], parts[[1, 3]]),
        "clusters": (first[:, ::2], first[:, 1::2]),
    }


def blocks(defence: LPGNet) -> dict[str, np.ndarray]:
    return {
        f"{phase} {layer}": query_noise(defence, (2000, 4), phase, layer)
        for phase in ("training", "inference")
        for layer in (1, 2)
    }


@pytest.mark.parametrize("where", ["layers", "phases", "slices", "clusters"])
def test_discrete_noise_repeats_no_more_than_independent_draws(where: str) -> None:
    a, b = compared(blocks(LPGNet(epsilon=1.0)))[where]
    expected = repeat_probability(2.0)
    slack = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * a.size))  # Hoeffding; no draw stands in two comparisons
    assert abs((a == b).mean() - expected) < slack


@pytest.mark.parametrize("where", ["layers", "phases", "slices", "clusters"])
def test_continuous_noise_never_repeats(where: str) -> None:
    a, b = compared(blocks(LPGNet(epsilon=1.0, noise="continuous")))[where]
    assert not (a == b).any()


def test_the_published_variant_repeats_noise_everywhere() -> None:
    pairs = compared(blocks(LPGNet(epsilon=1.0, variant="published")))
    assert all((pairs[where][0] == pairs[where][1]).all() for where in ("layers", "phases", "slices"))


def test_secure_noise_of_two_queries_differs() -> None:
    counts = np.full((500, 3), 1000, np.int64)
    a, b = (LPGNet(epsilon=0.1).perturb_counts(counts, Fraction(1, 10), None) for _ in range(2))
    assert (a == b).mean() < 0.2 and (a == np.rint(a)).all()


@pytest.mark.parametrize("law", ["discrete", "continuous"])
def test_noise_has_the_scale_two_over_epsilon(law: str) -> None:
    scale = noise_scale(Fraction(1, 2))
    assert scale == 4 and noise_scale(math.inf) == 0
    x = degree_noise(noise_for(3), law, scale, (40_000, 1))  # type: ignore[arg-type]
    q = math.exp(-1 / 4)
    expected = 2 * q / (1 - q * q) if law == "discrete" else 4.0  # mean absolute value
    assert np.abs(x).mean() == pytest.approx(expected, rel=0.03)
    assert abs(x.mean()) < 5 * 4 * math.sqrt(2) / 200


def test_clipping_is_optional_and_only_lifts_negative_counts() -> None:
    counts = np.zeros((1000, 3), np.int64)
    kept = LPGNet(epsilon=1.0, clip=False).perturb_counts(counts, Fraction(1), 5)
    clipped = LPGNet(epsilon=1.0).perturb_counts(counts, Fraction(1), 5)
    assert kept.min() < 0 and np.array_equal(clipped, np.maximum(kept, 0))


def test_only_the_published_variant_fills_empty_vectors() -> None:
    filled = fill_empty(np.array([[0.0, 0.0], [2.0, 0.0]]), np.random.default_rng(0))
    assert filled[0].sum() == 1 and np.array_equal(filled[1], [2.0, 0.0])
    nothing = np.zeros((50, 3), np.int64)
    assert not LPGNet(epsilon=math.inf).perturb_counts(nothing, math.inf, 0).any()
    published = LPGNet(epsilon=math.inf, variant="published").perturb_counts(nothing, math.inf, 0)
    assert (published.sum(axis=1) == 1).all()


def test_a_local_report_is_the_own_row_plus_noise_of_the_same_law() -> None:
    clusters = np.array([0, 1, 1, 2, 0])
    reports = np.stack([local_report([1, 2, 3, 3], clusters, 3, 1.0, 7, node=s) for s in range(4000)])
    assert reports.dtype == np.int64
    assert np.allclose(reports.mean(axis=0), [0, 2, 1], atol=0.25)
    q = math.exp(-1 / 2)
    assert np.abs(reports - [0, 2, 1]).mean() == pytest.approx(2 * q / (1 - q * q), rel=0.05)
    assert local_report([1], clusters, 3, 1.0).shape == (3,)
    for bad in (0.0, -1.0, math.inf, math.nan, "1", None):
        with pytest.raises(InputError, match="epsilon"):
            local_report([1], clusters, 3, bad)  # type: ignore[arg-type]


def test_one_seed_gives_every_node_and_layer_noise_of_its_own() -> None:
    clusters = np.zeros(40, int)
    reports = [
        tuple(local_report([], clusters, 8, 0.1, 3, node=node, layer=layer)) for node in range(40) for layer in (1, 2)
    ]
    assert len(set(reports)) == 80
    assert reports[5] == tuple(local_report([], clusters, 8, 0.1, 3, node=2, layer=2))
    with pytest.raises(InputError, match="node="):
        local_report([], clusters, 8, 0.1, seed=3)


@pytest.mark.parametrize(
    ("neighbours", "clusters", "why"),
    [
        ([-1], [0, 1, 0], "names node -1"),
        ([0, 9], [0, 1, 0], "names node 9"),
        ([0.5], [0, 1, 0], "whole node numbers"),
        ([0], [0, 1, 2], "0..1"),
        ([0], [0, 1, -1], "0..1"),
        ([0], [0.0, 1.0], "whole numbers"),
        ([0], 1, "one per node"),
    ],
)
def test_a_local_report_refuses_nodes_and_clusters_that_do_not_exist(
    neighbours: list[int], clusters: object, why: str
) -> None:
    with pytest.raises(GraphError, match=re.escape(why)):
        local_report(neighbours, np.array(clusters), 2, 1.0)


def test_a_file_is_charged_before_it_is_counted_and_its_counts_get_noise(tmp_path: Path) -> None:
    n = 4000
    path = tmp_path / "edges.csv"
    path.write_text("".join(f"{v},{v + 1}\n" for v in range(n - 1)))
    clusters, budget = np.arange(n) % 2, Budget(1.0)
    exact_counts = cluster_degrees_from_file(path, clusters, 2)
    first, second = (noisy_degrees_from_file(path, clusters, 2, 0.5, budget, seed=s) for s in (0, 1))
    assert first.dtype == np.int64 and first.shape == (n, 2) and not np.array_equal(first, second)
    q = math.exp(-1 / 4)
    assert np.abs(first - exact_counts).mean() == pytest.approx(2 * q / (1 - q * q), rel=0.06)
    assert [(c.epsilon, c.on) for c in budget.charges] == [(Fraction(1, 2), "graph")] * 2
    path.unlink()
    with pytest.raises(BudgetExceeded):
        noisy_degrees_from_file(path, clusters, 2, 0.5, budget)
    with pytest.raises(InputError, match="epsilon"):
        noisy_degrees_from_file(path, clusters, 2, math.inf, Budget(math.inf))
