"""Bob's client against a real server on a real socket: same scores, retries, pacing, transcript, refusals."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.errors import InputError, TargetError
from edgeveil.release.remote import HttpTarget
from edgeveil.release.transcript import RecordedTarget
from edgeveil.serve.config import load_settings
from edgeveil.serve.server import make_server


@pytest.fixture(scope="module")
def release() -> ev.Release:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 70)
    x = rng.standard_normal((70, 9)) + y[:, None]
    pairs = np.unique(np.sort(rng.integers(0, 70, (2, 160)), axis=0), axis=1)
    graph = ev.Graph.from_edges(pairs[:, pairs[0] < pairs[1]], x=x, y=y)
    return ev.defend(graph, "none", model="gcn", seed=0)


@pytest.fixture
def serve(tmp_path: Path, release: ev.Release) -> Iterator[Callable[..., tuple[str, str]]]:
    stops: list[Callable[[], None]] = []

    def start(**given: Any) -> tuple[str, str]:
        folder = tmp_path / str(len(stops))  # a release remembers its ledger
        settings = load_settings(
            release=folder / "release", state=folder / "state", **{"changed_features": True, **given}
        )
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        server = make_server(settings, release)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)

        def stop() -> None:
            server.should_exit = True
            thread.join(15)
            listener.close()

        stops.append(stop)
        service = server.config.app.state.service  # type: ignore[union-attr]
        return f"http://127.0.0.1:{listener.getsockname()[1]}", service.keys.add("bob", "query")[0]

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def connect() -> Iterator[Callable[..., HttpTarget]]:
    made: list[HttpTarget] = []

    def build(*args: Any, **kwargs: Any) -> HttpTarget:
        made.append(HttpTarget(*args, **kwargs))
        return made[-1]

    yield build
    for target in made:
        target.close()


OPEN = {"output": "logits", "guard": {"action": "off"}}
NODES = np.arange(5, 45)


@pytest.mark.parametrize("output", ["logits", "probabilities"])
@pytest.mark.parametrize("name", ["linkteller", "lsa2-post", "lsa2-attr"])
def test_same_scores_as_the_local_target(serve: Any, release: ev.Release, name: str, output: str, connect: Any) -> None:
    url, key = serve(output=output, decimals=12, guard={"action": "off"})
    options = {"mode": "query", "delta": 1e-4} if name == "linkteller" else {}
    remote = connect(url, key=key, features=release.matrix, only=NODES)
    local = ev.Target.local(release, answer=output, decimals=12)
    far = ev.attack(remote, name, nodes=NODES, **options)
    near = ev.attack(local, name, nodes=NODES, **options)
    np.testing.assert_allclose(far.scores, near.scores, atol=1e-7 * max(1.0, np.abs(near.scores).max()))
    assert far.queries == near.queries
    assert far.rows <= near.rows


def test_grouped_attack_gives_the_same_scores(serve: Any, release: ev.Release, connect: Any) -> None:
    url, key = serve(**OPEN)
    remote = connect(url, key=key, features=release.matrix)
    far = ev.attack(remote, "linkteller-grouped", nodes=NODES, queries=30, seed=1)
    near = ev.attack(ev.Target.local(release), "linkteller-grouped", nodes=NODES, queries=30, seed=1)
    np.testing.assert_allclose(far.scores, near.scores, atol=1e-4 * np.abs(near.scores).max())


def test_every_kind_of_question(serve: Any, release: ev.Release, connect: Any) -> None:
    url, key = serve(**OPEN, induced=True, max_nodes=16)
    target = connect(url, key=key)
    np.testing.assert_allclose(target.query(), release.predict(), rtol=1e-12)
    np.testing.assert_allclose(target.query(nodes=[3, 1]), release.predict(nodes=[3, 1]), rtol=1e-12)
    rows = release.matrix.rows([3, 1]) * 2
    expected = release.predict(rows, [3, 1])
    np.testing.assert_allclose(target.query(rows, [3, 1]), expected, rtol=1e-10)
    np.testing.assert_allclose(target.query(nodes=[3, 1], induced=True), release.predict(nodes=[3, 1], induced=True))
    assert target.queries == 4


def test_labels_and_top_k(serve: Any, release: ev.Release, connect: Any) -> None:
    url, key = serve(output="labels")
    labels = connect(url, key=key).query(nodes=[0, 1, 2])
    np.testing.assert_array_equal(labels, release.predict(nodes=[0, 1, 2]).argmax(1))
    url, key = serve(output="probabilities", top_k=1)
    soft = connect(url, key=key).query(nodes=[0, 1])
    assert soft.shape == (2, 4) and (np.count_nonzero(soft, axis=1) == 1).all()


def test_transcript_resumes_without_paying_twice(serve: Any, release: ev.Release, tmp_path: Path, connect: Any) -> None:
    url, key = serve(**OPEN)
    first = connect(url, key=key, features=release.matrix, max_queries=10)
    with pytest.raises(TargetError, match="limit of 10"):
        ev.attack(RecordedTarget(first, tmp_path / "t"), "linkteller", nodes=NODES, features=release.matrix, delta=1e-4)
    rest = connect(url, key=key)
    recorded = RecordedTarget(rest, tmp_path / "t")
    done = ev.attack(recorded, "linkteller", nodes=NODES, features=release.matrix, delta=1e-4)
    assert recorded.paid == len(NODES) + 1 - 10
    whole = ev.attack(connect(url, key=key), "linkteller", nodes=NODES, features=release.matrix, delta=1e-4)
    np.testing.assert_array_equal(done.scores, whole.scores)


def test_refusals_are_final_and_explained(serve: Any, release: ev.Release, connect: Any) -> None:
    url, key = serve(output="logits", guard={"slow_seconds": 0.0, "cross_readings": 99, "cross_readings_all": 99})
    waits: list[float] = []
    target = connect(url, key=key, features=release.matrix, sleep=waits.append)
    with pytest.raises(TargetError, match="guard_refused"):
        ev.attack(target, "linkteller", nodes=NODES, delta=1e-3)
    assert not waits and target.queries <= 10
    with pytest.raises(TargetError, match="invalid_key"):
        connect(url, key="ev_wrong", sleep=waits.append)
    with pytest.raises(InputError, match="http"):
        connect("ftp://host")


def test_answers_that_show_ones_own_change_only_are_no_evidence(serve: Any, release: ev.Release, connect: Any) -> None:
    url, key = serve(output="logits")
    target = connect(url, key=key, features=release.matrix)
    with pytest.raises(TargetError, match="bound on questions, not a property of the model"):
        ev.attack(target, "linkteller", nodes=NODES, delta=1e-3)


class Moody(http.server.BaseHTTPRequestHandler):
    """Fails three times, then answers."""

    failures = 3
    seen = 0

    def do_GET(self) -> None:
        type(self).seen += 1
        good = {"num_nodes": 3, "num_classes": 2, "max_nodes": 9, "multilabel": False, "output": {"kind": "logits"}}
        broken = self.seen <= self.failures
        body = json.dumps({"error": {"code": "overloaded", "message": "busy"}} if broken else good).encode()
        self.send_response(503 if broken else 200)
        self.send_header("content-length", str(len(body)))
        self.send_header("retry-after", "7")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_retry_waits_as_told_and_gives_up(connect: Any) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), Moody)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    waits: list[float] = []
    assert connect(url, sleep=waits.append).num_nodes == 3
    assert len(waits) == 3 and min(waits) >= 7
    Moody.failures, Moody.seen = 99, 0
    with pytest.raises(TargetError, match="3 tries"):
        connect(url, retries=2, sleep=waits.append)
    server.shutdown()
    server.server_close()
    with pytest.raises(TargetError, match="did not answer"):
        connect(url, retries=1, sleep=waits.append)


def test_pacing(serve: Any, connect: Any) -> None:
    url, key = serve(**OPEN)
    target = connect(url, key=key, pause=0.1)
    started = time.monotonic()
    for _ in range(4):
        target.query(nodes=[0])
    assert time.monotonic() - started >= 0.29
