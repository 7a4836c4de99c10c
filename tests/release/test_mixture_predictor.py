"""A mixture answers the weighted sum of its parts, survives a file, and its influence is what queries measure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.errors import InputError
from edgeveil.models.settings import TrainSpec
from edgeveil.release.mixture_predictor import MixturePredictor
from zoo import toy


@pytest.fixture(scope="module")
def mixed() -> ev.Release:
    release = ev.defend(toy(), "feature-graph", seed=0, neighbours=4)
    gnn = ev.defend(toy(), "none", model="gcn", seed=0)
    mlp = ev.defend(toy(), "mlp", model="mlp", seed=0)
    predictor = MixturePredictor([mlp.predictor, gnn.predictor], [0.25, 2.0])
    from dataclasses import replace

    return replace(release, predictor=predictor, matrix=gnn.matrix)


def test_answers_are_the_weighted_sum(mixed: ev.Release) -> None:
    assert isinstance(mixed.predictor, MixturePredictor)
    mlp, gnn = (part.logits(mixed.matrix) for part in mixed.predictor.parts)
    np.testing.assert_allclose(mixed.predict(), 0.25 * mlp + 2.0 * gnn, atol=1e-12)
    some = np.array([3, 1, 7])
    np.testing.assert_allclose(
        mixed.predict(nodes=some, induced=True),
        sum(
            w * p.induced(some).logits(mixed.matrix.take(some))
            for p, w in zip(mixed.predictor.parts, (0.25, 2.0), strict=True)
        ),
        atol=1e-12,
    )


def test_it_survives_a_file(mixed: ev.Release, tmp_path: Path) -> None:
    mixed.save(tmp_path / "r")
    np.testing.assert_array_equal(ev.Release.load(tmp_path / "r").predict(), mixed.predict())


def test_exact_influence_is_what_queries_measure(mixed: ev.Release) -> None:
    nodes = np.arange(25)
    exact = ev.attack(mixed, "linkteller", nodes=nodes, mode="exact").scores
    asked = ev.attack(mixed, "linkteller", nodes=nodes, mode="query", delta=1e-7).scores
    assert exact.max() > 0
    np.testing.assert_allclose(exact, asked, atol=1e-5 * exact.max())


def test_weights_and_parts_must_match(mixed: ev.Release) -> None:
    with pytest.raises(InputError, match="one weight per model"):
        MixturePredictor([mixed.predictor], [1.0, 2.0])


@pytest.mark.usefixtures("short_read_outs")
def test_whoever_holds_it_reads_the_weighted_graph_that_it_heard() -> None:
    """veil-rr keeps a probability per noisy pair inside a mixture: the strongest reader ranks pairs by it."""
    from edgeveil.defences.veil import pair_readings

    graph = toy()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            pair_readings, "preferred", lambda job, found, *_: found[0] if found[0].name == "graph" else None
        )
        release = ev.defend(graph, "veil-rr", epsilon=6.0, seed=0, train=TrainSpec(epochs=10))
    assert isinstance(release.predictor, MixturePredictor) and release.stored_graph is not None
    found = ev.attack(release, "stored-graph", nodes=np.arange(graph.num_nodes))
    weights = np.asarray(release.stored_graph[found.pairs[0], found.pairs[1]]).ravel()
    np.testing.assert_allclose(found.scores, weights / release.stored_graph.data.max())
    truth = graph.has_edges(*found.pairs)
    assert ev.metrics.ranking(found.scores, truth)["auc"] > 0.9
