"""Around every request: an id, a limit on the body and on the time to send it, no stack trace outside, one log line."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import partial
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response

from edgeveil.errors import LedgerUnavailable
from edgeveil.serve.connections import deliver, has_arrived
from edgeveil.serve.problems import AuditUnavailable, Problem, as_problem
from edgeveil.serve.service import Service

__all__ = ["Envelope", "Handler", "Shortcut", "problem_response", "read_body"]

log = logging.getLogger("edgeveil")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handler = Callable[[Request], Awaitable[Response]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SAFE = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_PROCESS, _count = secrets.token_hex(4), itertools.count(1)


def problem_response(problem: Problem, request_id: str, path: str = "") -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of a problem."""
    body = json.dumps(problem.body(request_id, path)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(problem.retry_after).encode()))
    return problem.status, headers, body


class Envelope:
    """Pure ASGI middleware."""

    def __init__(self, app: App, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(self._service, scope, receive, send)
        await exchange.run(partial(self._app, scope, exchange.receive, exchange.respond))


class Shortcut:
    """In front of the application: hands the busiest routes to their handlers, without routing and injection."""

    def __init__(self, app: FastAPI, service: Service, handlers: dict[tuple[str, str], Handler]) -> None:
        self._app: App = app
        self.state = app.state
        self._service, self._handlers = service, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        handler = self._handlers.get((scope.get("method", ""), scope.get("path", "")))
        if handler is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _Path(scope["path"])
        exchange = _Exchange(self._service, scope, receive, send)
        await exchange.run(partial(exchange.hand, handler))


class _Path(NamedTuple):
    path: str


async def read_body(receive: Receive) -> bytes:
    """The whole body; `Envelope` limits its size and the time it may take."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(499, "disconnected", "the client left before the body was complete")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


class _Exchange:
    """One request and its answer."""

    def __init__(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        self._service, self._scope, self._send = service, scope, send
        self._receive_raw = receive
        self._headers = dict(scope["headers"])
        given = self._headers.get(b"x-request-id", b"")
        self.id = given.decode() if _REQUEST_ID.fullmatch(given) else f"{_PROCESS}{next(_count):08x}"
        scope.setdefault("state", {})
        scope["state"]["request_id"] = self.id
        self._facts: dict[str, Any] = {}
        scope["state"]["audit"] = self._facts
        self._left = self._limit = self._body_limit()
        self._unread = b"transfer-encoding" in self._headers or self._headers.get(b"content-length", b"0") != b"0"
        self._status = 0
        self._recorded = False

    def _body_limit(self) -> int:
        settings = self._service.settings
        return settings.max_snapshot_body if self._scope["path"] == "/v1/snapshots" else settings.max_body

    async def run(self, answer: Callable[[], Awaitable[None]]) -> None:
        """See one answer through, whatever becomes of it."""
        self._started = time.perf_counter()
        self._deadline = asyncio.get_running_loop().time() + self._service.settings.body_timeout
        try:
            declared = self._headers.get(b"content-length", b"0")
            if not declared.isdigit() or int(declared) > self._limit:
                raise self._too_large()
            if b"content-length" in self._headers and b"transfer-encoding" in self._headers:
                # a proxy may have read the other one, and what follows would pass for another client's request
                raise Problem(400, "malformed_http", "a body has a content-length or a transfer-encoding, not both")
            await answer()
        except asyncio.CancelledError:
            self._status = self._status or 499
            raise
        except Exception as error:
            await self._fail(error)
        finally:
            self._note()

    def _too_large(self) -> Problem:
        return Problem(413, "too_large", f"the body exceeds {self._limit} bytes; send less or use npz")

    async def hand(self, handler: Handler) -> None:
        """Have a handler answer, and write the answer in one piece where the connection can take it so."""
        answer = await handler(Request(self._scope, self.receive))
        headers = self._head(answer.status_code, answer.raw_headers)
        if not (answer.status_code == 200 and deliver(self._send, headers, bytes(answer.body))):
            await self._send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
            await self._send({"type": "http.response.body", "body": answer.body})

    async def receive(self) -> Message:
        """The client's next part, within the limits on size and time."""
        if self._left < 0:
            return await self._receive_raw()
        if has_arrived(self._receive_raw):
            message = await self._receive_raw()
        else:
            try:
                async with asyncio.timeout_at(self._deadline):
                    message = await self._receive_raw()
            except TimeoutError:
                raise Problem(408, "body_timeout", "the body did not arrive in time") from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise self._too_large()
        if not message.get("more_body", False):
            self._left, self._unread = -1, False  # later calls only wait for the disconnect
        return message

    async def respond(self, message: Message) -> None:
        """Pass a part of the answer on; its head gets our headers."""
        if message["type"] == "http.response.start":
            message["headers"] = self._head(message["status"], message.get("headers", []))
        await self._send(message)

    def _head(self, status: int, given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The headers of an answer that may leave: no good one does without its line in the audit log."""
        if status < 400 and self._scope["path"] != "/healthz":
            self._record(status)
        self._status = status
        headers = [*given, *_SAFE, (b"x-request-id", self.id.encode())]
        if self._scope["scheme"] == "https":
            headers.append((b"strict-transport-security", b"max-age=31536000"))
        if self._unread:  # or the rest of the body would keep the connection busy
            headers.append((b"connection", b"close"))
        return headers

    async def _fail(self, error: Exception) -> None:
        problem = as_problem(error)
        self._facts["code"] = problem.code
        if problem.status == 500:
            log.exception("request %s failed", self.id, exc_info=error)
        if isinstance(error, LedgerUnavailable):
            log.error("request %s: %s", self.id, error)
            self._service.metrics.ledger_failed()
        if self._status:  # half an answer is out: nothing sensible can follow
            return
        status, headers, body = problem_response(problem, self.id, self._scope["path"])
        await self.respond({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    @property
    def _route(self) -> str:
        return str(getattr(self._scope.get("route"), "path", "other"))

    def _record(self, status: int) -> None:
        ms = round(1000 * (time.perf_counter() - self._started), 2)
        self._service.audit.write(
            "request", id=self.id, method=self._scope["method"], route=self._route, status=status, ms=ms, **self._facts
        )
        self._recorded = True

    def _note(self) -> None:
        self._service.metrics.request(self._route, self._status, time.perf_counter() - self._started)
        if not self._recorded:
            try:
                self._record(self._status)
            except AuditUnavailable as error:
                log.error("request %s: %s", self.id, error)
