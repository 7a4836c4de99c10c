"""Eclipse: the values are noised by what the paper charges, the vectors are not, and that refutes it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences import eclipse as module
from edgeveil.defences.eclipse import Eclipse
from edgeveil.errors import InputError, TooLarge
from edgeveil.graph.graph import Graph
from edgeveil.privacy.experiments import Effort
from edgeveil.privacy.verify import verify
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")


def random_graph(n: int, seed: int) -> Graph:
    return Graph.from_edges(np.random.default_rng(seed).integers(n, size=(2, 3 * n)), num_nodes=n)


@pytest.mark.parametrize("n", [60, 500])
def test_without_noise_it_is_the_best_low_rank_graph(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(n, 1)
    vectors, values = module._largest(graph, 8)
    exact = np.linalg.svd(graph.adjacency.toarray())[1]
    np.testing.assert_allclose(np.abs(values), exact[:8], atol=1e-8)
    np.testing.assert_allclose(graph.adjacency @ vectors, vectors * values, atol=1e-6)


def test_one_edge_moves_the_values_by_at_most_the_root_of_two() -> None:
    rng = np.random.default_rng(0)
    for seed in range(30):
        graph = random_graph(12, seed)
        u, v = rng.choice(12, 2, replace=False)
        ranks = np.setxor1d(graph.edge_ranks, Graph.from_edges([[u], [v]], num_nodes=12).edge_ranks)
        pair = [np.abs(module._largest(g, 12)[1]) for g in (graph, graph.with_edge_ranks(ranks))]
        assert np.linalg.norm(pair[0] - pair[1]) <= math.sqrt(2) + 1e-9


def test_the_noise_has_the_classic_scale() -> None:
    """Standard error of the deviation of 3,000 values: 1.3 %."""
    defence, graph = Eclipse(epsilon=2.0, rank=30), random_graph(60, 0)
    exact = np.abs(module._largest(graph, 30)[1])
    drawn = np.concatenate([defence.spectrum(graph, seed).values - exact for seed in range(100)])
    sigma = math.sqrt(2) * math.sqrt(2 * math.log(1.25e6)) / 2
    assert drawn.std() == pytest.approx(sigma, rel=0.06)


def test_the_vectors_carry_no_noise_and_differ_between_neighbours() -> None:
    found = verify(Eclipse(epsilon=1.0), Effort(runs=20, canaries=100))
    assert found.verdict == "refuted" and math.isinf(found.lower_bound)
    assert "cannot occur on its neighbour" in max(found.findings, key=lambda f: f.lower_bound).detail


def test_a_release_claims_nothing_and_says_why() -> None:
    release = ev.defend(toy(), "eclipse", epsilon=1.0, seed=0)
    assert release.guarantee.status == "refuted" and release.guarantee.epsilon is None
    assert "singular vectors" in release.guarantee.statement()
    kept = release.stored_graph
    assert kept is not None and kept.data.min() > 0 and not kept.diagonal().any()


@pytest.mark.parametrize("setting", ["inductive-different", "inductive-evolving"])
def test_other_settings_train_on_noisy_products(setting: str) -> None:
    other = toy(seed=1) if setting == "inductive-different" else None
    release = ev.defend(toy(), "eclipse", epsilon=8.0, seed=0, inference_graph=other, setting=setting)
    assert release.predict().shape[0] == 60


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="rank"):
        Eclipse(epsilon=1.0, rank=0)
    with pytest.raises(TooLarge, match="veil-counts"):
        Eclipse(epsilon=1.0).check_size(Graph.from_edges([[0], [1]], num_nodes=10_000))
