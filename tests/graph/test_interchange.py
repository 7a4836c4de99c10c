"""NetworkX both ways."""

from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.errors import GraphError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.nx import from_networkx, to_networkx
from edgeveil.graph.validate import Collapsed


@given(st.integers(2, 8), st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))), st.booleans())
def test_round_trip(n: int, picked: set[tuple[int, int]], named: bool) -> None:
    edges = np.array([(u % n, v % n) for u, v in picked if u % n != v % n], np.int64).reshape(-1, 2).T
    graph = Graph.from_edges(
        edges, np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2, train_mask=np.arange(n) == 0,
        node_ids=[f"n{i}" for i in range(n)] if named else None, name="g-twin", is_twin=True,
    )  # fmt: skip
    back = from_networkx(to_networkx(graph))
    assert back == graph and back.is_twin and back.name == "g-twin" and back.split == "given"
    assert (back.node_ids is None) == (graph.node_ids is None)


def test_structure_agrees_with_networkx() -> None:
    karate = networkx.karate_club_graph()
    graph = from_networkx(karate)
    assert (graph.num_nodes, graph.num_edges) == (34, 78) and graph.collapsed.weights
    assert graph.degrees.tolist() == [d for _, d in karate.degree()]


def test_directed_and_multi_graphs_are_collapsed() -> None:
    arrows = networkx.DiGraph([("a", "b"), ("b", "a"), ("b", "c"), ("c", "c")])
    graph = from_networkx(arrows, name="arrows")
    assert graph.node_ids.tolist() == ["a", "b", "c"] and graph.name == "arrows"
    assert graph.collapsed == Collapsed(self_loops=1, reversed=1, one_way=1)
    assert from_networkx(networkx.MultiGraph([(0, 1), (0, 1)])).collapsed.duplicates == 1
    mixed = networkx.Graph([(0, "x"), ("x", (1, 2))])
    assert from_networkx(mixed).node_ids.tolist() == ["(1, 2)", "0", "x"]
    assert from_networkx(networkx.Graph([(5, 9)])).node_ids.tolist() == [5, 9]


def test_partial_attributes() -> None:
    source = networkx.Graph([(0, 1)])
    source.nodes[0]["y"] = 1
    assert from_networkx(source).y.tolist() == [1, -1]
    source.nodes[1]["x"] = [1.0]
    with pytest.raises(GraphError, match="node 0 has no attribute 'x'"):
        from_networkx(source)
    with pytest.raises(GraphError, match="empty"):
        from_networkx(networkx.Graph())


def test_networkx_attributes_by_name() -> None:
    source = networkx.Graph()
    for node, age, club in (("ann", 31, "red"), ("bob", 40, "blue"), ("eve", 25, None)):
        source.add_node(node, age=age, height=1.5, **({} if club is None else {"club": club}))
    source.add_edge("ann", "eve")
    graph = from_networkx(source, features=["age", "height"], label="club")
    assert graph.x.tolist() == [[31, 1.5], [40, 1.5], [25, 1.5]] and graph.y.tolist() == [1, 0, -1]
    assert graph.public_nodes and graph.node_ids.tolist() == ["ann", "bob", "eve"]
    assert graph.class_names == ("blue", "red")
    with pytest.raises(UnknownNameError, match="Did you mean 'age'"):
        from_networkx(source, features=["agee"])
    with pytest.raises(GraphError, match="finite numbers"):
        from_networkx(_named(source), features=["club"])


def _named(source: Any) -> Any:
    source.nodes["eve"]["club"] = "red"
    return source
