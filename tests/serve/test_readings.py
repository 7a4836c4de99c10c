"""The bound on readings under changed features: counted whatever they look like, over keys, tenants and restarts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.privacy.ledger.database import Database
from edgeveil.serve.engine import Change, Engine
from edgeveil.serve.exposure import recoverable_edges
from edgeveil.serve.problems import Problem
from edgeveil.serve.readings import Limits, Readings, crossed
from edgeveil.serve.wire import Query

ROWS = np.random.default_rng(3).standard_normal((80, 12))


def change(*nodes: int, salt: float = 0.0) -> Change:
    at = np.array(nodes)
    return Change(at, ROWS[at] + salt, np.zeros((len(at), 12)))


def readings(database: Database, scope: str = "graph", **limits: int) -> Readings:
    made = Readings(database, Limits(**{"cross": 2, "cross_all": 3, "own": 2, **limits}))
    made.open(scope)
    return made


def test_who_is_cross_read() -> None:
    asked = np.arange(4)
    assert crossed(change(2), asked).tolist() == [0, 1, 3]
    assert crossed(change(2), np.array([2])).tolist() == []
    assert crossed(change(1, 2), asked).tolist() == [0, 1, 2, 3]  # fresh rows everywhere: every reading is one
    assert crossed(change(7, 8), asked).tolist() == [0, 1, 2, 3]


def test_limits_hold_over_questions_tenants_and_restarts(ledger: Any) -> None:
    count = readings(ledger.database)
    asked = np.arange(5)
    assert [count.take("bob", change(*range(5), salt=i), asked) for i in range(3)] == ["together", "together", "alone"]
    again = readings(ledger.database)  # another process, later
    assert again.take("bob", change(9, 10), np.array([4, 6])) == "alone"  # one node at its limit is enough
    assert again.take("eve", change(9, 10), asked) == "together"
    assert again.take("mallory", change(9, 10), asked) == "alone"  # three by all tenants together
    assert again.used("bob", "cross", range(7)) == dict.fromkeys(range(5), 2)
    assert again.used("*", "cross", [0]) == {0: 3}


def test_a_counted_question_is_free_and_keeps_its_kind(ledger: Any) -> None:
    count = readings(ledger.database, cross=1, own=1)
    asked = np.arange(3)
    for _ in range(4):
        assert count.take("bob", change(0, 1, 2), asked) == "together"
    for _ in range(4):
        assert count.take("bob", change(0, 1, 2, salt=1.0), asked) == "alone"
    assert count.take("bob", change(2, 1, 0), asked[::-1]) == "together"  # the same question in another order
    with pytest.raises(Problem) as caught:
        count.take("bob", change(0, 1, 2, salt=2.0), asked)
    assert caught.value.status == 429
    assert count.used("bob", "own", asked) == dict.fromkeys(range(3), 1)  # the refused one was not counted


def test_a_question_to_a_new_model_is_a_new_question(graph: ev.Graph, live: Callable[..., Any]) -> None:
    """The answer is another, so it is not free, though the counts go on."""
    modes = []
    for seed in (0, 1, 1):
        server = live(ev.defend(graph, "none", model="gcn", seed=seed), guard={"cross_readings": 1})
        modes.append("alone" in fresh(server, server.key("bob"), 5).json())
        server.stop()
    assert modes == [False, True, True]


def test_no_question_passes_for_another_that_was_counted(ledger: Any) -> None:
    """Node numbers are the bytes of tiny floats, so a list of asked nodes could stand for a changed row."""
    count = readings(ledger.database, cross=1, cross_all=1)
    tiny = np.arange(13, 25, dtype=np.int64)  # a row of twelve features, and twelve node numbers
    first = Change(np.array([24]), ROWS[[7]], np.zeros((1, 12)))
    asked = np.array([3, 11, 12, *tiny[:11]])
    assert count.take("bob", first, asked) == "together"
    second = Change(np.array([11, 12]), np.stack([tiny.view(np.float64), ROWS[7]]), np.zeros((2, 12)))
    assert count.take("bob", second, np.array([3])) == "alone"  # node 3 has had its one reading


def test_own_rows_have_a_limit_of_their_own(ledger: Any) -> None:
    count = readings(ledger.database, cross=0)
    for i in range(2):
        assert count.take("bob", change(5, salt=i), np.array([5])) == "together"
    with pytest.raises(Problem):
        count.take("bob", change(5, salt=9.0), np.array([5]))
    assert count.take("eve", change(5, salt=9.0), np.array([5])) == "together"


@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_alone_means_that_nobody_sees_another_change(graph: ev.Graph, model: str) -> None:
    engine = Engine(ev.defend(graph, "none", model=model, seed=0))
    asked = np.array([3, 8, 20, 21])
    moved = Change(np.array([8, 3, 40]), ROWS[[8, 3, 40]], np.zeros((3, 12)))
    got = engine.alone(asked, moved)
    for at, node in enumerate(asked.tolist()):
        if node in (3, 8):
            query = Query(np.array([node]), ROWS[[node]], np.array([node]))
            np.testing.assert_allclose(got[at], engine.answer(query, engine.change(query))[0], atol=1e-9)
        else:
            np.testing.assert_array_equal(got[at], engine.base[node])


def fresh(server: Any, key: dict[str, str], salt: int, **more: Any) -> Any:
    rows = (ROWS + 1e-6 * salt).tolist()
    return server.post("/v1/predict", key, json={"features": rows, "answer": list(range(80)), **more})


def test_fresh_rows_decoys_keys_and_restarts_over_http(live: Callable[..., Any], plain_release: ev.Release) -> None:
    """What passed before: every row sent fresh, many keys of one tenant, restarts in between."""
    given = {"output": "logits", "guard": {"cross_readings": 2, "cross_readings_all": 3, "grouped_limit": 1000,
             "shared_limit": 1000}}  # fmt: skip
    together = 0
    for start in range(3):
        server = live(**given)
        for i in range(4):
            answer = fresh(server, server.key("bob"), 10 * start + i)
            assert answer.status_code == 200
            together += "alone" not in answer.json()
        server.stop()
    assert together == 2
    server = live(**given)
    assert ["alone" in fresh(server, server.key(f"t{i}"), 100 + i).json() for i in range(4)] == [
        False,
        True,
        True,
        True,
    ]


def test_by_default_an_open_server_lets_nobody_see_a_neighbours_change(
    live: Callable[..., Any], plain_release: ev.Release, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "edgeveil"):
        server = live(output="logits")
    assert "0 cross-readings of every node" in caplog.text and "recover about 0 of" in caplog.text
    row = np.asarray(plain_release.matrix.rows([3])) * 1.5
    asked = {"nodes": [3], "features": row.tolist(), "answer": list(range(80))}
    got = server.post("/v1/predict", server.key(), json=asked).json()
    values = np.array(got["values"])
    assert got["alone"] is True
    same = (values == Engine(plain_release).base).all(axis=1)
    assert same.sum() == 79 and not same[3]


def test_sound_releases_are_not_bounded(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = live(noisy_release)
    key = server.key()
    assert all("alone" not in fresh(server, key, i).json() for i in range(40))


def test_recoverable_edges_grow_with_the_questions(plain_release: ev.Release, graph: ev.Graph) -> None:
    found = [recoverable_edges(plain_release, q) for q in (0, 1, 4, 16, 64)]
    for end in (0, 1):
        each = [one[end] for one in found]
        assert each == sorted(each) and each[:2] == [0, 0] and each[-1] == graph.num_edges
    assert all(low <= high for low, high, _ in found) and found[2][0] < found[2][1]
    assert recoverable_edges(plain_release, None) == (graph.num_edges,) * 3
    assert recoverable_edges(ev.defend(graph, "mlp"), 9) == (0, 0, 0)


def test_what_is_recoverable_is_what_flatroot_recovers(plain_release: ev.Release, graph: ev.Graph) -> None:
    """The operator is warned of all edges at the latest when the package's own attack finds them all."""
    found = ev.attack(plain_release, "flatroot", mode="query", seed=0)
    assert found.found.shape[1] == graph.num_edges
    assert recoverable_edges(plain_release, found.queries)[1] == graph.num_edges
