"""EdgeRand has the law of one coin per pair. Each statistical check has a false-alarm rate of 1e-6."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from edgeveil.defences.edgerand import (
    EdgeRand,
    epsilon_from_s,
    expected_density,
    expected_false_share,
    s_from_epsilon,
    smallest_feasible_epsilon,
)
from edgeveil.errors import InputError, TooLarge
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs
from edgeveil.privacy.guarantee import SECURE, SEEDED
from laws import same_law, same_rates
from zoo import bare, edge_bits


def naive(graph: Graph, epsilon: float, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Algorithm 3, cell by cell, a row per run."""
    truth = edge_bits(graph)
    redraw = rng.random((runs, len(truth))) < s_from_epsilon(epsilon)
    return np.where(redraw, rng.random((runs, len(truth))) < 0.5, truth)


@pytest.mark.fast("0.5-False", "2.0-True")
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_same_law_as_the_algorithm_in_the_paper(epsilon: float, secure: bool) -> None:
    graph = bare(12, 15)
    truth, rng, runs = edge_bits(graph), np.random.default_rng(1), 3000
    mechanism = EdgeRand(epsilon=epsilon)
    fast = np.array([edge_bits(mechanism.perturb(graph, seed=None if secure else rng)) for _ in range(runs)])
    slow = naive(graph, epsilon, rng, runs)
    same_rates(fast, slow)
    same_law(fast[:, truth].sum(axis=1), slow[:, truth].sum(axis=1))
    same_law(fast[:, ~truth].sum(axis=1), slow[:, ~truth].sum(axis=1))
    same_rates(fast[:, :-1] & fast[:, 1:], slow[:, :-1] & slow[:, 1:])


@pytest.mark.parametrize("seed", [3, None])
def test_rates_on_a_large_graph(seed: int | None) -> None:
    graph = bare(3000, 10_000)
    noisy = EdgeRand(epsilon=4.0).perturb(graph, seed=seed)
    lie = 1 / (1 + math.exp(4))
    kept = int(noisy.has_edges(*graph.edge_index).sum())
    assert binomtest(graph.num_edges - kept, graph.num_edges, lie).pvalue > 1e-6
    assert binomtest(noisy.num_edges - kept, num_pairs(3000) - graph.num_edges, lie).pvalue > 1e-6


@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize(("n", "e"), [(1, 0), (2, 0), (2, 1), (3, 0), (6, 15), (50, 1)])
def test_degenerate_graphs(n: int, e: int, seed: int | None) -> None:
    noisy = EdgeRand(epsilon=1.0).perturb(bare(n, e), seed=seed)
    assert noisy.num_nodes == n
    u, v = noisy.edge_index
    assert (u < v).all() and (np.diff(noisy.edge_ranks) > 0).all()


def test_seeds_reproduce_and_the_rest_of_the_graph_stays() -> None:
    graph = bare(60, 100).with_features(np.eye(60)).with_labels(np.arange(60) % 3)
    a, b, c = (EdgeRand(epsilon=2.0).perturb(graph, seed=s) for s in (1, 1, 2))
    assert a == b and a != c
    assert a.x is graph.x and a.y is graph.y


def test_conversions() -> None:
    assert s_from_epsilon(1.0) == pytest.approx(0.5379, abs=1e-4)
    assert epsilon_from_s(s_from_epsilon(3.3)) == pytest.approx(3.3)
    assert expected_density(1.0, 0.0) > 0.25
    assert expected_false_share(50.0, 0.1) == pytest.approx(0.0, abs=1e-12)
    k, e = 0.01, 2.0
    false = (1 - k) / (1 + math.exp(e))
    assert expected_false_share(e, k) == pytest.approx(false / (false + k * math.exp(e) / (1 + math.exp(e))))
    for bad in (0.0, 1.0, -0.1):
        with pytest.raises(InputError, match="strictly between"):
            epsilon_from_s(bad)


def test_a_graph_that_would_not_fit_is_refused_before_anything_is_allocated() -> None:
    graph = bare(3000, 10_000)
    with pytest.raises(TooLarge, match=r"EdgeRand at epsilon 1 .* smallest epsilon that fits is"):
        EdgeRand(epsilon=1.0).perturb(graph, seed=0, memory=10**6)
    least = smallest_feasible_epsilon(graph, 10**6)
    EdgeRand(epsilon=least).perturb(graph, seed=0, memory=10**6)
    with pytest.raises(TooLarge):
        EdgeRand(epsilon=least - 0.05).perturb(graph, seed=0, memory=10**6)
    assert smallest_feasible_epsilon(graph, 1000) == math.inf


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, None])
def test_bad_epsilon(bad: float | None) -> None:
    with pytest.raises(InputError):
        EdgeRand(epsilon=bad)


def test_guarantee() -> None:
    mechanism = EdgeRand(epsilon=4.0)
    assert mechanism.mechanism_guarantee(None).randomness == SECURE
    seeded = mechanism.mechanism_guarantee(0)
    assert (seeded.status, seeded.epsilon, seeded.randomness) == ("sound", 4.0, SEEDED)
    assert sum(c.epsilon for c in seeded.charges) == 4


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_flickr_size_at_epsilon_3_is_perturbed_and_propagated_within_8_gb() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "bench_mechanisms.py"
    done = subprocess.run([sys.executable, str(script), "--flickr-child"], capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["edges"] > 1.8e8
    assert figures["peak_bytes"] < 8e9
