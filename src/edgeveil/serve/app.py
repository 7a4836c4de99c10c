"""The HTTP face of the service. Every answer that is not 2xx has the same machine-readable form."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from edgeveil import __version__
from edgeveil.privacy.ledger.units import from_units
from edgeveil.release.release import Release
from edgeveil.serve.admin import add_admin
from edgeveil.serve.auth import Key
from edgeveil.serve.bodies import (
    PredictAnswer,
    QuoteAnswer,
    QuoteRequest,
    SnapshotAnswer,
    SnapshotBody,
    describe,
    parse_snapshot,
)
from edgeveil.serve.config import Settings
from edgeveil.serve.middleware import Envelope, Handler, Shortcut, read_body
from edgeveil.serve.open_inference import add_open_inference
from edgeveil.serve.problems import Problem
from edgeveil.serve.raw_tables import add_raw_tables
from edgeveil.serve.service import Answered, Service
from edgeveil.serve.throttle import client_address
from edgeveil.serve.wire import ARROW, JSON, NPZ, PredictRequest, chosen, encode_answer, parse_json, parse_predict

__all__ = ["create_app"]

_LARGE = 32 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9._-]{8,100}")
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_COMMON = (401, 403, 413, 429, 503)


def create_app(settings: Settings, release: Release | None = None) -> FastAPI:
    """The application; opening the ledger happens when it starts, and a failure there keeps it down."""
    service = Service(settings, release)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(service.open)
        flushing = asyncio.create_task(_flush_often(service))
        yield
        flushing.cancel()
        await service.close()

    app = FastAPI(
        title="edgeveil", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False,
        description="Predictions of a graph model whose edges are private.",
    )  # fmt: skip
    app.state.service = service
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_middleware(Envelope, service=service)
    predict = _add_predict(app, service)
    _add_facts(app, service)
    _add_snapshots(app, service)
    add_raw_tables(app, service, _key)
    add_open_inference(app, service, _key)
    _add_health(app, service)
    if settings.admin:
        add_admin(app, service)
    _secure_openapi(app)
    app.state.front = Shortcut(app, service, {("POST", "/v1/predict"): predict})
    return app


async def _flush_often(service: Service) -> None:
    while True:
        await asyncio.sleep(2.0)
        try:
            await asyncio.to_thread(service.watch.flush)
        except Exception:  # the ledger is away; the next query that needs it says so
            continue


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method_not_allowed"}
    problem = Problem(error.status_code, codes.get(error.status_code, "http_error"), str(error.detail))
    headers = dict(error.headers or {})
    return JSONResponse(problem.body(request.state.request_id, request.url.path), error.status_code, headers)


def _secure_openapi(app: FastAPI) -> None:
    build = app.openapi

    def openapi() -> dict[str, Any]:
        schema = build()
        schema["components"]["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer", "description": "API key"}
        }
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


async def _key(request: Request, service: Service, permission: str) -> Key:
    address = partial(client_address, request.scope, service.proxies)
    key = await service.authenticate(request.headers.get("authorization"), permission, address)
    request.state.audit.update(key=key.id, tenant=key.tenant)
    return key


def _add_predict(app: FastAPI, service: Service) -> Handler:
    ok = {
        "model": PredictAnswer,
        "description": "One row per node asked about.",
        "content": {NPZ: _BINARY, ARROW: _BINARY},
    }
    extra = describe(ok, 400, 404, 406, 408, 415, 422, 429, 504, *_COMMON, body=PredictRequest)

    @app.post("/v1/predict", summary="Predict nodes", response_class=Response, **extra)
    async def predict(request: Request) -> Response:
        """Predictions for nodes, with their stored features or with features of your own (in model space).

        Nodes may be named by number or by id; a question by id gets ids and named classes back. `columns` takes a raw
        table in place of `features`. Answers are post-processing of the release: they cost queries, never epsilon.
        """
        key = await _key(request, service, "predict")
        body = await read_body(request.receive)
        kind = request.headers.get("content-type", "")
        if len(body) > _LARGE:
            query = await service.aside(parse_predict, kind, body, 8 * service.settings.max_body)
        else:
            query = parse_predict(kind, body, 8 * service.settings.max_body)
        got = await service.predict(key, query)
        request.state.audit.update(rows=len(got.nodes), computed=got.computed)
        content, media = await _encoded(service, request.headers.get("accept", ""), got)
        return Response(content, media_type=media)

    return predict


async def _encoded(service: Service, accept: str, got: Answered) -> tuple[bytes, str]:
    if len(got.nodes) > 512:
        return await service.aside(encode_answer, accept, got.answer, got.nodes, got.facts(), got.named)
    if got.ready is not None and got.named is None and chosen(accept) == JSON:
        return got.ready.body(got.nodes.tolist()), JSON
    return encode_answer(accept, got.answer, got.nodes, got.facts(), got.named)


def _add_facts(app: FastAPI, service: Service) -> None:
    @app.get("/v1/model", summary="What is served", **describe({"description": "Sizes and output policy."}, *_COMMON))
    async def model(request: Request) -> dict[str, Any]:
        """Sizes, output policy and limits."""
        await _key(request, service, "read")
        return service.model()

    described = describe({"description": "The guarantee and its cost."}, 404, 422, *_COMMON)

    @app.get("/v1/guarantee", summary="What is promised about edges", **described)
    async def guarantee(request: Request, snapshot: str | None = None) -> dict[str, Any]:
        """The privacy guarantee of the release or of a snapshot, and what a query costs."""
        key = await _key(request, service, "read")
        engine = service.snapshots.ready(snapshot, key.viewer)
        if engine is None:
            engine = await service.load_snapshot(str(snapshot), key.viewer)
        return service.guarantee(engine)

    described = describe({"model": QuoteAnswer}, 400, 408, 415, 422, *_COMMON, body=QuoteRequest)

    @app.post("/v1/quote", summary="What a snapshot would cost", **described)
    async def quote(request: Request) -> Any:
        """The price of a snapshot and the state of the accounts; nothing is spent."""
        key = await _key(request, service, "read")
        if not request.headers.get("content-type", "application/json").startswith("application/json"):
            raise Problem(415, "unsupported_media_type", "send application/json")
        asked: QuoteRequest = parse_json(QuoteRequest, await read_body(request.receive) or b"{}")
        epsilon = service.snapshots.epsilon(asked.epsilon)
        edge_set = service.snapshots.check_edge_set(asked.edge_set)
        found = await asyncio.to_thread(service.ledger.quote, key.tenant, edge_set, epsilon)
        return {"epsilon": found.epsilon, "allowed": found.allowed, "accounts": found.accounts, "query_epsilon": 0.0}


def _add_snapshots(app: FastAPI, service: Service) -> None:
    @app.get(
        "/v1/snapshots",
        summary="Snapshots",
        **describe({"description": "Your snapshots and shared ones, oldest first."}, *_COMMON),
    )
    async def snapshots(request: Request) -> dict[str, Any]:
        """The snapshots of the key's tenant and those that are shared; all of them for an admin key."""
        key = await _key(request, service, "read")
        rows = await asyncio.to_thread(service.snapshots.list, key.viewer)
        return {"snapshots": [{k: v for k, v in row.items() if k != "manifest"} for row in rows]}

    extra = describe({"model": SnapshotAnswer}, 400, 408, 409, 415, 422, *_COMMON, body=SnapshotBody)
    extra["openapi_extra"]["parameters"] = [
        {
            "name": "Idempotency-Key", "in": "header", "required": False,
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{8,100}$"},
            "description": "Asking again with the same value repeats the first request without a new charge.",
        }
    ]  # fmt: skip

    @app.post("/v1/snapshots", summary="Register a new graph (spends epsilon)", **extra)
    async def register(request: Request) -> Any:
        """Register a new or changed graph and compute its one private statistic. This is what spends epsilon."""
        key = await _key(request, service, "snapshot")
        token = request.headers.get("idempotency-key") or secrets.token_hex(16)
        if not _TOKEN.fullmatch(token):
            raise Problem(422, "bad_input", "Idempotency-Key: use 8 to 100 letters, digits or ._-")
        kind, limit = request.headers.get("content-type", ""), 4 * service.settings.max_snapshot_body
        body = await read_body(request.receive)
        wanted = await service.aside(parse_snapshot, kind, body, limit, service.release)
        row, spend = await service.make_snapshot(wanted, key, token)
        epsilon = float(from_units(spend.amount))
        service.audit.write(
            "snapshot", durable=True, id=row["id"], key=key.id, tenant=key.tenant, edge_set=row["edge_set"],
            epsilon=epsilon, fresh=spend.fresh,
        )  # fmt: skip
        engine = await service.load_snapshot(row["id"], key.viewer)
        facts = {"epsilon": epsilon, "already_charged": not spend.fresh, **service.guarantee(engine)}
        return {k: v for k, v in row.items() if k not in ("at", "manifest")} | facts


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", summary="Alive", **describe({"description": "The process runs."}, secured=False))
    async def healthz() -> dict[str, str]:
        """The process runs."""
        return {"status": "ok"}

    writable = {"description": "The ledger and the audit log can be written."}

    @app.get("/readyz", summary="Ready", **describe(writable, 503, secured=False))
    async def readyz() -> dict[str, str]:
        """The ledger and the audit log can be written, so that queries can be answered."""
        await asyncio.to_thread(service.check_ready)
        return {"status": "ready"}

    ok = {"description": "Prometheus text.", "content": {"text/plain": {"schema": {"type": "string"}}}}

    @app.get("/metrics", summary="Metrics", response_class=Response, **describe(ok, *_COMMON))
    async def metrics(request: Request) -> Response:
        """Numbers for Prometheus."""
        if not service.settings.public_metrics:
            await _key(request, service, "metrics")
        text = await asyncio.to_thread(service.refresh_metrics)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
