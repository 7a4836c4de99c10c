"""The operator's page: signed session cookie, a CSRF token in every form, same-origin posts only."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import text

from edgeveil.serve.auth import Key
from edgeveil.serve.middleware import read_body
from edgeveil.serve.pages import admin_page, login_page
from edgeveil.serve.problems import Problem
from edgeveil.serve.service import FREE, NO_EPSILON, Service
from edgeveil.serve.throttle import client_address

__all__ = ["add_admin"]

COOKIE = "edgeveil_operator"
LIFETIME = 8 * 3600
_ENDED = "CREATE TABLE IF NOT EXISTS ended_sessions (name VARCHAR(64) PRIMARY KEY, until BIGINT NOT NULL)"


class Sessions:
    """Cookies that name an admin key, signed with the ledger's secret; the key is checked again on every request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._secret: bytes | None = None
        self._prepared = False

    def _sign(self, what: str, value: str) -> str:
        if self._secret is None:
            self._secret = self._service.database.secret()
        return hmac.new(self._secret, f"{what}|{value}".encode(), hashlib.sha256).hexdigest()

    async def open(self, presented: str, address: str) -> str:
        """A cookie for a valid admin key."""
        key = self._service.authorise(await self._service.verify(presented, address), "admin")
        value = f"{key.id}.{int(time.time()) + LIFETIME}.{secrets.token_hex(8)}"
        return f"{value}.{self._sign('session', value)}"

    def key(self, cookie: str | None) -> Key | None:
        """The active admin key behind a cookie, or None."""
        value, _, signature = (cookie or "").rpartition(".")
        parts = value.split(".")
        if len(parts) != 3 or not _same(self._sign("session", value), signature):
            return None
        found = self._service.keys.find(parts[0])
        if found is None or self._has_ended(value):
            return None
        key, now = found
        alive = now < int(parts[1]) and key.state(now) == "active" and key.may("admin")
        return key if alive else None

    def end(self, cookie: str) -> None:
        """Make a cookie worthless, also where it was copied."""
        value = cookie.rpartition(".")[0]
        row = {"n": hashlib.sha256(value.encode()).hexdigest(), "u": int(value.split(".")[1]), "t": int(time.time())}
        self._service.database.make_tables(_ENDED)
        with self._service.database.write() as connection:
            connection.execute(text("DELETE FROM ended_sessions WHERE until < :t"), row)
            insert = "INSERT INTO ended_sessions (name, until) VALUES (:n, :u) ON CONFLICT (name) DO NOTHING"
            connection.execute(text(insert), row)

    def _has_ended(self, value: str) -> bool:
        if not self._prepared:
            self._service.database.make_tables(_ENDED)
            self._prepared = True
        name = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        with self._service.database.read() as connection:
            found = connection.execute(text("SELECT 1 FROM ended_sessions WHERE name = :n"), {"n": name}).first()
        return found is not None

    def csrf(self, cookie: str) -> str:
        """The token that every form of this session carries."""
        return self._sign("csrf", cookie)


def add_admin(app: FastAPI, service: Service) -> None:
    """Mount /admin and its forms."""
    sessions = Sessions(service)

    @app.get("/admin", include_in_schema=False)
    async def show(request: Request) -> Response:
        cookie = request.cookies.get(COOKIE)
        if await asyncio.to_thread(sessions.key, cookie) is None:
            return _html(lambda nonce: login_page(nonce))
        facts = await asyncio.to_thread(_facts, service)
        return _html(lambda nonce: admin_page(facts, nonce, sessions.csrf(cookie or "")))

    @app.post("/admin/login", include_in_schema=False)
    async def login(request: Request) -> Response:
        form = await _form(request)
        try:
            address = client_address(request.scope, service.proxies)
            cookie = await sessions.open(form.get("key", ""), address)
        except Problem as problem:
            service.audit.write("admin login failed", code=problem.code)
            message = str(problem)
            return _html(lambda nonce: login_page(nonce, message), problem.status)
        answer = RedirectResponse("/admin", 303)
        secure = service.settings.tls_cert is not None
        answer.set_cookie(COOKIE, cookie, LIFETIME, path="/admin", httponly=True, samesite="strict", secure=secure)
        return answer

    @app.post("/admin/logout", include_in_schema=False)
    async def logout(request: Request) -> Response:
        await _operator(request, sessions)
        await asyncio.to_thread(sessions.end, request.cookies[COOKIE])
        answer = RedirectResponse("/admin", 303)
        answer.delete_cookie(COOKIE, path="/admin")
        return answer

    @app.post("/admin/{action}", include_in_schema=False)
    async def act(request: Request, action: str) -> Response:
        if action not in ("revoke", "clear"):
            raise Problem(404, "not_found", "Not Found")
        key, form = await _operator(request, sessions)
        change: Any = service.keys.revoke if action == "revoke" else service.watch.clear
        await asyncio.to_thread(change, form.get("key", ""))
        service.audit.write(f"admin {action}", durable=True, by=key.id, key=form.get("key", ""))
        return RedirectResponse("/admin", 303)


async def _form(request: Request) -> dict[str, str]:
    """A small urlencoded form that was sent by a page of this very server."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none") or origin is None or urlsplit(origin).netloc != request.headers.get("host"):
        raise Problem(403, "cross_origin", "forms are accepted from the operator's page only")
    body = await read_body(request.receive)
    if len(body) > 4096:
        raise Problem(413, "too_large", "the form is too large")
    return {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


async def _operator(request: Request, sessions: Sessions) -> tuple[Key, dict[str, str]]:
    form = await _form(request)
    cookie = request.cookies.get(COOKIE)
    key = await asyncio.to_thread(sessions.key, cookie)
    if key is None or cookie is None:
        raise Problem(401, "no_session", "log in at /admin first")
    if not _same(sessions.csrf(cookie), form.get("csrf", "")):
        raise Problem(403, "bad_csrf", "the form is stale or foreign; reload the page")
    return key, form


def _same(ours: str, given: str) -> bool:
    """Constant-time comparison of text that need not be ASCII."""
    return hmac.compare_digest(ours.encode(), given.encode("utf-8", "surrogatepass"))


def _html(build: Any, status: int = 200) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    headers = {"content-security-policy": policy, "x-frame-options": "DENY", "referrer-policy": "same-origin"}
    return HTMLResponse(build(nonce), status, headers)


def _facts(service: Service) -> dict[str, Any]:
    release = service.release
    with service.database.read() as connection:
        now = service.database.now(connection)
    return {
        "title": f"{release.defence} on {release.dataset}{' (synthetic twin)' if release.is_twin else ''}",
        "statement": release.guarantee.statement(),
        "free": FREE if release.guarantee.status == "sound" else NO_EPSILON,
        "epsilon": service.standing(),
        "unbounded": {
            f"edges:{name}": bill.unbounded for name, bill in service.ledger.bills().items() if bill.unbounded
        },
        "queries": service.ledger.accounts("queries"),
        "reviews": service.watch.reviews(),
        "keys": service.keys.list(),
        "snapshots": service.snapshots.list(),
        "now": now,
    }
