"""Clients without a key cannot keep others out: not by dripping, not by number, not from one address."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from edgeveil.serve.connections import Connections


class Caller:
    """A connection that only the register sees."""

    def __init__(self, address: str, has_key: bool = False) -> None:
        self.address, self.has_key, self.dropped = address, has_key, False

    def drop(self) -> None:
        self.dropped = True


def test_the_address_with_most_connections_loses_its_oldest() -> None:
    register = Connections(8, 8, open_share=0.5)
    crowd = [Caller("10.0.0.1") for _ in range(3)]
    single = Caller("10.0.0.2")
    assert all(register.admit(peer) for peer in [*crowd, single])
    newcomer = Caller("10.0.0.3")
    assert register.admit(newcomer)
    assert [peer.dropped for peer in crowd] == [True, False, False]
    assert not single.dropped and not newcomer.dropped and len(register) == 4


def test_clients_with_a_key_are_never_dropped_and_have_room_of_their_own() -> None:
    register = Connections(4, 4, open_share=0.5)
    known = [Caller("10.0.0.1", has_key=True) for _ in range(4)]
    assert all(register.admit(peer) for peer in known)
    assert not register.admit(Caller("10.0.0.2"))  # full of clients with keys
    assert not any(peer.dropped for peer in known)
    register.leave(known[0])
    register.leave(known[0])
    assert len(register) == 3 and register.admit(Caller("10.0.0.2"))


def test_one_address_has_a_limit_and_a_trusted_proxy_has_none() -> None:
    register = Connections(100, 2, trusted=("10.0.0.9",))
    known = [Caller("10.0.0.1", has_key=True) for _ in range(2)]
    assert all(register.admit(peer) for peer in known)
    assert not register.admit(Caller("10.0.0.1"))
    assert all(register.admit(Caller("10.0.0.9", has_key=True)) for _ in range(20))


@contextmanager
def drippers(address: tuple[str, int], count: int, pause: float) -> Iterator[list[socket.socket]]:
    """Connections that send the head of a request and then a byte of its body now and then."""
    head = b"GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n"
    held, over = [], threading.Event()
    for _ in range(count):
        held.append(socket.create_connection(address, 10))
        held[-1].sendall(head)

    def drip() -> None:
        while not over.wait(pause):
            for one in held:
                try:
                    one.send(b"x")
                except OSError:
                    continue

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        yield held
    finally:
        over.set()
        thread.join()
        for one in held:
            one.close()


@pytest.mark.timeout(60)
def test_dripping_bodies_do_not_hold_the_server(live: Callable[..., Any]) -> None:
    server = live(max_connections=24)
    key = server.key()
    address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
    with drippers(address, 40, 0.2) as held:
        for _ in range(10):
            assert server.post("/v1/predict", key, json={"nodes": [1]}).status_code == 200
            time.sleep(0.05)
        answer = b""
        while part := held[-1].recv(4096):  # ends: the server closes what it will not read
            answer += part
        assert b"200 OK" in answer and b"connection: close" in answer
    server.client.close()


@pytest.mark.timeout(60)
def test_idle_connections_make_room_for_clients_with_a_key(live: Callable[..., Any]) -> None:
    server = live(max_connections=24, header_timeout=30)
    key = server.key()
    address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
    assert server.post("/v1/predict", key, json={"nodes": [1]}).status_code == 200
    idle = [socket.create_connection(address, 10) for _ in range(60)]
    assert server.post("/v1/predict", key, json={"nodes": [1]}).status_code == 200  # on the connection it had
    for _ in range(5):
        with httpx.Client(base_url=server.url, trust_env=False) as newcomer:
            assert newcomer.post("/v1/predict", headers=key, json={"nodes": [1]}).status_code == 200
    for one in idle:
        one.close()


def test_broken_http_is_answered_in_json(live: Callable[..., Any]) -> None:
    server = live()
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), 10) as raw:
        raw.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        answer = b""
        while part := raw.recv(4096):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ") and b'"code": "malformed_http"' in answer
    assert b"application/json" in answer


def spoken(url: str, *parts: bytes, pause: float = 0.0) -> bytes:
    """What the server says to raw bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), 10) as raw:
        for part in parts:
            raw.sendall(part)
            time.sleep(pause)
        answer = b""
        while part := raw.recv(65536):
            answer += part
    return answer


def test_a_body_with_two_lengths_smuggles_nothing(live: Callable[..., Any]) -> None:
    """Read by its chunks it ends before the second request; read by its length the two are one."""
    server = live()
    head = b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    two = (
        head
        + b"content-length: 40\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    )
    answer = spoken(server.url, two)
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1
    assert b"malformed_http" in answer and b"connection: close" in answer


def test_whole_answers_keep_to_http(live: Callable[..., Any]) -> None:
    """Answers written in one piece: kept alive in order, closed when the client says so, each header once."""
    server = live()
    key = server.key()["authorization"].encode()

    def ask(node: int, version: bytes = b"1.1", more: bytes = b"") -> bytes:
        body = b'{"nodes": [%d]}' % node
        head = b"POST /v1/predict HTTP/%s\r\nhost: x\r\nauthorization: %s\r\n" % (version, key)
        return head + more + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    close = b"connection: close\r\n"
    both = spoken(server.url, ask(3) + ask(5, more=close))  # pipelined: the second waits in the buffer
    first, second = both.split(b"HTTP/1.1 200 OK\r\n")[1:]
    for answer, node in ((first, 3), (second, 5)):
        head, body = answer.split(b"\r\n\r\n", 1)
        names = [line.split(b":", 1)[0].lower() for line in head.split(b"\r\n")]
        assert len(names) == len(set(names))
        assert {b"date", b"content-type", b"x-request-id", b"x-content-type-options"} <= set(names)
        assert b"content-length: %d" % len(body) in head and b'"nodes":[%d]' % node in body
        assert (close.strip() in head) == (node == 5)
    assert b"connection: close" in spoken(server.url, ask(3, b"1.0"))
    awaited = ask(7, more=b"expect: 100-continue\r\n" + close)
    at = awaited.index(b"\r\n\r\n") + 4
    answer = spoken(server.url, awaited[:at], awaited[at : at + 3], awaited[at + 3 :], pause=0.1)
    assert answer.startswith(b"HTTP/1.1 100") and answer.count(b"HTTP/1.1 200 OK") == 1 and b'"nodes":[7]' in answer
    lines = (server.settings.state / "audit.jsonl").read_text().count('"route":"/v1/predict","status":200')
    assert lines == 4
    server.client.close()
