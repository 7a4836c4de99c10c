"""Questions computed together: the same bits as alone, nobody waits for company, and no fault is shared."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

import edgeveil as ev
from edgeveil.serve.engine import Change, Engine
from edgeveil.serve.guard import PASS, Decision
from edgeveil.serve.inference import ROWS, Inference, Question
from edgeveil.serve.problems import Problem
from edgeveil.serve.wire import Query


def question(engine: Engine, seed: int, judge: Callable[[], Decision] | None = None, size: int = 3) -> Question:
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(engine.num_nodes)[:size]
    query = Query(nodes, rng.standard_normal((size, engine.num_features)), rng.permutation(engine.num_nodes)[:9])
    return Question(engine, query, engine.change(query), judge=judge)


def opened(gate: threading.Event) -> Decision:
    gate.wait(10)
    return PASS


@pytest.mark.parametrize(
    ("defence", "model"), [("none", "gcn"), ("lapgraph", "gcn"), ("none", "sage"), ("mlp", "mlp"), ("lpgnet", "mlp")]
)
def test_company_changes_no_bit(graph: ev.Graph, defence: str, model: str) -> None:
    given = {"epsilon": 4.0} if defence in ("lpgnet", "lapgraph") else {}
    engine = Engine(ev.defend(graph, defence, model=model, **given))
    asked = [question(engine, seed, size=1 + seed % 7) for seed in range(12)]
    asked.append(Question(engine, Query(None, None, np.array([4])), None))  # nothing changes
    found = engine.answers([(q.query, q.change) for q in asked])
    for one, together in zip(asked, found, strict=True):
        np.testing.assert_array_equal(together, engine.answer(one.query, one.change))
    half = engine.answers([(q.query, q.change) for q in asked[5:9]])
    for first, second in zip(found[5:9], half, strict=True):
        np.testing.assert_array_equal(first, second)


def test_alone_in_one_go_is_each_node_by_itself(plain_release: ev.Release) -> None:
    engine = Engine(plain_release)
    nodes = np.random.default_rng(0).permutation(80)[:70]
    rows = np.random.default_rng(1).standard_normal((70, 12))
    change = Change(nodes, rows, np.zeros_like(rows))
    got = engine.alone(np.arange(80), change)
    for node in range(80):
        at = np.flatnonzero(nodes == node)
        own = Query(nodes[at], rows[at], np.array([node]))
        expected = engine.answer(own, engine.change(own))[0] if len(at) else engine.base[node]
        np.testing.assert_array_equal(got[node], expected)


def test_whoever_waits_goes_together_and_nobody_waits_for_company(plain_release: ev.Release) -> None:
    engine, sizes = Engine(plain_release), []
    gate = threading.Event()

    async def scene() -> list[Any]:
        line = Inference(1, 8, 64, 30.0, sizes.append)
        first = asyncio.create_task(line.ask(question(engine, 0, lambda: opened(gate))))
        rest = [asyncio.create_task(line.ask(question(engine, seed))) for seed in range(1, 13)]
        while line.waiting < 13:
            await asyncio.sleep(0.01)
        rest[2].cancel()  # its client left
        gate.set()
        return [(await task)[1] for task in (first, *rest[:2], *rest[3:])]

    found = asyncio.run(scene())
    assert sizes == [1, 8, 3]
    for seed, logits in zip([0, 1, 2, *range(4, 13)], found, strict=True):
        one = question(engine, seed)
        np.testing.assert_array_equal(logits, engine.answer(one.query, one.change))


def test_a_large_question_takes_no_company(plain_release: ev.Release) -> None:
    engine, sizes, gate = Engine(plain_release), [], threading.Event()

    async def scene() -> None:
        line = Inference(1, 64, 64, 30.0, sizes.append)
        held = [asyncio.create_task(line.ask(question(engine, 0, lambda: opened(gate))))]
        held += [asyncio.create_task(line.ask(question(engine, s, size=80))) for s in range(30)]
        while line.waiting < 31:
            await asyncio.sleep(0.01)
        gate.set()
        await asyncio.gather(*held)

    asyncio.run(scene())
    assert sum(sizes) == 31 and max(sizes) == ROWS // 89


def test_a_fault_is_its_own(plain_release: ev.Release) -> None:
    engine, gate = Engine(plain_release), threading.Event()
    wrong = Query(np.array([1]), np.zeros((1, 3)), np.array([1]))  # a width that no check let through

    async def scene() -> list[Any]:
        line = Inference(1, 16, 64, 30.0)
        cases = [
            question(engine, 0, lambda: opened(gate)),
            question(engine, 1),
            question(engine, 2, lambda: 1 / 0),  # type: ignore[arg-type,return-value]
            Question(engine, wrong, Change(np.array([1]), np.zeros((1, 3)), np.zeros((1, 3)))),
            question(engine, 3, lambda: Decision("refuse", "single", 9, 8)),
            question(engine, 4, lambda: Decision("slow", "single", 6, 8, delay=0.1)),
            question(engine, 5),
        ]
        tasks = [asyncio.create_task(line.ask(case)) for case in cases]
        await asyncio.sleep(0.05)
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(scene())
    for seed, at in ((1, 1), (5, 6)):
        one = question(engine, seed)
        np.testing.assert_array_equal(found[at][1], engine.answer(one.query, one.change))
    assert isinstance(found[2], ZeroDivisionError) and isinstance(found[3], ValueError)
    assert found[4][0].action == "refuse" and found[4][1] is None
    assert found[5][0].delay == 0.1 and found[5][1] is None


def test_a_full_line_turns_away(plain_release: ev.Release) -> None:
    engine, gate = Engine(plain_release), threading.Event()

    async def scene() -> None:
        line = Inference(1, 4, 2, 30.0)
        tasks = [asyncio.create_task(line.ask(question(engine, 0, lambda: opened(gate))))]
        tasks.append(asyncio.create_task(line.ask(question(engine, 1))))
        await asyncio.sleep(0.05)
        with pytest.raises(Problem, match="too many queries"):
            await line.ask(question(engine, 2))
        gate.set()
        await asyncio.gather(*tasks)
        await line.ask(question(engine, 2))

    asyncio.run(scene())


def test_concurrent_clients_get_their_own_answers(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = live(noisy_release, output="logits", lease_block=100_000)
    key, rng = server.key(), np.random.default_rng(0)
    rows = rng.standard_normal((16, 12))

    def client(at: int) -> list[Any]:
        with httpx.Client(base_url=server.url, headers=key, trust_env=False, timeout=60, verify=False) as http:
            body = {"nodes": [at], "features": [rows[at].tolist()], "answer": list(range(80))}
            return [http.post("/v1/predict", json=body).json()["values"] for _ in range(15)]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(client, range(16)))
    for at, answers in enumerate(found):
        expected = noisy_release.predict(rows[at : at + 1], [at])
        np.testing.assert_allclose(answers[0], expected, atol=1e-9)
        assert all(answer == answers[0] for answer in answers)
    text = server.service.refresh_metrics().decode()
    count = float(text.split("edgeveil_batch_questions_count ", 1)[1].split()[0])
    assert 0 < count < 240 and "edgeveil_batch_questions_sum 240.0" in text


def test_effort_bounds_what_is_touched(graph: ev.Graph, plain_release: ev.Release) -> None:
    engine, rng = Engine(plain_release), np.random.default_rng(0)
    closed = np.asarray((graph.adjacency + np.eye(80)) > 0).astype(int)
    for _ in range(20):
        nodes, asked = rng.permutation(80)[:3], rng.permutation(80)[:5]
        query = Query(nodes, rng.standard_normal((3, 12)), asked)
        bound = engine.effort(query, engine.change(query))
        heard = closed[:, nodes].any(axis=1)
        wanted = closed[asked].any(axis=0)
        assert bound >= closed[heard & wanted].sum() + closed[asked].sum()
        assert bound <= closed[:, nodes].sum(axis=0).sum() + closed[heard].sum() * 3 + 2 * closed[asked].sum()
    assert engine.effort(Query(nodes, query.features, None), engine.change(query)) == np.inf


def test_a_small_question_of_the_only_client_needs_no_thread(plain_release: ev.Release) -> None:
    engine, where = Engine(plain_release), []

    def judge() -> Decision:
        where.append(threading.current_thread() is threading.main_thread())
        return PASS

    def small(seed: int) -> Question:
        one = question(engine, seed, judge, size=1)
        return Question(engine, Query(one.query.nodes, one.query.features, one.query.nodes), one.change, judge=judge)

    async def scene() -> None:
        line = Inference(1, 4, 64, 30.0)
        await line.ask(small(0))
        line.quiet = lambda: True
        decision, logits = await line.ask(small(1))
        assert decision is PASS and logits is not None
        await line.ask(question(engine, 2, judge, size=40))
        with pytest.raises(ZeroDivisionError):
            await line.ask(Question(engine, small(3).query, small(3).change, judge=lambda: 1 / 0))  # type: ignore

    asyncio.run(scene())
    assert where == [False, True, False]
