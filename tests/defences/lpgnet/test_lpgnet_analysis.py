"""Homophily, noisy edges, cosines and sweet spots against definitions written out naively."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from edgeveil.defences.lpgnet.lpgnet_analysis import (
    cluster_cosines,
    homophily_by_cluster,
    noisy_edge_share,
    plot_homophily,
    sweet_spot,
)
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.metrics.utility import homophily


def test_homophily_is_the_mean_share_of_neighbours_in_the_own_cluster() -> None:
    graph = Graph.from_edges(np.array([[0, 0, 1, 3], [1, 2, 2, 4]]), num_nodes=6)
    labels = np.array([0, 0, 1, 1, 1, 2])
    found = homophily_by_cluster(graph, labels, 4)
    expected = [(1 / 2 + 1 / 2) / 2, (0 / 2 + 1 + 1) / 3]
    assert np.allclose(found[:2], expected) and np.isnan(found[2:]).all()


def test_both_names_of_homophily_are_one_measure() -> None:
    rng = np.random.default_rng(1)
    graph = Graph.from_edges(np.unique(np.sort(rng.integers(0, 40, (2, 60)), axis=0), axis=1), num_nodes=40)
    labels = rng.integers(0, 3, 40)
    assert np.array_equal(homophily_by_cluster(graph, labels, 4), homophily(graph.adjacency, labels, 4), equal_nan=True)
    with pytest.raises(InputError, match="clusters must lie"):
        homophily_by_cluster(graph, labels, 2)


def test_noisy_edges_are_those_that_are_not_true() -> None:
    graph = Graph.from_edges(np.array([[0, 1], [1, 2]]), num_nodes=5)
    noisy = Graph.from_edges(np.array([[0, 2, 3, 0], [1, 3, 4, 4]]), num_nodes=5)
    assert noisy_edge_share(graph, noisy) == 0.75
    assert noisy_edge_share(graph, graph) == 0.0
    assert noisy_edge_share(graph, graph.with_edges(np.empty((2, 0), int))) == 0.0
    with pytest.raises(InputError, match="share their nodes"):
        noisy_edge_share(graph, Graph.from_edges(np.array([[0], [1]]), num_nodes=4))


def test_cosines_equal_the_mean_over_all_pairs() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(25, 4)), rng.integers(0, 3, 25)
    x[7] = 0.0
    unit = {i: x[i] / np.linalg.norm(x[i]) for i in range(25) if i != 7}
    same, other = [], []
    for i, j in itertools.combinations(unit, 2):
        (same if labels[i] == labels[j] else other).append(unit[i] @ unit[j])
    found = cluster_cosines(x, labels)
    assert found.within == pytest.approx(np.mean(same)) and found.between == pytest.approx(np.mean(other))
    first = [unit[i] @ unit[j] for i, j in itertools.combinations(unit, 2) if labels[i] == labels[j] == 0]
    assert found.per_cluster[0] == pytest.approx(np.mean(first))
    with pytest.raises(InputError, match="one label per vector"):
        cluster_cosines(x, labels[:3])


@pytest.mark.parametrize(
    ("utility", "leakage", "said"),
    [
        (0.7, 0.8, "sweet spot"),
        (0.6, 0.8, "no better than an MLP"),
        (0.7, 0.95, "leaks like a GCN"),
        (0.5, 0.99, "neither useful nor private"),
    ],
)
def test_sweet_spots_beat_the_mlp_and_leak_less_than_the_gcn(utility: float, leakage: float, said: str) -> None:
    assert sweet_spot(utility, leakage, mlp_utility=0.6, gcn_leakage=0.95) == said


def test_sweet_spot_refuses_missing_figures() -> None:
    with pytest.raises(InputError, match="leakage"):
        sweet_spot(0.7, float("nan"), mlp_utility=0.6, gcn_leakage=0.9)


def test_homophily_plot_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = plot_homophily({"truth": np.array([0.8, 0.6]), "MLP": np.array([0.5, 0.4])}, tmp_path / "plot.svg")
    assert path.read_text().count("<svg") == 1
