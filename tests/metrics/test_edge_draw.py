"""Nodes drawn by edges: exact chances, figures that are consistent for all pairs of the graph, errors of the right size."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest

from edgeveil.defences.defend import defend
from edgeveil.graph.graph import Graph
from edgeveil.metrics.edge_draw import EdgeDraw, draw_by_edges, leakage_error
from edgeveil.metrics.protocol import belief_figures
from edgeveil.models.settings import TrainSpec
from edgeveil.runs.run_config import AttackConfig
from edgeveil.runs.score import attack_service, draw_sample, figures_of, rows_of, service_of
from zoo import toy


def heavy(nodes: int, edges: int, seed: int = 0) -> Graph:
    """Degrees with a heavy tail: ends are drawn with chances that fall like a power."""
    rng = np.random.default_rng(seed)
    chance = (1 + np.arange(nodes)) ** -0.6
    return Graph.from_edges(rng.choice(nodes, (2, edges), p=chance / chance.sum()), num_nodes=nodes)


def all_pairs(nodes: np.ndarray) -> np.ndarray:
    i, j = np.triu_indices(len(nodes), 1)
    return np.stack([nodes[i], nodes[j]])


def test_chances_are_those_of_all_draws_counted() -> None:
    """A hub, a path and a lonely node; every choice of 2 of 5 edges and 2 of 6 nodes is listed."""
    graph = Graph.from_edges(np.array([[0, 0, 0, 1, 2], [1, 2, 3, 2, 4]]), num_nodes=6)
    ends, pairs = graph.edge_index, all_pairs(np.arange(6))
    seen, draws = np.zeros(pairs.shape[1]), 0
    for edges in itertools.combinations(range(5), 2):
        for others in itertools.combinations(range(6), 2):
            drawn = set(ends[:, list(edges)].ravel().tolist()) | set(others)
            seen += [u in drawn and v in drawn for u, v in pairs.T]
            draws += 1
    assert EdgeDraw(np.arange(6), 2, 2).chances(graph, pairs) == pytest.approx(seen / draws, abs=1e-14)


def test_small_chances_keep_their_digits() -> None:
    """Two nodes without edges among ten million are drawn with chance m(m-1)/n(n-1)."""
    n, m = 10_000_000, 1000
    graph = Graph.from_edges(np.array([[0, 2], [1, 3]]), num_nodes=n)
    assert EdgeDraw(np.arange(6), 1, m).chances(graph, np.array([[4], [5]]))[0] == pytest.approx(
        m * (m - 1) / (n * (n - 1)), rel=1e-9
    )


@lru_cache
def noise_of_pairs(nodes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=nodes * (nodes + 1))


def scores_of(graph: Graph, pairs: np.ndarray, seed: int = 3) -> np.ndarray:
    """An attack that sees edges of hubs better than others, the same for a pair whoever else is attacked."""
    u, v = np.sort(pairs, axis=0)
    noise = noise_of_pairs(graph.num_nodes, seed)
    hub = np.log1p(np.minimum(graph.degrees[u], graph.degrees[v]))
    return np.asarray(noise[u * graph.num_nodes + v] + graph.has_edges(u, v) * (0.8 + 1.2 * hub))


@pytest.fixture(scope="module")
def drawn() -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Leakage of all pairs; per draw the weighted estimate, its error and what the sample says without weights."""
    graph = heavy(900, 1500)
    pairs = all_pairs(np.arange(graph.num_nodes))
    truth = belief_figures(scores_of(graph, pairs), graph.has_edges(*pairs), {"k": 1.0}, rounded=False)["k"]
    found = []
    for seed in range(150):
        draw = draw_by_edges(graph, 240, seed)
        assert draw is not None
        part = all_pairs(draw.nodes)
        edges, scores = graph.has_edges(*part), scores_of(graph, part)
        weights = draw.weights(graph, part, graph.num_edges)
        estimate = belief_figures(scores, edges, {"k": 1.0}, rounded=False, weights=weights)["k"]
        bare = belief_figures(scores, edges, {"k": 1.0}, rounded=False)["k"]
        found.append((estimate["leakage"], leakage_error(scores, edges, weights), bare["leakage"], estimate["auc"]))
    table = np.array(found)
    assert abs(table[:, 3].mean() - truth["auc"]) < 4 * table[:, 3].std() / math.sqrt(len(table)) + 0.002
    return truth["leakage"], table[:, 0], table[:, 1], table[:, 2]


@pytest.mark.slow
def test_the_mean_estimate_is_the_leakage_of_all_pairs(drawn: tuple[float, np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Within four standard errors of 150 draws and one point of bias; without weights it is off by far more."""
    truth, estimates, _, bare = drawn
    assert 0.2 < truth < 0.8
    assert abs(estimates.mean() - truth) < 4 * estimates.std() / math.sqrt(len(estimates)) + 0.01
    assert abs(bare.mean() - truth) > 0.1


@pytest.mark.slow
def test_the_stated_error_is_the_spread_of_the_estimates(
    drawn: tuple[float, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    truth, estimates, errors, _ = drawn
    assert 0.8 < estimates.std() / errors.mean() < 1.25
    assert (abs(estimates - truth) < 2 * errors).mean() > 0.9


def test_a_sparse_graph_of_200_000_nodes_has_enough_true_edges() -> None:
    """300 nodes drawn with equal chances hold about one of its 400,000 edges."""
    graph = heavy(200_000, 400_000)
    for seed in range(3):
        draw = draw_by_edges(graph, 300, seed)
        assert draw is not None and len(draw.nodes) <= 300
        assert np.isin(graph.edge_index, draw.nodes).all(axis=0).sum() >= 75


def test_all_nodes_are_attacked_where_there_are_no_more() -> None:
    assert draw_by_edges(toy(), 60, 0) is None


def test_rows_of_such_a_draw_are_about_the_whole_graph() -> None:
    """The engine: chance is the graph's density, an attack that knows everything leaks all, and the error is stated."""
    rng = np.random.default_rng(1)
    base = heavy(300, 450)
    y = np.arange(300) % 3
    graph = Graph.from_edges(base.edge_index, x=rng.normal(size=(300, 4)).astype(np.float32), y=y)
    release = defend(graph, "none", seed=0, train=TrainSpec(epochs=3))
    configs = tuple(
        AttackConfig(name=name, nodes=80, drawn="edges", density="exact", sample_seeds=(5,), where_it_fits=True)
        for name in ("stored-graph", "random", "lsa2-attr")
    )
    parts = {p.config.name: p for p in attack_service(service_of(release), graph, configs, 0)}
    labels = {"dataset": "toy", "defence": "none", "params": {}, "seed": 0}
    row = next(iter(rows_of(parts["stored-graph"], labels)))
    assert row.leakage == pytest.approx(1) and row.params["drawn"] == "edges"
    assert row.chance == pytest.approx(graph.density) and row.n_edges is not None and row.n_edges >= 20
    assert row.leakage_error == pytest.approx(0, abs=1e-9)
    guess = figures_of(parts["random"])["k"]
    assert guess["leakage"] == pytest.approx(graph.density, abs=0.1)
    nodes = draw_sample(graph, configs[0], "unconstrained", 5)[0]
    assert nodes is not None and row.n_nodes == len(nodes) <= 80
    assert parts["stored-graph"].named.sum() == row.n_edges
