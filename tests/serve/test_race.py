"""64 clients on real sockets race for what is left; the ledger and the answers agree to the last unit."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx

import edgeveil as ev
from edgeveil.privacy.ledger.units import to_units

CLIENTS = 64


def race(server: Any, ask: Callable[[httpx.Client, int], Any]) -> list[Any]:
    """All clients connect first, then ask at once."""
    answers: list[Any] = []
    start = threading.Barrier(CLIENTS)

    def client(i: int) -> None:
        with httpx.Client(base_url=server.url, timeout=120, trust_env=False, verify=False) as mine:
            mine.get("/healthz")
            start.wait()
            answers.append(ask(mine, i))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_the_last_query(live: Callable[..., Any]) -> None:
    server = live(lease_block=16, key_memory=60)
    key = server.key(queries=41)
    for _ in range(40):
        assert server.post("/v1/predict", key, json={"nodes": [0]}).status_code == 200
    states = race(server, lambda c, i: c.post("/v1/predict", headers=key, json={"nodes": [i]}).status_code)
    assert Counter(states) == {200: 1, 429: CLIENTS - 1}
    assert server.service.ledger.account("tenant:bob", "queries").used == 41


def test_two_servers_share_one_limit(live: Callable[..., Any], tmp_path: Any) -> None:
    servers = [live(lease_block=4), live(lease_block=4)]
    key = servers[0].key(queries=30)

    def ask(client: httpx.Client, i: int) -> int:
        url = servers[i % 2].url + "/v1/predict"
        return client.post(url, headers=key, json={"nodes": [i]}).status_code

    given = Counter(race(servers[0], ask))[200]
    held = sum(server.service.leases.held("bob") for server in servers)
    assert given + held == servers[0].service.ledger.account("tenant:bob", "queries").used <= 30


def test_the_last_epsilon(live: Callable[..., Any], graph: ev.Graph, noisy_release: ev.Release) -> None:
    server = live(noisy_release, epsilon_cap=2.5)
    key = server.key(role="curate", epsilon=10.0)
    body = {"name": "race", "num_nodes": 80, "edges": graph.edge_index.T.tolist(), "epsilon": 0.5}
    states = race(server, lambda c, i: c.post("/v1/snapshots", headers=key, json=body).status_code)
    assert Counter(states) == {200: 1, 409: CLIENTS - 1}
    assert server.service.ledger.account("edges:graph").used == to_units(2.5)
    assert len(server.service.snapshots.list()) == 1
    done = [c for c in server.service.ledger.charges("graph") if c["status"] == "done"]
    assert sum(c["amount"] for c in done) == to_units(0.5)  # the sum in the ledger is the answers given out
