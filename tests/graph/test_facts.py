from __future__ import annotations

import numpy as np
import pytest

from edgeveil.graph.facts import (
    class_shares,
    components,
    degree_quantiles,
    derived_columns,
    edge_homophily,
    pagerank,
)
from edgeveil.graph.graph import Graph


@pytest.fixture
def graph() -> Graph:
    rng = np.random.default_rng(0)
    weight = rng.random(200) ** 2
    edges = rng.choice(200, (2, 900), p=weight / weight.sum())
    return Graph.from_edges(edges, rng.normal(size=(200, 3)), np.arange(200) % 2, class_names=("even", "odd"))


def test_degree_and_pagerank_among_the_features_are_found(graph: Graph) -> None:
    assert derived_columns(graph) == []
    x = np.column_stack([graph.x[:, 0], np.log1p(graph.degrees), -pagerank(graph)])
    found = derived_columns(graph.with_features(x))
    assert [(d.column, d.like) for d in found] == [("column 2", "degree"), ("column 3", "PageRank")]
    assert found[1].correlation < -0.99 and "voids every epsilon" in str(found[0])


def test_pagerank_agrees_with_networkx(graph: Graph) -> None:
    networkx = pytest.importorskip("networkx")
    from edgeveil.graph.nx import to_networkx

    expected = networkx.pagerank(to_networkx(graph), tol=1e-12)
    np.testing.assert_allclose(pagerank(graph), [expected[i] for i in range(200)], atol=1e-6)


def test_plain_facts() -> None:
    graph = Graph.from_edges([[0, 1, 3], [1, 2, 4]], y=[0, 0, 1, 1, -1, 1], num_classes=2, class_names=("a", "b"))
    assert class_shares(graph) == {"a": 0.4, "b": 0.6}
    assert components(graph) == (3, 3) and edge_homophily(graph) == 0.5
    assert degree_quantiles(graph)[0.0] == 0 and degree_quantiles(graph)[1.0] == 2
