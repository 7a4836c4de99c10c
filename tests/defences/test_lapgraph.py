"""LapGraph has the law of the dense algorithm. Each statistical check has a false-alarm rate of 1e-6."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from edgeveil.defences.lapgraph import LapGraph, expected_false_share
from edgeveil.errors import InputError
from edgeveil.graph.pairs import num_pairs
from laws import fits, same_law, same_rates
from zoo import bare, edge_bits


def naive(truth: np.ndarray, mechanism: LapGraph, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Algorithm 4, every cell of the upper triangle, a row per run."""
    count, cells = (float(e) for e in mechanism.split)
    top = np.clip(np.rint(truth.sum() + rng.laplace(0, 1 / count, (runs, 1))), 0, len(truth))
    noisy = truth + rng.laplace(0, 1 / cells, (runs, len(truth)))
    return noisy.argsort(axis=1).argsort(axis=1) >= len(truth) - top


@pytest.mark.fast("30-20-mechanism0-True", "9-20-mechanism1-False", "10-4-mechanism2-True")
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    ("n", "e", "mechanism"),
    [
        (30, 20, LapGraph(epsilon=4.0, count_share=0.25)),  # sparse: the threshold path
        (9, 20, LapGraph(epsilon=2.0, count_share=0.5)),  # more than half of the pairs: the dense path
        (10, 4, LapGraph(epsilon=1.0, count_epsilon=0.2)),  # the count is often clipped at 0
    ],
)
def test_same_law_as_the_algorithm_in_the_paper(n: int, e: int, mechanism: LapGraph, secure: bool) -> None:
    graph, runs = bare(n, e), 800 if secure else 3000
    truth, rng = edge_bits(graph), np.random.default_rng(1)
    fast = np.array([edge_bits(mechanism.perturb(graph, seed=None if secure else rng)) for _ in range(runs)])
    slow = naive(truth, mechanism, rng, 4000)
    same_rates(fast, slow)
    same_law(fast[:, truth].sum(axis=1), slow[:, truth].sum(axis=1))
    if not secure:  # the exact count noise is discrete, so totals differ slightly from a rounded continuous draw
        same_law(fast[:, ~truth].sum(axis=1), slow[:, ~truth].sum(axis=1))
        same_law(fast.sum(axis=1), slow.sum(axis=1))


@pytest.mark.slow
def test_secure_count_noise_is_discrete_laplace() -> None:
    graph, epsilon = bare(40, 60), Fraction(1)
    totals = [LapGraph(epsilon=2.0, count_share=0.5).perturb(graph).num_edges - 60 for _ in range(1000)]
    q = math.exp(-float(epsilon))
    fits(totals, {k: (1 - q) / (1 + q) * q ** abs(k) for k in range(-15, 16)})


@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize(("n", "e"), [(1, 0), (2, 0), (2, 1), (5, 0), (6, 15), (50, 1)])
def test_degenerate_graphs(n: int, e: int, seed: int | None) -> None:
    for epsilon in (0.1, 8.0):  # at 0.1 the count is wildly below 0 or above all pairs
        noisy = LapGraph(epsilon=epsilon).perturb(bare(n, e), seed=seed)
        assert noisy.num_nodes == n and 0 <= noisy.num_edges <= num_pairs(n)
        u, v = noisy.edge_index
        assert (u < v).all() and (np.diff(noisy.edge_ranks) > 0).all()


@pytest.mark.parametrize("seed", [5, None])
def test_false_edges_follow_the_formula(seed: int | None) -> None:
    graph = bare(3000, 10_000)
    for epsilon in (4.0, 8.0):
        noisy = LapGraph(epsilon=epsilon).perturb(graph, seed=seed)
        share = 1 - noisy.has_edges(*graph.edge_index).sum() / noisy.num_edges
        assert share == pytest.approx(expected_false_share(epsilon, 3000, 10_000), abs=0.025)


def test_seeds_reproduce_and_a_large_epsilon_changes_little() -> None:
    graph = bare(300, 900)
    a, b, c = (LapGraph(epsilon=4.0).perturb(graph, seed=s) for s in (1, 1, 2))
    assert a == b and a != c
    assert LapGraph(epsilon=4000.0).perturb(graph, seed=1) == graph
    assert LapGraph(epsilon=4000.0).perturb(graph) == graph


def test_the_split_is_exact_and_a_parameter() -> None:
    assert LapGraph(epsilon=4.0).split == (Fraction(4, 100), Fraction(396, 100))
    assert LapGraph(epsilon=0.3, count_share=0.1).split == (Fraction(3, 100), Fraction(27, 100))
    assert LapGraph(epsilon=1.0, count_epsilon=0.1).split == (Fraction(1, 10), Fraction(9, 10))
    guarantee = LapGraph(epsilon=4.0).mechanism_guarantee(None)
    assert sum(c.epsilon for c in guarantee.charges) == 4 and guarantee.epsilon == 4.0


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0.0},
        {"epsilon": None},
        {"epsilon": math.inf},
        {"epsilon": 1.0, "count_share": 0.0},
        {"epsilon": 1.0, "count_share": 1.0},
        {"epsilon": 1.0, "count_epsilon": 1.0},
        {"epsilon": 1.0, "count_epsilon": -1.0},
    ],
)
def test_bad_parameters(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        LapGraph(**bad)


@pytest.mark.data
def test_noisy_edges_of_cora_match_table_1_of_lpgnet() -> None:
    from edgeveil.graph.datasets import load
    from edgeveil.papers.published import find_table

    graph = load("cora")
    for printed in find_table("lpgnet", "1"):
        mechanism = LapGraph(epsilon=float(printed.epsilon), count_epsilon=0.1)
        noisy = [mechanism.perturb(graph, seed=seed) for seed in range(5)]
        share = np.mean([100 * (1 - g.has_edges(*graph.edge_index).sum() / g.num_edges) for g in noisy])
        assert abs(share - printed.mean) <= 1.0
