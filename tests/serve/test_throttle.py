"""Failed keys are limited per address, network and key id, and nobody is shut out by somebody else's guesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgeveil.serve.problems import Problem
from edgeveil.serve.throttle import Throttle, client_address

BAD = {"authorization": "Bearer ev_0123456789abcdef_" + "x" * 43}


def test_an_address_that_fails_too_often_waits(live: Callable[..., Any]) -> None:
    server = live(failed_keys=5)
    good = server.key()
    answers = [server.post("/v1/predict", BAD, json={"nodes": [1]}) for _ in range(8)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 3
    assert answers[-1].json()["error"]["code"] == "too_many_failures" and int(answers[-1].headers["retry-after"]) >= 1
    assert server.client.get("/healthz").status_code == 200
    fresh = server.post("/v1/predict", good, json={"nodes": [1]})
    assert fresh.status_code == 429  # never seen from this address, which has failed too often


def test_a_key_in_use_is_not_shut_out_by_guesses(live: Callable[..., Any]) -> None:
    server = live(failed_keys=5, key_memory=0.0)
    good = server.key()
    assert server.post("/v1/predict", good, json={"nodes": [1]}).status_code == 200
    for _ in range(10):
        server.post("/v1/predict", BAD, json={"nodes": [1]})
    assert server.post("/v1/predict", good, json={"nodes": [1]}).status_code == 200


def test_refused_guesses_do_not_reach_the_ledger(live: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    server = live(failed_keys=3)
    asked: list[str] = []
    verify = server.service.keys.verify
    monkeypatch.setattr(server.service.keys, "verify", lambda key: (asked.append(key), verify(key))[1])
    for _ in range(10):
        server.post("/v1/predict", BAD, json={"nodes": [1]})
    assert len(asked) == 3


def tries(throttle: Throttle, calls: list[tuple[str, str]]) -> int:
    done = 0
    for address, key in calls:
        try:
            throttle.check(address, key)
        except Problem:
            continue
        throttle.failed(address, key)
        done += 1
    return done


def test_buckets_by_address_network_and_key() -> None:
    now = [0.0]
    clock = lambda: now[0]  # noqa: E731
    assert tries(Throttle(5, 1.0, clock), [("10.0.0.1", "")] * 20) == 5
    assert tries(Throttle(5, 1.0, clock), [(f"10.0.0.{i}", "") for i in range(40)]) == 20  # a network: four times
    assert tries(Throttle(5, 1.0, clock), [(f"2001:db8::{i:x}", "") for i in range(1, 40)]) == 20
    assert tries(Throttle(5, 1.0, clock), [(f"10.{i}.0.1", "abc") for i in range(40)]) == 5  # one key from everywhere
    throttle = Throttle(5, 1.0, clock)
    tries(throttle, [("10.0.0.1", "")] * 20)
    now[0] += 3
    assert tries(throttle, [("10.0.0.1", "")] * 20) == 3


def test_forwarded_addresses_are_believed_from_trusted_proxies_only() -> None:
    scope = {"client": ("10.0.0.9", 1), "headers": [(b"x-forwarded-for", b"6.6.6.6, 1.2.3.4, 10.0.0.8")]}
    assert client_address(scope, frozenset()) == "10.0.0.9"
    assert client_address(scope, frozenset({"10.0.0.9", "10.0.0.8"})) == "1.2.3.4"
    assert client_address({"client": None, "headers": []}, frozenset()) == ""
