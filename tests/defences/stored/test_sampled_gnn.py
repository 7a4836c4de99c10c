"""Attacks that read only neighbourhoods find exactly what attacks on the whole graph find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgeveil.attacks.run_attack import attack
from edgeveil.defences.stored.sampled_gnn import SampledGNN, fit_on_samples, part_adjacency
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.scaling import Scaling
from edgeveil.graph.splits import apply_split
from edgeveil.graph.stored.graph_in_files import StoredGraph, open_graph
from edgeveil.graph.stored.heavy_tailed import HeavyTailed
from edgeveil.models.assemble import build, predict_logits
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.predictors import GraphPredictor
from edgeveil.release.release import Release
from edgeveil.release.target import Target


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredGraph]:
    folder: Path = tmp_path_factory.mktemp("graph")
    files = HeavyTailed(nodes=3000, edges=4500, features=5, classes=3, exponent=3.5, signal=1.0).write(folder)
    with open_graph(*files, threads=1) as graph:
        yield graph.with_nodes(apply_split(graph.nodes, "50:25:25", 0))


@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "graphconv"])
@pytest.mark.parametrize("mode", ["exact", "query"])
def test_attacks_on_neighbourhoods_equal_those_on_the_whole_graph(stored: StoredGraph, name: str, mode: str) -> None:
    spec = ModelSpec(name=name, hidden=8, layers=2)
    whole, scaler = stored.to_graph(), Scaling("none")
    model = build(spec, 5, 3, seed=4).eval()
    nodes = np.sort(np.random.default_rng(1).choice(3000, 25, replace=False))
    nodes = np.union1d(nodes, whole.neighbours(int(nodes[0])))[:40]
    at, near = SampledGNN(spec, model, scaler).around(stored, nodes)
    full = Release(
        defence="none", guarantee=Guarantee(status="none", reason="test"),
        predictor=GraphPredictor(spec, model, whole.adjacency), matrix=FeatureMatrix.wrap(np.asarray(whole.x, np.float64)),
    )  # fmt: skip
    assert near.num_nodes < 0.7 * full.num_nodes
    np.testing.assert_allclose(near.predict(nodes=at), full.predict(nodes=nodes), atol=1e-10)
    found = [
        attack(Target.local(release), "linkteller", chosen, mode=mode).scores
        for release, chosen in ((near, at), (full, nodes))
    ]
    assert np.max(found[1]) > 0
    np.testing.assert_allclose(found[0], found[1], atol=1e-6 * np.max(found[1]))


def test_without_true_degrees_the_answers_differ(stored: StoredGraph) -> None:
    """The arc to the last node is what makes a boundary node's degree right."""
    spec, whole = ModelSpec(name="gcn", hidden=8, layers=1), stored.to_graph()
    model = build(spec, 5, 3, seed=4).eval()
    near = stored.neighbourhood([5, 9], 1)
    x = np.concatenate([np.asarray(whole.x, np.float64)[near.nodes], np.zeros((1, 5))])
    at, nodes = np.searchsorted(near.nodes, [5, 9]), [5, 9]
    truth = predict_logits(model, FeatureMatrix.wrap(np.asarray(whole.x, np.float64)), whole.adjacency)[nodes]
    right = predict_logits(model, FeatureMatrix.wrap(x), part_adjacency(near.graph, near.degrees))[at]
    wrong = predict_logits(model, FeatureMatrix.wrap(x), part_adjacency(near.graph, near.graph.degrees))[at]
    np.testing.assert_allclose(right, truth, atol=1e-10)
    assert np.abs(wrong - truth).max() > 1e-3
    with pytest.raises(InputError, match="more edges inside"):
        part_adjacency(near.graph, near.graph.degrees - 1)


def test_a_gnn_learns_from_mini_batches(stored: StoredGraph) -> None:
    spec, train = ModelSpec(name="gcn", hidden=8, layers=2), TrainSpec(epochs=10)
    made = fit_on_samples(stored, spec, train, batch=200, rounds=6, seed=0)
    y, masks = stored.nodes.y, stored.nodes.masks
    assert y is not None and masks is not None
    test = np.flatnonzero(masks.test)[:100]
    at, release = made.around(stored, test)
    assert (release.predict(nodes=at).argmax(axis=1) == y[test]).mean() > 0.75
    assert release.contains_private_graph and release.guarantee.status == "none"
