"""The command's own socket: answers leave at once, and an address that cannot be had is one sentence."""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import edgeveil as ev
from edgeveil.errors import UsageError
from edgeveil.serve.listener import listen


def test_accepted_connections_are_known_to_be_tcp() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_who_connects_before_the_server_accepts_waits_instead_of_being_refused() -> None:
    """The command prints its address before uvicorn runs."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname(), timeout=5) as early:
        early.sendall(b"GET /healthz")
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(64) == b"GET /healthz"


@pytest.mark.timeout(120)
def test_kept_alive_answers_of_the_command_do_not_wait(command: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = command(noisy_release)
    times = []
    with httpx.Client(base_url=server.url, headers=server.key(), trust_env=False) as client:
        for _ in range(60):
            started = time.perf_counter()
            assert client.post("/v1/predict", json={"nodes": [1]}).status_code == 200
            times.append(time.perf_counter() - started)
    assert statistics.median(times) < 0.03  # a delayed acknowledgement alone takes 40 ms


def test_an_address_in_use_is_one_sentence(live: Callable[..., Any]) -> None:
    port = int(live().url.rsplit(":", 1)[1])
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
        listen("127.0.0.1", port)
    with pytest.raises(UsageError, match="cannot listen on nowhere"):
        listen("nowhere.invalid", 0)
