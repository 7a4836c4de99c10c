"""Real releases, real databases, a real uvicorn on a real loopback port."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import edgeveil as ev
from edgeveil.privacy.ledger.database import Database
from edgeveil.serve.auth import KeyStore
from edgeveil.serve.config import Settings, load_settings
from edgeveil.serve.listener import listen
from edgeveil.serve.server import make_server
from edgeveil.serve.server_ledger import Ledger
from edgeveil.serve.service import Service
from forked import Child


@dataclass
class Live:
    """A running server and a client with a key."""

    url: str
    service: Service
    settings: Settings
    client: httpx.Client
    stop: Callable[[], None]

    def key(self, tenant: str = "bob", role: str = "query", **limits: Any) -> dict[str, str]:
        return {"authorization": f"Bearer {self.service.keys.add(tenant, role, **limits)[0]}"}

    def post(self, path: str, headers: dict[str, str], **kw: Any) -> httpx.Response:
        return self.client.post(path, headers=headers, **kw)


def make_graph(nodes: int = 80, edges: int = 200, features: int = 12) -> ev.Graph:
    rng = np.random.default_rng(7)
    y = rng.integers(0, 3, nodes)
    x = rng.standard_normal((nodes, features)) + y[:, None]
    pairs = rng.integers(0, nodes, (2, edges))
    keep = pairs[0] != pairs[1]
    pairs = np.unique(np.sort(pairs[:, keep], axis=0), axis=1)
    mask = np.arange(nodes) % 2 == 0
    return ev.Graph.from_edges(pairs, x=x, y=y, train_mask=mask, val_mask=None, test_mask=~mask)


@pytest.fixture(scope="session")
def graph() -> ev.Graph:
    return make_graph()


@pytest.fixture(scope="session")
def plain_release(graph: ev.Graph) -> ev.Release:
    return ev.defend(graph, "none", model="gcn", seed=0)


@pytest.fixture(scope="session")
def noisy_release(graph: ev.Graph) -> ev.Release:
    return ev.defend(graph, "lapgraph", epsilon=2.0, model="gcn")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    database = Database(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger = Ledger(database)
    ledger.unlock(tmp_path / "ledger.db.key")
    yield ledger
    database.close()


@pytest.fixture
def live(tmp_path: Path, plain_release: ev.Release) -> Iterator[Callable[..., Live]]:
    """Factory of running servers: `live(release, **settings)`."""
    running: list[Live] = []

    def start(release: ev.Release | None = None, **given: Any) -> Live:
        given = {"state": tmp_path / "state", "changed_features": True, **given}
        given.setdefault("release", Path(given["state"]).with_suffix(".release"))  # a release remembers its ledger
        running.append(launch(release or plain_release, load_settings(**given)))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory, plain_release: ev.Release) -> Iterator[Callable[..., Live]]:
    """As `live`, but whoever asks for the same server gets the same one: for tests that must change nothing."""
    running: dict[str, Live] = {}

    def find(release: ev.Release | None = None, **given: Any) -> Live:
        key = f"{id(release)} {given}"
        if key not in running:
            state = tmp_path_factory.mktemp("standing") / "state"
            settings = load_settings(state=state, changed_features=True, release=state.with_suffix(".release"), **given)
            running[key] = launch(release or plain_release, settings)
        return running[key]

    yield find
    for server in running.values():
        server.stop()


def launch(release: ev.Release, settings: Settings) -> Live:
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = make_server(settings, release)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    for _ in range(500):
        if server.started:
            break
        time.sleep(0.01)
    client = httpx.Client(base_url=url, timeout=30, verify=False)  # reading certificates takes longer than most tests

    def stop() -> None:
        client.close()
        server.should_exit = True
        thread.join(15)
        listener.close()

    return Live(url, server.config.app.state.service, settings, client, stop)  # type: ignore[union-attr]


@dataclass
class Command:
    """The command `edgeveil serve` as a process of its own, on a port of its choice."""

    url: str
    state: Path
    child: Child
    log: Path

    def key(self, tenant: str = "bob", role: str = "query", **limits: Any) -> dict[str, str]:
        database = Database(f"sqlite:///{self.state / 'ledger.db'}")
        try:
            return {"authorization": f"Bearer {KeyStore(database).add(tenant, role, **limits)[0]}"}
        finally:
            database.close()


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Factory: `command(release, "--output", "logits")` waits until the process is ready."""
    running: list[Command] = []

    def start(release: ev.Release, *options: str) -> Command:
        if not (tmp_path / "release").exists():
            release.save(tmp_path / "release")
        log, state = tmp_path / f"log-{len(running)}", tmp_path / "state"
        log.touch()
        words = ("edgeveil", "serve", tmp_path / "release", "--state", state, "--port", "0", *options)
        child = Child(*words, cwd=tmp_path, out=log)
        for _ in range(2400):
            said = log.read_text()
            if " on http" in said:
                break
            assert child.poll() is None, said
            time.sleep(0.05)
        running.append(Command(said.split(" on ", 1)[1].split()[0], state, child, log))
        with httpx.Client(trust_env=False, verify=False) as client:
            for _ in range(600):
                with contextlib.suppress(httpx.TransportError):
                    if client.get(f"{running[-1].url}/readyz").status_code == 200:
                        return running[-1]
                time.sleep(0.05)
        raise AssertionError(log.read_text())

    yield start
    for server in running:
        server.child.kill()
        server.child.wait(30)
