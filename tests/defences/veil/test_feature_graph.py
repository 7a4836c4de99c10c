"""The edge-free baseline never reads an edge, keeps what helps, and falls back to the MLP where nothing does."""

from __future__ import annotations

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.veil.edge_free import REFUSED, UNJUDGED
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.release.mixture_predictor import MixturePredictor
from zoo import toy


def helpful(seed: int = 0, signal: float = 1.0) -> Graph:
    """Six groups whose features fix the class; one labelled node in each, so similar nodes teach a lot."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(6), 50)
    words = signal * (rng.random((6, 60)) < 0.3)
    x = (rng.random((300, 60)) < 0.05 + 0.3 * words[group]).astype(np.float32)
    train = np.zeros(300, dtype=bool)
    train[np.arange(6) * 50] = True
    val = (np.arange(300) % 2 == 1) & ~train
    edges = rng.integers(300, size=(2, 400))
    return Graph.from_edges(edges, x=x, y=group % 3, train_mask=train, val_mask=val, test_mask=~val & ~train)


def other_edges(graph: Graph) -> Graph:
    edges = np.random.default_rng(99).integers(graph.num_nodes, size=(2, 200))
    m = graph.masks
    assert m is not None
    return Graph.from_edges(edges, x=graph.x, y=graph.y, train_mask=m.train, val_mask=m.val, test_mask=m.test)


def test_other_edges_give_the_same_release_to_the_bit() -> None:
    graph = helpful()
    mine, other = (ev.defend(g, "feature-graph", seed=3) for g in (graph, other_edges(graph)))
    np.testing.assert_array_equal(mine.predict(), other.predict())
    assert mine.guarantee == other.guarantee and mine.guarantee.epsilon == 0


def test_similar_nodes_teach_more_than_the_mlp_knows() -> None:
    graph = helpful()
    mixed, alone = ev.defend(graph, "feature-graph", seed=0), ev.defend(graph, "mlp", model="mlp", seed=0)
    assert isinstance(mixed.predictor, MixturePredictor) and not mixed.notes
    assert mixed.utility("test")["accuracy"] > alone.utility("test")["accuracy"] + 0.03


def test_useless_features_leave_the_mlp_alone() -> None:
    release = ev.defend(helpful(signal=0.0), "feature-graph", seed=1)
    assert release.notes == (REFUSED,) and release.predictor.kind == "tabular"


def test_without_validation_nodes_held_out_training_nodes_judge() -> None:
    """Three training nodes hold none out, so nothing can be judged; thirty hold out six."""
    few = helpful()
    assert few.masks is not None
    for train, unjudged in ((np.arange(300) < 3, True), (np.arange(300) % 10 == 0, False)):
        bare = Graph.from_edges(few.edge_index, x=few.x, y=few.y, train_mask=train, test_mask=~train)
        release = ev.defend(bare, "feature-graph", seed=0)
        assert (UNJUDGED in release.notes) == unjudged


def test_nodes_that_only_judged_train_what_answers() -> None:
    """Without validation nodes and without a gain, the release is the MLP that all training nodes train."""
    useless = helpful(signal=0.0)
    train = np.arange(300) % 3 == 0
    bare = Graph.from_edges(useless.edge_index, x=useless.x, y=useless.y, train_mask=train, test_mask=~train)
    release, mlp = ev.defend(bare, "feature-graph", seed=1), ev.defend(bare, "mlp", model="mlp", seed=1)
    assert release.notes == (REFUSED,)
    np.testing.assert_array_equal(release.predict(), mlp.predict())


def test_another_graph_is_answered_with_its_own_feature_graph() -> None:
    train, other = helpful(0), helpful(5)
    release = ev.defend(train, "feature-graph", seed=0, inference_graph=other, setting="inductive-different")
    assert release.predict().shape == (300, 3) and release.guarantee.epsilon == 0


def test_neighbours_must_be_a_count() -> None:
    with pytest.raises(InputError, match="neighbours must be a whole number"):
        ev.defend(toy(), "feature-graph", neighbours=0)
