"""The published variant against an oracle written, entry by entry, from docs/graphprivatizer.md "Two variants"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from edgeveil.defences.graphprivatizer.graphprivatizer import GraphPrivatizer
from edgeveil.defences.graphprivatizer.replacement import Candidates, Lists
from edgeveil.defences.graphprivatizer.similarity import mixed_similarity
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph

STRATEGIES = ("threshold", "most-similar")
DELTAS = {"cosine": (-1.0, 0.0, 0.1), "euclidean": (0.0, 0.5, 0.9)}


def random_graph(seed: int, n: int = 12) -> Graph:
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n, 1)
    keep = rng.random(len(u)) < 0.3
    return Graph.from_edges(np.stack([u[keep], v[keep]]), x=0.3 * rng.normal(size=(n, 4)), y=np.arange(n) % 3)


def one_step(graph: Graph, u: int) -> np.ndarray:
    """Node u after one step of KProp: the sum of x_w / sqrt(d_u d_w) over its neighbours."""
    out = np.zeros(graph.x.shape[1])
    for w in graph.neighbours(u):
        out += graph.x[w] / math.sqrt(graph.degrees[u] * graph.degrees[w])
    return out


def compared(a: np.ndarray, b: np.ndarray, metric: str) -> float:
    """The cosine, or the distance itself."""
    if metric == "euclidean":
        return math.sqrt(sum((a - b) ** 2))
    return float(sum(a * b)) / (math.sqrt(sum(a * a)) * math.sqrt(sum(b * b)))


def naive_similarity(graph: Graph, u: int, w: int, alpha: float, metric: str) -> float:
    plain = compared(graph.x[u], graph.x[w], metric)
    near = compared(one_step(graph, u), one_step(graph, w), metric)
    return alpha * plain + (1 - alpha) * near


def naive_candidates(
    graph: Graph, v: int, u: int, *, strategy: str, alpha: float, delta: float, metric: str
) -> set[int]:
    if graph.degrees[u] == 1:
        return set()
    scored = [(naive_similarity(graph, u, int(w), alpha, metric), int(w)) for w in sorted(graph.neighbours(u))]
    assert all(abs(s - delta) > 1e-9 for s, _ in scored)
    if strategy == "most-similar":
        scored = [max(scored)]
    passing = [w for s, w in scored if s > delta]
    if strategy == "threshold" and v < len(passing):
        del passing[v]  # the id, used as a position
    return set(passing)


def options(found: Candidates, entry: int) -> set[int]:
    pick = np.arange(found.count[entry])
    pick += (found.skip[entry] >= 0) & (pick >= found.skip[entry])
    return set(found.pool[found.start[entry] + pick].tolist())


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_alpha_weighs_the_plain_features_and_the_mix_comes_last(alpha: float, metric: str) -> None:
    graph = random_graph(0)
    found = mixed_similarity(FeatureMatrix.wrap(graph.x), graph.adjacency, graph.edge_index, alpha, metric)
    want = [naive_similarity(graph, u, w, alpha, metric) for u, w in graph.edge_index.T.tolist()]
    assert np.allclose(found, want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_candidates_are_those_of_the_authors_code(strategy: Any, metric: str) -> None:
    sizes = set()
    for seed in range(4):
        graph = random_graph(seed)
        lists = Lists(graph.adjacency)
        for delta in DELTAS[metric]:
            gp = GraphPrivatizer(
                epsilon=1.0, strategy=strategy, alpha=0.2, delta=delta, metric=metric, variant="published"
            )
            found = gp.candidates(graph, FeatureMatrix.wrap(graph.x), lists)
            for entry, (v, u) in enumerate(zip(lists.row.tolist(), lists.column.tolist(), strict=True)):
                want = naive_candidates(graph, v, u, strategy=strategy, alpha=0.2, delta=delta, metric=metric)
                assert options(found, entry) == want
                sizes.add(len(want))
    assert sizes >= ({0, 1} if strategy == "most-similar" else {0, 1, 2, 3})


def test_an_id_below_the_number_of_candidates_leaves_out_another_node() -> None:
    """Hub 0 of a star has the candidates 1, 2, 3 in positions 0, 1, 2."""
    star = Graph.from_edges(np.array([[0, 0, 0], [1, 2, 3]]), x=np.ones((4, 2)))
    gp = GraphPrivatizer(epsilon=1.0, alpha=0.2, delta=-1.0, variant="published")
    lists = Lists(star.adjacency)
    found = gp.candidates(star, FeatureMatrix.wrap(star.x), lists)
    assert [options(found, int(lists.indptr[v])) for v in (1, 2, 3)] == [{1, 3}, {1, 2}, {1, 2, 3}]


def test_a_node_sends_to_its_noisy_list() -> None:
    """Path 0-1-2, `directed[target, row]`: node 1 lists two leaves and keeps them, node 0 lists 1 or 2."""
    path = Graph.from_edges(np.array([[0, 1], [1, 2]]), x=np.ones((3, 2)), y=np.arange(3))
    gp = GraphPrivatizer(epsilon=0.1, delta=-1.0, variant="published", epsilon_x=math.inf, epsilon_y=math.inf)
    sent = [gp.perturb(path, seed=seed).directed.toarray() > 0 for seed in range(40)]
    assert all(d[0, 1] and d[2, 1] for d in sent)
    assert {tuple(d[:, 0].tolist()) for d in sent} == {(False, True, False), (False, False, True)}
