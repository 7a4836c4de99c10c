"""Attacks through real releases: exact equals query on every model, coarse targets, one-node answers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import edgeveil.metrics as metrics
from edgeveil.attacks.run_attack import attack
from edgeveil.defences.defend import defend
from edgeveil.graph.graph import Graph
from edgeveil.models.architectures import MODELS
from edgeveil.models.presets import preset
from edgeveil.models.train import TrainSpec
from edgeveil.release.target import Target
from edgeveil.release.transcript import RecordedTarget

SHORT = TrainSpec(lr=0.01, weight_decay=5e-4, epochs=30)


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    y = np.arange(70) % 3
    i, j = np.triu_indices(70, 1)
    keep = rng.random(len(i)) < np.where(y[i] == y[j], 0.12, 0.02)
    x = (rng.random((70, 24)) < 0.1 + 0.3 * (np.arange(24) % 3 == y[:, None])).astype(np.float32)
    part = np.arange(70) // 30
    return Graph.from_edges(
        np.stack([i[keep], j[keep]]), x=x, y=y, train_mask=part == 0, val_mask=part == 1, test_mask=part == 2
    )


def release_of(graph, model="gcn", **shape):
    defence = "mlp" if model == "mlp" else "none"
    return trained(graph, defence, replace(preset("default", "", model).model, **shape))


@cache
def trained(graph, defence, spec):
    return defend(graph, defence, model=spec, seed=0, train=SHORT)


def auc_of(graph, result):
    return metrics.ranking(result.scores, graph.has_edges(*result.pairs))["auc"]


@pytest.mark.parametrize("model", MODELS.names())
def test_exact_equals_query_on_every_model(graph, model):
    release = release_of(graph, model)
    nodes = np.random.default_rng(1).permutation(70)[:25]
    exact = attack(release, "linkteller", nodes=nodes)
    asked = attack(release, "linkteller", nodes=nodes, mode="query", delta=1e-7)
    assert (exact.queries, exact.access, asked.queries) == (0, "white-box", 26)
    assert np.abs(exact.scores - asked.scores).max() <= 1e-6 * asked.scores.max()
    one, other = (
        attack(release, nodes=nodes, variant="published", **kw) for kw in ({}, {"mode": "query", "delta": 1e-7})
    )
    assert np.abs(one.scores - other.scores).max() <= 1e-6 * other.scores.max()
    whole = attack(release, "linkteller")
    assert whole.num_pairs == 70 * 69 // 2
    if model == "mlp":
        assert not exact.scores.any() and "blind" in exact.notes[0]
    else:
        auc = metrics.ranking(exact.scores, graph.has_edges(*exact.pairs))["auc"]
        assert auc > 0.85


@pytest.mark.parametrize("layers", [1, 3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", ["gcn", "gat", "sage", "transformer"])
def test_exact_equals_query_at_any_depth(graph, model, layers):
    release = release_of(graph, model, layers=layers)
    nodes = np.arange(20)
    exact = attack(release, "linkteller", nodes=nodes)
    asked = attack(release, "linkteller", nodes=nodes, mode="query", delta=1e-7)
    assert exact.access == "white-box"
    assert np.abs(exact.scores - asked.scores).max() <= 1e-6 * asked.scores.max()


COARSE = [{"dtype": "float32"}, {"answer": "probabilities"}, *({"decimals": d} for d in range(2, 7))]
COARSE += [{"answer": "probabilities", "decimals": 6}]


SERVICES = [("gcn", kind) for kind in (*COARSE[:3], COARSE[-1])] + [("gat", kind) for kind in COARSE[1:3]]
SERVICES += [pytest.param("gcn", kind, marks=pytest.mark.slow) for kind in COARSE[3:-1]]  # between two that are seen
SERVICES += [pytest.param("gat", kind, marks=pytest.mark.slow) for kind in (COARSE[0], *COARSE[3:])]


@pytest.mark.parametrize(("model", "kind"), SERVICES, ids=str)
def test_few_queries_to_a_coarse_service_are_as_good_as_all(graph, model, kind):
    """The grouped attack stays within 0.02 of the full one on the same target, for GCN and GAT."""
    release = release_of(graph, model)
    nodes = np.arange(70)
    full = attack(Target.local(release, **kind), "linkteller", nodes=nodes)
    few = attack(Target.local(release, **kind), "linkteller-grouped", nodes=nodes, queries=55)
    assert full.access == "black-box" and few.queries <= 56 < full.queries == 71
    assert auc_of(graph, few) >= auc_of(graph, full) - 0.02


def test_single_precision_targets_really_compute_in_single_precision(graph):
    release = release_of(graph)
    single = Target.local(release, dtype="float32").query()
    double = Target.local(release).query()
    gap = np.abs(single - double).max()
    assert 0 < gap < 1e-3
    assert release.predict().dtype == np.float64 and np.array_equal(release.predict(), double)


def test_one_node_at_a_time_hides_every_edge(graph):
    """App. E5 through `induced=True`: LinkTeller sees nothing, LSA2 sees features only."""
    release = release_of(graph)

    def alone(features=None, nodes=None, induced=False):
        rows = release.matrix.toarray()
        if features is not None:
            rows[nodes] = features
        out = np.concatenate([release.predict(rows[[v]], [v], induced=True) for v in range(70)])
        return out if features is not None or nodes is None else out[nodes]

    target = Target.from_callable(alone, 70)
    nodes = np.arange(6)
    told = attack(target, "linkteller", nodes=nodes, features=release.matrix)
    assert not told.scores.any()
    assert auc_of(graph, told) == 0.5 and "blind" in told.notes[0]
    posts = attack(target, "lsa2-post", nodes=nodes)
    empty = Graph.from_edges(np.empty((2, 0), int), num_nodes=70)
    bare = replace(release, predictor=replace_graph(release.predictor, empty.adjacency))
    edgeless = attack(Target.local(bare), "lsa2-post", nodes=nodes)
    assert np.allclose(posts.scores, edgeless.scores), "what is left is a function of the features alone"


def replace_graph(predictor, adjacency):
    return type(predictor)(predictor.spec, predictor.model, adjacency)


def test_a_transcript_of_a_release_resumes(graph, tmp_path):
    release = release_of(graph)
    first = RecordedTarget(Target.local(release), tmp_path / "t")
    a = attack(first, "linkteller-grouped", nodes=np.arange(40), queries=15, features=release.matrix)
    again = RecordedTarget(Target.local(release), tmp_path / "t")
    b = attack(again, "linkteller-grouped", nodes=np.arange(40), queries=15, features=release.matrix)
    assert again.paid == 0 and first.paid == 16 and np.array_equal(a.scores, b.scores)


def test_top_guesses_of_lsa2_stay_inside_a_class(graph):
    release = release_of(graph)
    guess = release.predict().argmax(1)
    result = attack(release, "lsa2-post", keep=5 * graph.num_edges)
    same = guess[result.pairs[0]] == guess[result.pairs[1]]
    assert metrics.top_share(result.scores, same, graph.num_edges) > 0.9
