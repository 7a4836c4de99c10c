"""Who is connected: a limit in all and per address, and room that only clients with a key can take.

A connection has no key until its first request is answered, so newcomers are always let in. When their share is full,
the oldest connection without a key goes, of the address that holds most of them: whoever opens many closes their own.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from edgeveil.serve.problems import Problem

__all__ = ["Connections", "connection_class", "deliver", "has_arrived"]

FULL = Problem(503, "overloaded", "too many connections; try again", retry_after=1)
GARBLED = Problem(400, "malformed_http", "this is not an HTTP/1.1 request")


class Peer(Protocol):
    """What the register needs to know of a connection."""

    @property
    def address(self) -> str:
        """The client's address."""

    @property
    def has_key(self) -> bool:
        """Whether a request on this connection has shown a valid key."""

    def drop(self) -> None:
        """Close without a word."""


class Connections:
    """The register of open connections, oldest first. `open_share` of them may belong to clients without a key."""

    def __init__(self, limit: int, per_address: int, open_share: float = 0.75, trusted: tuple[str, ...] = ()) -> None:
        self._limit, self._per_address = limit, per_address
        self._open_limit = max(1, int(limit * open_share))
        self._trusted = frozenset(trusted)
        self._peers: dict[str, dict[Peer, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def admit(self, peer: Peer) -> bool:
        """Enter a new connection, making room if that is possible; False when it is not."""
        mine = self._peers.setdefault(peer.address, {})
        if len(mine) >= self._per_address and peer.address not in self._trusted and not self._evict(mine):
            return False
        if self._count >= self._limit and not self._evict_largest():
            return False
        while self._strangers() >= self._open_limit and self._evict_largest():
            pass
        self._peers.setdefault(peer.address, {})[peer] = None
        self._count += 1
        return True

    def leave(self, peer: Peer) -> None:
        """Forget a connection that is gone; doing so twice is fine."""
        mine = self._peers.get(peer.address, {})
        if peer in mine:
            del mine[peer]
            self._count -= 1
        if not mine:
            self._peers.pop(peer.address, None)

    def _strangers(self) -> int:
        if self._count < self._open_limit:
            return self._count
        return sum(not peer.has_key for mine in self._peers.values() for peer in mine)

    def _evict_largest(self) -> bool:
        by_size = sorted(self._peers.values(), key=lambda mine: sum(not p.has_key for p in mine), reverse=True)
        return bool(by_size) and self._evict(by_size[0])

    def _evict(self, mine: dict[Peer, None]) -> bool:
        oldest = next((peer for peer in mine if not peer.has_key), None)
        if oldest is None:
            return False
        self.leave(oldest)
        oldest.drop()
        return True


class _Corked:
    """A transport that holds the head of an answer until its body is written, and sends both as one piece."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._held = b""

    def write(self, data: bytes) -> None:
        if not self._held and data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100"):
            self._held = data
        else:
            self._transport.write(self._held + data)
            self._held = b""

    def write_whole(self, data: bytes) -> None:
        self._transport.write(data)

    def close(self) -> None:
        if self._held:
            self._transport.write(self._held)
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


_BOOKED = h11.Response(status_code=200, headers=[("content-length", "0")])
_END = h11.EndOfMessage()
_CLOSE = (b"connection", b"close")


def _cycle(channel: Any) -> RequestResponseCycle | None:
    """Uvicorn's state of one exchange, behind its own `receive` or `send`."""
    owner = getattr(channel, "__self__", None)
    return owner if isinstance(owner, RequestResponseCycle) else None


def has_arrived(receive: Any) -> bool:
    """Whether `receive` will answer without waiting for the client."""
    cycle = _cycle(receive)
    return cycle is not None and cycle.message_event.is_set()


def deliver(send: Any, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
    """Write a whole answer of status 200 as one piece; False where uvicorn's `send` has to take it in parts.

    h11 checks and writes every header in Python, which is a sixth of the time of a small answer. Its books get a
    stand-in of the same kind, and the bytes are written here: `headers` have a content-length and are safe to send.
    """
    cycle = _cycle(send)
    if cycle is None or cycle.disconnected or cycle.response_started or cycle.flow.write_paused:
        return False
    transport: Any = cycle.transport
    if not isinstance(transport, _Corked):
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.message_event.set()
    conn = cycle.conn
    conn.send(_BOOKED)
    conn.send(_END)
    last = conn.our_state is h11.MUST_CLOSE or not cycle.keep_alive or _CLOSE in headers
    lines = [b"%s: %s\r\n" % header for header in (*cycle.default_headers, *headers) if header != _CLOSE]
    close = b"connection: close\r\n" if last else b""
    transport.write_whole(b"".join((b"HTTP/1.1 200 OK\r\n", *lines, close, b"\r\n", body)))
    if last:
        conn.send(h11.ConnectionClosed())
        transport.close()
    cycle.on_response()
    return True


class _Connection(H11Protocol):
    """Closes a connection whose headers do not arrive in time (slow loris); speaks JSON also of broken HTTP."""

    register: Connections
    header_timeout: float
    _alarm: asyncio.TimerHandle | None = None
    _shown = False

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def has_key(self) -> bool:
        if not self._shown and self.scope is not None:
            self._shown = "key" in self.scope.get("state", {}).get("audit", {})
        return self._shown

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport = _Corked(transport)  # type: ignore[assignment]
        if self.register.admit(self):
            self._arm()
        else:
            self._refuse(FULL)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._disarm()
        elif self._alarm is None and self.conn.trailing_data[0]:
            self._arm()

    def on_response_complete(self) -> None:
        _ = self.has_key  # remember it: the next request replaces the scope
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self.register.leave(self)
        super().connection_lost(exc)

    def drop(self) -> None:
        self._disarm()
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(GARBLED)

    def _refuse(self, problem: Problem) -> None:
        body = json.dumps(problem.body("-")).encode()
        reason = b"Bad Request" if problem.status == 400 else b"Service Unavailable"
        head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n"
        retry = b"" if problem.retry_after is None else b"retry-after: %d\r\n" % problem.retry_after
        self.transport.write(head % (problem.status, reason, len(body)) + retry + b"\r\n" + body)
        self.transport.close()

    def _arm(self) -> None:
        self._alarm = self.loop.call_later(self.header_timeout, self._give_up)

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _give_up(self) -> None:
        self._alarm = None
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self.transport.close()


def connection_class(register: Connections, header_timeout: float) -> type[H11Protocol]:
    """The uvicorn protocol of one server."""
    return type("Connection", (_Connection,), {"register": register, "header_timeout": header_timeout})
