"""The graph keeps its invariants, says what it dropped, and never changes."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgeveil.errors import GraphError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Collapsed


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    n = draw(st.integers(1, 12))
    edges = draw(hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(0, 40)), elements=st.integers(0, n - 1)))
    return edges, n


@given(edge_lists())
def test_any_edge_list_becomes_a_simple_undirected_graph(case: tuple[np.ndarray, int]) -> None:
    edges, n = case
    graph = Graph.from_edges(edges, num_nodes=n)
    wanted = {(min(u, v), max(u, v)) for u, v in edges.T.tolist() if u != v}
    assert sorted(wanted) == list(map(tuple, graph.edge_index.T.tolist()))
    lost = graph.collapsed
    assert lost.self_loops == sum(u == v for u, v in edges.T.tolist())
    assert lost.self_loops + lost.duplicates + lost.reversed + graph.num_edges == edges.shape[1]
    dense = graph.adjacency.toarray()
    assert (dense == dense.T).all() and not dense.diagonal().any() and dense.sum() == 2 * len(wanted)
    assert graph.degrees.tolist() == dense.sum(axis=0).astype(int).tolist()
    assert graph.with_edge_ranks(graph.edge_ranks) == graph
    assert graph.has_edges(*np.divmod(np.arange(n * n), n)).reshape(n, n).tolist() == (dense > 0).tolist()
    assert all(graph.neighbours(v).tolist() == np.flatnonzero(dense[v]).tolist() for v in range(n))


@given(edge_lists(), st.randoms(use_true_random=False))
def test_fingerprints_ignore_how_edges_were_written(case: tuple[np.ndarray, int], random: object) -> None:
    edges, n = case
    shuffled = edges[:, ::-1][::-1]
    assert Graph.from_edges(edges, num_nodes=n).fingerprint == Graph.from_edges(shuffled, num_nodes=n).fingerprint


def test_fingerprint_sees_every_part_and_is_the_same_dense_or_sparse() -> None:
    x = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    base = Graph.from_edges([[0], [1]], x, [0, 1, 0])
    assert base.fingerprint == Graph.from_edges([[0], [1]], sp.csr_matrix(x), [0, 1, 0]).fingerprint
    mask = np.array([True, False, False])
    others = [
        Graph.from_edges([[0], [2]], x, [0, 1, 0]),
        Graph.from_edges([[0], [1]], x + 1, [0, 1, 0]),
        Graph.from_edges([[0], [1]], x, [0, 1, 1]),
        Graph.from_edges([[0], [1]], x, [0, 1, 0], num_classes=3),
        Graph.from_edges([[0], [1]], x, [0, 1, 0], train_mask=mask),
    ]
    assert len({g.fingerprint for g in [base, *others]}) == 6


def test_what_was_dropped_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "edgeveil"):
        graph = Graph.from_edges([[0, 1, 0, 2], [1, 0, 1, 2]], name="tiny")
    assert graph.collapsed == Collapsed(self_loops=1, duplicates=1, reversed=1)
    assert "tiny: dropped 1 self-loops, 1 duplicate edges, 1 opposite directions merged" in caplog.text
    assert str(Collapsed(weights=True, one_way=3)) == "dropped the direction of 3 edges, all edge weights"
    assert str(Collapsed()) == "nothing dropped"


def test_arrays_are_read_only() -> None:
    graph = Graph.from_edges([[0], [1]], np.eye(2), [0, 1], train_mask=np.array([True, False]))
    for array in (graph.x, graph.y, graph.edge_index, graph.indices, graph.indptr, graph.train_mask, graph.degrees):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        graph.adjacency.data[0] = 2


def test_input_arrays_are_copied() -> None:
    x, y = np.eye(2), np.array([0, 1])
    graph = Graph.from_edges([[0], [1]], x, y)
    x[0, 0], y[0] = 9, 1
    assert graph.x[0, 0] == 1 and graph.y[0] == 0


def test_subgraph_renumbers_in_the_given_order() -> None:
    graph = Graph.from_edges(
        [[0, 1, 2, 0], [1, 2, 3, 3]], np.arange(8.0).reshape(4, 2), [0, 1, 0, 1],
        train_mask=np.array([1, 0, 0, 1], bool), node_ids=list("abcd"),
    )  # fmt: skip
    part = graph.subgraph([3, 0, 2])
    assert part.edge_index.tolist() == [[0, 0], [1, 2]]
    assert part.x.tolist() == [[6, 7], [0, 1], [4, 5]] and part.y.tolist() == [1, 0, 0]
    assert part.train_mask is not None and part.train_mask.tolist() == [True, True, False]
    assert part.node_ids is not None and part.node_ids.tolist() == ["d", "a", "c"]
    assert graph.subgraph(np.array([True, True, False, False])).num_edges == 1
    with pytest.raises(GraphError, match="repeated"):
        graph.subgraph([1, 1])
    with pytest.raises(GraphError, match=r"0\.\.3"):
        graph.subgraph([4])


def test_splits_by_name() -> None:
    graph = Graph.from_edges([[0], [1]], y=[0, 1])
    split = {"train": np.array([True, False]), "test": np.array([False, True])}
    marked = graph.with_split("mine", split)
    assert marked.split == "mine" and marked.val_mask is not None and not marked.val_mask.any()
    assert graph.masks is None and marked.with_split(None).masks is None
    with pytest.raises(UnknownNameError, match=r"'mne'.*'mine'"):
        marked.with_split("mne")


def test_derived_graphs_share_the_rest() -> None:
    graph = Graph.from_edges([[0, 1], [1, 2]], np.eye(3), [0, 1, 1])
    assert graph.with_edges([[2], [0]]).edge_index.tolist() == [[0], [2]]
    assert graph.with_features(np.ones((3, 5))).num_features == 5
    assert graph.with_features(None).x is None
    assert graph.with_labels([0, 1, 2]).num_classes == 3
    assert graph.named("other").name == "other" and "other" in repr(graph.named("other"))
    assert "synthetic twin" in repr(Graph.from_edges([[0], [1]], is_twin=True))
    assert graph.density == pytest.approx(2 / 3)
    assert hash(graph) == hash(graph.named("other")) and graph != graph.with_labels([0, 0, 0])


@pytest.mark.parametrize(
    ("edges", "kwargs", "message"),
    [
        ([[0], [5]], {"num_nodes": 3}, r"edge 0 names node 5, but the graph has nodes 0\.\.2"),
        ([[0], [-1]], {"num_nodes": 3}, "names node -1"),
        ([[-1], [0]], {}, "name node -1; nodes are numbered from 0"),
        ([[0, 1, 2], [1, 2, 3]], {"x": np.eye(3)}, "node 3"),
        (np.zeros((4, 2), int), {}, r"transposed: pass edges\.T"),
        ([[0.5], [1]], {}, "whole node numbers"),
        ([["a"], ["b"]], {}, "map node ids"),
        (np.zeros((2, 0), int), {}, "graph is empty"),
        ([[0], [1]], {"x": np.eye(2), "y": [0, 1, 1]}, r"contradictory: \{'x': 2, 'y': 3\}"),
        ([[0], [1]], {"x": np.array([[1.0], [np.nan]])}, r"feature \[1, 0\] is nan"),
        ([[0], [1]], {"x": sp.csr_matrix([[0, np.inf], [1.0, 0]])}, r"feature \[0, 1\] is inf"),
        ([[0], [1]], {"x": np.array([["a"], ["b"]])}, "numbers, got dtype"),
        ([[0], [1]], {"y": [0, 7], "num_classes": 3}, "node 1 has label 7"),
        ([[0], [1]], {"y": [0, -2]}, "node 1 has label -2"),
        ([[0], [1]], {"y": [0.5, 1]}, "whole class numbers"),
        ([[0], [1]], {"y": ["a", "b"]}, "class numbers, got dtype"),
        ([[0], [1]], {"y": [[0, 2], [1, 0]]}, "only 0 and 1"),
        ([[0], [1]], {"train_mask": np.array([1, 0])}, "train mask of split 'given' must be boolean"),
        ([[0], [1]], {"train_mask": np.array([True, False]), "test_mask": np.array([True, True])}, "node 0 is in both"),
        ([[0], [1]], {"y": [0, -1], "test_mask": np.array([False, True])}, "uses node 1, which has no label"),
        ([[0], [1]], {"node_ids": ["a"]}, "name all 2 nodes, got 1"),
        ([[0], [1]], {"num_nodes": 3_037_000_500}, "3037000500 nodes: edges are sorted by 64-bit keys"),
        ([[0], [1]], {"num_nodes": 2**33}, "8589934592 nodes"),
    ],
)
def test_errors_name_the_value(edges: object, kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Graph.from_edges(edges, **kwargs)


def test_lookups_outside_the_graph_are_errors() -> None:
    graph = Graph.from_edges([[0], [1]])
    with pytest.raises(GraphError, match=r"pair \(0, 9\)"):
        graph.has_edges([0, 0], [1, 9])
    with pytest.raises(GraphError, match="node -1"):
        graph.neighbours(-1)
    assert graph.has_edges(0, [0, 1]).tolist() == [False, True]
    assert not Graph.from_edges(np.zeros((2, 0), int), num_nodes=2).has_edges(0, 1).any()


def test_multilabel_and_unlabelled() -> None:
    multi = Graph.from_edges([[0], [1]], y=[[1, 0, 1], [0, 0, 0]])
    assert multi.multilabel and multi.num_classes == 3 and multi.y.dtype == np.uint8
    assert "3 labels" in repr(multi)
    assert Graph.from_edges([[0], [1]], y=[0, -1]).y.tolist() == [0, -1]
