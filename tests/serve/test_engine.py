"""Served answers equal the release's, whatever the shortcut; nothing depends on what was asked before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.serve.engine import Engine
from edgeveil.serve.khop import gcn_update
from edgeveil.serve.problems import Problem
from edgeveil.serve.wire import Query

CASES = [("none", "gcn", "k-hop"), ("none", "sage", "full"), ("mlp", "mlp", "rows"), ("lpgnet", "mlp", "rows")]


@pytest.mark.parametrize(("defence", "model", "strategy"), CASES)
def test_answers_equal_the_release(graph: ev.Graph, defence: str, model: str, strategy: str) -> None:
    epsilon = {"epsilon": 4.0} if defence == "lpgnet" else {}
    release = ev.defend(graph, defence, model=model, seed=0, **epsilon)
    engine = Engine(release)
    assert engine.strategy == strategy
    np.testing.assert_allclose(engine.base, release.predict(), atol=1e-12)
    rng = np.random.default_rng(0)
    for count in (1, 5, 80):
        nodes = rng.permutation(80)[:count]
        rows = release.matrix.rows(nodes) * 1.5
        asked = rng.permutation(80)[:30]
        query = Query(nodes, rows, asked)
        got = engine.answer(query, engine.change(query))
        np.testing.assert_allclose(got, release.predict(rows, nodes)[asked], atol=1e-10)


@pytest.mark.parametrize("norm", ["first-order", "aug", "bingge", "aug-rwalk"])
@pytest.mark.parametrize(("layers", "activation"), [(1, "relu"), (3, "elu"), (2, "selu")])
def test_k_hop_update_for_every_normalisation(graph: ev.Graph, norm: str, layers: int, activation: str) -> None:
    from edgeveil.models.spec import ModelSpec

    spec = ModelSpec(name="gcn", norm=norm, layers=layers, activation=activation)
    release = ev.defend(graph, "none", model=spec, seed=1)
    engine = Engine(release)
    nodes = np.array([9, 2])
    query = Query(nodes, np.full((2, 12), 3.0), None)
    np.testing.assert_allclose(
        engine.answer(query, engine.change(query)), release.predict(query.features, nodes), atol=1e-10
    )


def test_only_what_can_change_changes_and_nothing_sticks(graph: ev.Graph, plain_release: ev.Release) -> None:
    engine = Engine(plain_release)
    reach = graph.adjacency + np.eye(80)
    reach = np.asarray((reach @ reach)[3] > 0).ravel()
    query = Query(np.array([3]), plain_release.matrix.rows([3]) * 2, None)
    first = engine.answer(query, engine.change(query))
    assert (first[~reach] == engine.base[~reach]).all()  # bit for bit
    assert (first[reach] != engine.base[reach]).any()
    other = Query(np.array([7]), plain_release.matrix.rows([7]) * 2, None)
    engine.answer(other, engine.change(other))
    np.testing.assert_array_equal(engine.answer(query, engine.change(query)), first)


def test_unchanged_rows_are_not_a_change(plain_release: ev.Release) -> None:
    engine = Engine(plain_release)
    rows = plain_release.matrix.rows([1, 2, 3]).astype(float)
    assert engine.change(Query(np.array([1, 2, 3]), rows, None)) is None
    rows[1] += 1
    change = engine.change(Query(np.array([1, 2, 3]), rows, None))
    assert change is not None and change.nodes.tolist() == [2]


def test_standardised_features_stay_sparse(graph: ev.Graph) -> None:
    import scipy.sparse as sp

    x = sp.random(80, 40, density=0.1, format="csr", random_state=0)
    release = ev.defend(graph.with_features(x), "none", model="gcn", seed=0, scaling="standard")
    update = gcn_update(release.predictor, release.matrix)
    assert update is not None
    np.testing.assert_allclose(update.base, release.predict(), atol=1e-10)


def test_checks(plain_release: ev.Release) -> None:
    engine = Engine(plain_release)
    for query, code in (
        (Query(np.array([80]), None, np.array([80])), "unknown_node"),
        (Query(np.array([1, 1]), None, np.array([1, 1])), "repeated_node"),
        (Query(np.array([1]), np.zeros((1, 3)), np.array([1])), "bad_shape"),
        (Query(np.array([1]), np.zeros((1, 12)), np.array([5, 5])), "repeated_node"),
        (Query(None, None, None), "too_many_nodes"),
    ):
        with pytest.raises(Problem) as caught:
            engine.check(query, max_nodes=20)
        assert caught.value.code == code


@pytest.mark.parametrize("value", [1e308, -1e308, 1e30, 101.0])
def test_features_beyond_the_stored_range_are_refused(
    live: Callable[..., Any], plain_release: ev.Release, value: float
) -> None:
    server = live(feature_reach=4.0)
    largest = float(np.abs(plain_release.matrix.toarray()).max())
    assert 4 * largest < 101
    asked = {"nodes": [3], "features": [[value] + [0.0] * 11], "answer": list(range(80))}
    answer = server.post("/v1/predict", server.key(), json=asked)
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "out_of_range"
    asked["features"] = [[4 * largest] + [0.0] * 11]
    assert server.post("/v1/predict", server.key(), json=asked).status_code == 200


def test_an_answer_that_overflows_is_refused_counted_and_reviewed(live: Callable[..., Any]) -> None:
    server = live(feature_reach=1e308, decimals=2, output="logits")  # an operator who switched the bound off
    key = server.key(queries=100)
    asked = {"nodes": [3], "features": [[1e308] * 12], "answer": list(range(80))}
    answer = server.post("/v1/predict", key, json=asked)
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "not_finite"
    assert [entry["detector"] for entry in server.service.watch.reviews()] == ["overflow"]
    used = server.service.ledger.account("tenant:bob", "queries").used
    assert server.service.leases.held("bob") == used - 1


def test_an_undefended_release_answers_for_stored_features_only(
    live: Callable[..., Any], plain_release: ev.Release, graph: ev.Graph
) -> None:
    server = live(changed_features=None)
    stored = np.asarray(plain_release.matrix.rows([3])).tolist()
    key = server.key()
    assert server.post("/v1/predict", key, json={"nodes": [3], "features": stored}).status_code == 200
    moved = {"nodes": [3], "features": [[v * 1.01 for v in stored[0]]]}
    answer = server.post("/v1/predict", key, json=moved)
    assert answer.status_code == 403 and answer.json()["error"]["code"] == "changed_features_closed"
    assert server.client.get("/v1/model", headers=key).json()["changed_features"] is False
    server.stop()
    for open_release in (ev.defend(graph, "lapgraph", epsilon=2.0), ev.defend(graph, "mlp")):
        server = live(open_release, changed_features=None)
        assert server.post("/v1/predict", server.key(), json=moved).status_code == 200
        server.stop()
