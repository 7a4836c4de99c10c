"""Splits by name: the papers' rules, seeded and disjoint, with errors that say what to do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.errors import GraphError, InputError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.splits import ALIASES, apply_split, draw, training_graph


def labelled(n: int = 2000, classes: int = 4) -> Graph:
    return Graph.from_edges([[0], [1]], y=np.arange(n) % classes, name="toy")


def sizes(graph: Graph) -> list[int]:
    assert graph.masks is not None
    return [int(mask.sum()) for mask in graph.masks]


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("50:25:25", [1000, 500, 500]),
        ("64:16:20", [1280, 320, 400]),
        ("80:20", [1600, 400, 0]),
        ("20-per-class", [80, 500, 1000]),
        ("5-per-class/10/20", [20, 10, 20]),
        ("lpgnet-text", [80, 500, 1000]),
        ("lpgnet_code", [1280, 320, 400]),
        ("evolving", [1000, 500, 500]),
        ("lpgnet-bipartite", [700, 300, 1000]),
    ],
)
def test_rules_give_the_papers_sizes(split: str, expected: list[int]) -> None:
    graph = apply_split(labelled(), split)
    assert sizes(graph) == expected
    assert graph.split == split.replace("_", "-")


@given(st.integers(4, 200), st.sampled_from(["50:25:25", "64:16:20", "80:20", "1:1:1"]), st.integers(0, 5))
def test_ratio_splits_are_disjoint_and_cover_all_labelled_nodes(n: int, rule: str, seed: int) -> None:
    y = np.arange(n) % 3
    y[::4] = -1
    split = draw(Graph.from_edges([[0], [1]], y=y, num_nodes=n), rule, seed)
    assert (np.sum(split, axis=0) == (y >= 0)).all()


def test_seeds_change_and_fix_the_draw() -> None:
    graph = labelled()
    one, again, other = draw(graph, "80:20", 1), draw(graph, "80:20", 1), draw(graph, "80:20", 2)
    assert np.array_equal(one.train, again.train) and not np.array_equal(one.train, other.train)


def test_per_class_takes_exactly_k_of_every_class() -> None:
    graph = apply_split(labelled(), "20-per-class", seed=3)
    assert np.bincount(graph.y[graph.train_mask]).tolist() == [20] * 4


def test_a_stored_split_wins_over_a_rule_of_the_same_name() -> None:
    stored = np.zeros(2000, bool)
    stored[7] = True
    graph = labelled().with_split("evolving", {"train": stored}).with_split(None)
    assert sizes(apply_split(graph, "evolving")) == [1, 0, 0]
    assert sizes(apply_split(graph.with_split("0", {"train": stored}), 0)) == [1, 0, 0]


def test_aliases_are_rules() -> None:
    for alias in ALIASES:
        assert draw(labelled(), alias).train.any()


@pytest.mark.parametrize(
    ("split", "error", "message"),
    [
        ("publik", UnknownNameError, "unknown split of 'toy' 'publik'.*50:25:25"),
        ("public", UnknownNameError, "unknown split"),
        ("0:50:50", InputError, "gives training nothing"),
        ("0-per-class", InputError, "at least 1"),
        ("600-per-class", GraphError, "needs 600 nodes of every class, but class 0 of 'toy' has 500"),
        ("200-per-class", GraphError, "only 1200 left; use 50:25:25"),
    ],
)
def test_errors_say_what_to_do(split: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        apply_split(labelled(), split)


def test_per_class_needs_single_labels_and_ratios_need_nodes() -> None:
    with pytest.raises(GraphError, match="needs one class per node"):
        draw(Graph.from_edges([[0], [1]]), "20-per-class")
    with pytest.raises(GraphError, match="leaves no training node among 2"):
        draw(Graph.from_edges([[0], [1]]), "1:50:49")


def test_training_graph_hides_edges_to_nodes_not_yet_known() -> None:
    graph = Graph.from_edges([[0, 0, 1, 2], [1, 2, 3, 3]], y=[0, 0, 1, 1])
    masks = {p: np.arange(4) == i for i, p in enumerate(("train", "val", "test"))}
    graph = graph.with_split("evolving", masks)
    assert training_graph(graph).edge_index.tolist() == [[0], [1]]
    assert training_graph(graph, ("train",)).num_edges == 0
    assert training_graph(graph).num_nodes == 4
    with pytest.raises(UnknownNameError, match="valid"):
        training_graph(graph, ("valid",))
    with pytest.raises(GraphError, match="no active split"):
        training_graph(graph.with_split(None))
