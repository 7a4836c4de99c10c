"""The guard sees our own attacks, leaves honest traffic alone, and does what it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.errors import InputError, TargetError
from edgeveil.metrics.ranking import at_count
from edgeveil.serve.config import GuardSettings
from edgeveil.serve.engine import Engine
from edgeveil.serve.guard import ACTIONS
from edgeveil.serve.wire import Query
from edgeveil.trials.guard_trial import HONEST, Bench, GuardedTarget, honest_sessions
from edgeveil.trials.query_limit import choose_limit, demand_of, leak_at, limit_table, read_demand

NODES = np.arange(60)
MANY = {"cross_readings": 1000, "cross_readings_all": 1000}  # so that the detectors alone decide


def bench(release: ev.Release, **settings: Any) -> Bench:
    return Bench(release, GuardSettings(**settings))


def scaled(release: ev.Release, nodes: Any, factor: Any, asked: Any = NODES) -> Query:
    nodes = np.atleast_1d(nodes)
    return Query(nodes, np.asarray(release.matrix.rows(nodes)) * factor, np.asarray(asked))


@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.1, 1.0])
def test_linkteller_is_stopped_at_the_limit(plain_release: ev.Release, graph: ev.Graph, delta: float) -> None:
    guarded = GuardedTarget(bench(plain_release), NODES)
    result = ev.attack(guarded, "linkteller", nodes=NODES, mode="query", delta=delta)
    assert (guarded.answered, guarded.refused) == (8, 52)
    assert guarded.first_alarm == 8
    free = ev.attack(ev.Target.local(plain_release), "linkteller", nodes=NODES, mode="query", delta=delta)
    edges = graph.has_edges(*free.pairs)
    stopped, whole = (at_count(r.scores, edges, edges.sum())["f1"] for r in (result, free))
    assert np.array_equal(result.pairs, free.pairs) and stopped < whole


def test_far_moves_are_cross_readings(plain_release: ev.Release) -> None:
    guarded = GuardedTarget(bench(plain_release, cross_limit=12), NODES)
    ev.attack(guarded, "linkteller", nodes=NODES, mode="query", delta=50.0)
    assert guarded.answered == 12


def test_grouped_pattern(plain_release: ev.Release) -> None:
    b = bench(plain_release)
    rng = np.random.default_rng(0)
    actions = []
    for _ in range(12):
        signs = rng.choice([-1, 1], (60, 1))
        actions.append(b.ask("k", "t", scaled(plain_release, NODES, 1 + 1e-4 * signs))[1].action)
    assert actions == ["pass"] * 3 + ["log"] * 2 + ["slow"] * 2 + ["review"] + ["refuse"] * 4
    assert b.guard.scores["k", "grouped"] == 8


def test_grouped_attack_run_is_refused(plain_release: ev.Release) -> None:
    guarded = GuardedTarget(bench(plain_release), NODES, silent=False)
    with pytest.raises(TargetError, match="guard_refused"):
        ev.attack(guarded, "linkteller-grouped", nodes=NODES, queries=40)
    assert guarded.answered <= 8


def test_scan_across_sessions_and_keys_of_one_tenant(plain_release: ev.Release) -> None:
    b = bench(plain_release, single_limit=50, scan_limit=24, shared_limit=1000)
    actions = [b.ask(f"key-{i}", "one", scaled(plain_release, i, 1.001))[1] for i in range(30)]
    assert [d.action for d in actions].count("refuse") == 6
    assert actions[-1].detector == "scan"


def test_colluding_tenants_are_seen_together(plain_release: ev.Release) -> None:
    guarded = GuardedTarget(bench(plain_release), NODES, keys=10)
    ev.attack(guarded, "linkteller", nodes=NODES, mode="query", delta=1e-4)
    assert guarded.answered == 16  # each key alone stayed far below its own limit
    b = bench(plain_release)
    for i in range(20):
        last = b.ask(f"k{i % 4}", f"t{i % 4}", scaled(plain_release, i, 1.001))[1]
    assert last.action == "refuse" and last.detector == "shared" and len(last.partners) == 3


def test_base_of_ones_own_does_not_help(plain_release: ev.Release) -> None:
    """Bob moves everything far away first, then probes around his own base."""
    b = bench(plain_release)
    base = np.random.default_rng(1).standard_normal((60, 12)) * 9
    actions = []
    for i in range(20):
        rows = base.copy()
        rows[i] *= 1.0001
        actions.append(b.ask("k", "t", Query(NODES, rows, NODES))[1].action)
    assert "refuse" in actions and actions.index("refuse") <= 10


def test_repeating_and_looking_at_oneself_is_free(plain_release: ev.Release) -> None:
    b = bench(plain_release)
    query = scaled(plain_release, [3], 1.01)
    assert {b.ask("k", "t", query)[1].action for _ in range(50)} == {"pass"}
    assert b.guard.scores["k", "single"] == 1
    for i in range(50):
        assert b.ask("k", "t", scaled(plain_release, [5], 1 + i / 1000, asked=[5]))[1].action == "pass"


@pytest.fixture(scope="module")
def wide_release() -> ev.Release:
    """Enough nodes and features that honest users rarely meet by chance."""
    rng = np.random.default_rng(5)
    x = (rng.random((900, 150)) < 0.08).astype(float)
    edges = np.unique(np.sort(rng.integers(0, 900, (2, 1500)), axis=0), axis=1)
    graph = ev.Graph.from_edges(edges[:, edges[0] < edges[1]], x=x, y=rng.integers(0, 3, 900))
    return ev.defend(graph, "none", model="gcn", seed=0)


@pytest.mark.parametrize("kind", HONEST)
def test_honest_sessions_pass(wide_release: ev.Release, kind: str) -> None:
    b = bench(wide_release)
    sessions = list(honest_sessions(b.engine, 10, 1, (kind,)))
    refused = [b.judge(s.tenant, s.tenant, q)[1].action in ("review", "refuse") for s in sessions for q in s.queries]
    assert sum(refused) <= 0.02 * len(refused)


def test_actions_are_capped(plain_release: ev.Release) -> None:
    for action in ("off", "log", "slow", "review", "refuse"):
        b = bench(plain_release, action=action)
        seen = {b.ask("k", "t", scaled(plain_release, i, 1.001))[1].action for i in range(30)}
        worst = max(seen, key=ACTIONS.index)
        assert worst == {"off": "pass"}.get(action, action)


def test_slow_delays_grow(plain_release: ev.Release) -> None:
    b = bench(plain_release, action="slow", slow_seconds=2.0)
    delays = [b.ask("k", "t", scaled(plain_release, i, 1.001))[1].delay for i in range(10)]
    assert delays[:5] == [0.0] * 5 and delays == sorted(delays) and delays[-1] == 2.0


def test_induced_subsets(plain_release: ev.Release) -> None:
    b = bench(plain_release)
    actions = []
    for i in range(10):
        subset = np.array([0, i + 1])
        actions.append(b.guard.watch("k", "t", None, subset, subset=subset).action)
    assert actions.index("refuse") == 4
    same = np.array([50, 51])
    assert {b.guard.watch("k", "t", None, same, subset=same).action for _ in range(20)} == {"pass"}


def test_forgiving_starts_anew(plain_release: ev.Release) -> None:
    b = bench(plain_release)
    for i in range(10):
        b.ask("k", "t", scaled(plain_release, i, 1.001))
    b.guard.forgive("k")
    b.guard.forgive("t")
    assert b.ask("k", "t", scaled(plain_release, 20, 1.001))[1].action == "pass"
    assert (b.guard._answered >= 0).all()


def test_over_http_with_review_list_and_restart(live: Callable[..., Any], plain_release: ev.Release) -> None:
    server = live(guard={"slow_seconds": 0.0, **MANY})
    key = server.key()

    def probe(where: Any, head: dict[str, str], node: int) -> Any:
        rows = (plain_release.matrix.rows([node]) * 1.001).tolist()
        return where.post("/v1/predict", head, json={"nodes": [node], "features": rows, "answer": [0, 1, 2]})

    states = [probe(server, key, i).status_code for i in range(10, 20)]
    assert states == [200] * 8 + [429] * 2
    refused = probe(server, key, 30).json()["error"]
    assert refused["code"] == "guard_refused" and refused["detector"] == "single"
    assert server.post("/v1/predict", key, json={"nodes": [0]}).status_code == 200  # stored answers stay open
    listed = server.service.watch.reviews()
    assert {row["action"] for row in listed} == {"review", "refuse"} and {row["tenant"] for row in listed} == {"bob"}
    server.stop()
    again = live(guard={"slow_seconds": 0.0, **MANY})
    assert probe(again, key, 40).status_code == 429  # scores survive a restart
    again.service.watch.clear(listed[0]["key_id"])
    assert probe(again, key, 41).status_code == 200
    assert again.service.watch.reviews() == []


def test_refused_probes_cost_no_quota(live: Callable[..., Any], plain_release: ev.Release) -> None:
    server = live(guard={"slow_seconds": 0.0, **MANY, "single_limit": 1})
    key = server.key(queries=10)
    rows = np.asarray(plain_release.matrix.rows(np.arange(20)))
    ask = [{"nodes": [i], "features": (rows[[i]] * 1.001).tolist(), "answer": [70]} for i in range(20)]
    states = [server.post("/v1/predict", key, json=q).status_code for q in ask]
    assert states == [200] + [429] * 19
    rest = [server.post("/v1/predict", key, json={"nodes": [0]}).status_code for _ in range(10)]
    assert rest == [200] * 9 + [429]


def test_sound_releases_are_only_logged(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = live(noisy_release)
    key = server.key()
    rows = np.asarray(noisy_release.matrix.rows(np.arange(20)))
    ask = [{"nodes": [i], "features": (rows[[i]] * 1.001).tolist(), "answer": [70]} for i in range(20)]
    assert {server.post("/v1/predict", key, json=q).status_code for q in ask} == {200}


def test_choosing_a_limit(plain_release: ev.Release, graph: ev.Graph, tmp_path: Any) -> None:
    leaks = leak_at(plain_release, graph, NODES, [10, 20, 60])
    plain = [leaks[q][0] for q in (10, 20, 60)]
    assert plain == sorted(plain) and plain[0] < plain[-1]
    demand = {"a": 3, "b": 10, "c": 15}
    rows = limit_table(demand, leaks)
    assert [round(row.served, 3) for row in rows] == [round(23 / 28, 3), 1.0, 1.0]
    assert choose_limit(rows, 0.99).limit == 20
    with pytest.raises(InputError, match="no candidate"):
        choose_limit(rows[:1], 0.99)
    made_up = demand_of(honest_sessions(Engine(plain_release), 2, 0))
    assert made_up["stored features-0"] == 0 and made_up["fresh features-0"] == 20
    log = tmp_path / "audit.jsonl"
    line = '{"event":"request","route":"/v1/predict","status":200,"tenant":"bob","computed":%s}\n'
    log.write_text(line % "true" * 3 + line % "false" + '{"cut sho')
    assert read_demand(log) == {"bob": 3}
    log.write_text("")
    with pytest.raises(InputError, match="no answered query"):
        read_demand(log)
