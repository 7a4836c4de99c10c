"""The Open Inference Protocol (V2, REST) beside our own routes, for clients of KServe and Triton.

The served release is the model ``release``, a snapshot the model of its id; each has the one version ``1``. A question
takes the way of `/v1/predict`: the same keys, limits, guard and log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from edgeveil import __version__
from edgeveil.serve.auth import Key
from edgeveil.serve.bodies import describe
from edgeveil.serve.engine import Engine
from edgeveil.serve.middleware import read_body
from edgeveil.serve.problems import Problem
from edgeveil.serve.service import Answered, Service
from edgeveil.serve.tensors import InferRequest, InferResponse, check_outputs, read_request, write_response
from edgeveil.serve.wire import JSON, Query, query_from_arrays

__all__ = ["add_open_inference"]

Authorise = Callable[[Request, Service, str], Awaitable[Key]]
RELEASE, VERSION = "release", "1"
OCTETS = "application/octet-stream"
LENGTH = "inference-header-content-length"
_INPUTS = frozenset({"nodes", "features", "answer"})
_CODES = (401, 403, 404, 413, 429, 503)
_LARGE = 32 * 1024


class PlainError(BaseModel):
    """Errors of this protocol are one sentence; ours add the code and the request's id."""

    error: str
    code: str
    request_id: str


class ServerFacts(BaseModel):
    """The server."""

    name: str
    version: str
    extensions: list[str]


class TensorFacts(BaseModel):
    """An input or output; -1 stands for any number."""

    name: str
    datatype: str
    shape: list[int]


class ModelFacts(BaseModel):
    """A model: the served release, or a snapshot."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorFacts]
    outputs: list[TensorFacts]


class State(BaseModel):
    """Alive or ready."""

    live: bool | None = None
    ready: bool | None = None
    name: str | None = None


def _described(ok: type[BaseModel], *codes: int, secured: bool = True, body: type[BaseModel] | None = None) -> Any:
    return describe({"model": ok}, *codes, secured=secured, body=body, error=PlainError)


def add_open_inference(app: FastAPI, service: Service, authorise: Authorise) -> None:
    """Add everything under `/v2`."""
    _add_health(app, service)

    async def find(request: Request, permission: str, model: str, version: str) -> tuple[Key, Engine]:
        key = await authorise(request, service, permission)
        name = None if model == RELEASE else model
        if version != VERSION:
            raise Problem(
                404, "unknown_model", f"there is no version {version[:20]!r}; every model has version {VERSION}"
            )
        engine = service.snapshots.ready(name, key.viewer)
        return key, engine or await service.load_snapshot(model, key.viewer)

    described = _described(ModelFacts, *_CODES)

    @app.get("/v2/models/{model}", summary="V2: a model", **described)
    @app.get("/v2/models/{model}/versions/{version}", summary="V2: a model's version", **described)
    async def metadata(request: Request, model: str, version: str = VERSION) -> Any:
        """Inputs and outputs of the served release (`release`) or of a snapshot (its id)."""
        _, engine = await find(request, "read", model, version)
        return _facts(service, model, engine)

    described = _described(State, *_CODES)

    @app.get("/v2/models/{model}/ready", summary="V2: is a model ready", **described)
    @app.get("/v2/models/{model}/versions/{version}/ready", summary="V2: is a version ready", **described)
    async def ready(request: Request, model: str, version: str = VERSION) -> Any:
        """Whether a model can be asked."""
        await find(request, "read", model, version)
        await asyncio.to_thread(service.check_ready)
        return {"name": model, "ready": True}

    described = _described(InferResponse, 400, 408, 415, 422, 504, *_CODES, body=InferRequest)

    @app.post("/v2/models/{model}/infer", summary="V2: predict", **described)
    @app.post("/v2/models/{model}/versions/{version}/infer", summary="V2: predict with a version", **described)
    async def infer(request: Request, model: str, version: str = VERSION) -> Response:
        """As `/v1/predict`, with named tensors: `nodes` (INT64 numbers or BYTES ids), `features`, `answer`."""
        key, engine = await find(request, "predict", model, version)
        body = await read_body(request.receive)
        kind = request.headers.get("content-type", "").split(";", 1)[0].strip().lower()
        if kind not in ("", JSON, OCTETS):
            raise Problem(415, "unsupported_media_type", f"send {JSON}, or {OCTETS} with binary tensors, not {kind!r}")
        header = request.headers.get(LENGTH)
        run = service.aside if len(body) > _LARGE else _here
        asked, inputs = await run(read_request, body, header)
        query = _query(asked, inputs, None if model == RELEASE else model)
        check_outputs(asked, _output_names(service, engine, query))
        got = await service.predict(key, query)
        request.state.audit.update(rows=len(got.nodes), computed=got.computed)
        facts: dict[str, Any] = {"model_name": model, "model_version": VERSION, "parameters": _cost(got)}
        if asked.id is not None:
            facts["id"] = asked.id
        content, size = await run(write_response, facts, _outputs(got), asked)
        if size is None:
            return Response(content, media_type=JSON)
        return Response(content, media_type=OCTETS, headers={"Inference-Header-Content-Length": str(size)})


async def _here(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/v2", summary="V2: the server", **_described(ServerFacts, secured=False))
    async def server() -> Any:
        """Name, version and extensions."""
        return {"name": "edgeveil", "version": __version__, "extensions": ["binary_tensor_data"]}

    @app.get("/v2/health/live", summary="V2: alive", **_described(State, secured=False))
    async def live() -> Any:
        """The process runs."""
        return {"live": True}

    @app.get("/v2/health/ready", summary="V2: ready", **_described(State, 503, secured=False))
    async def ready() -> Any:
        """As `/readyz`."""
        await asyncio.to_thread(service.check_ready)
        return {"ready": True}


def _facts(service: Service, model: str, engine: Engine) -> dict[str, Any]:
    """Inputs are all optional but one of `nodes` and `features`; ids may be sent as BYTES."""
    policy, classes = service.policy, engine.release.num_classes
    nodes = {"name": "nodes", "datatype": "INT64", "shape": [-1]}
    inputs = [
        nodes,
        {"name": "features", "datatype": "FP32", "shape": [-1, engine.num_features]},
        {"name": "answer", "datatype": "INT64", "shape": [-1]},
    ]
    if policy.kind == "labels":
        parts = [{"name": "labels", "datatype": "INT64", "shape": [-1, classes] if policy.multilabel else [-1]}]
    elif policy.top_k is not None and policy.top_k < classes:
        parts = [
            {"name": "values", "datatype": "FP64", "shape": [-1, policy.top_k]},
            {"name": "classes", "datatype": "INT64", "shape": [-1, policy.top_k]},
        ]
    else:
        parts = [{"name": "values", "datatype": "FP64", "shape": [-1, classes]}]
    return {
        "name": model, "versions": [VERSION], "platform": "edgeveil", "inputs": inputs, "outputs": [nodes, *parts],
    }  # fmt: skip


def _output_names(service: Service, engine: Engine, query: Query) -> list[str]:
    names = [str(part["name"]) for part in _facts(service, "", engine)["outputs"]]
    by_id = query.words is not None and engine.release.class_names is not None and not engine.release.multilabel
    return [*names, "predicted"] if by_id else names


def _query(asked: InferRequest, inputs: dict[str, Any], snapshot: str | None) -> Query:
    unknown = sorted(set(inputs) - _INPUTS)
    if unknown:
        raise Problem(422, "bad_input", f"unknown input {unknown[0]!r}; use {', '.join(sorted(_INPUTS))}")
    if not inputs:
        raise Problem(422, "bad_input", "inputs: send nodes, features or both")
    flags = {name: asked.parameters.get(name, False) for name in ("answer_all", "induced")}
    wrong = next((name for name, value in flags.items() if not isinstance(value, bool)), None)
    if wrong is not None:
        raise Problem(422, "bad_input", f"parameters: {wrong} is true or false, not {flags[wrong]!r}")
    query = query_from_arrays({**inputs, **{name: np.array(value) for name, value in flags.items()}})
    query.snapshot = snapshot
    return query


def _cost(got: Answered) -> dict[str, Any]:
    facts: dict[str, Any] = {"charged_queries": 1, "charged_epsilon": 0.0}
    return {**facts, "alone": True} if got.alone else facts


def _outputs(got: Answered) -> dict[str, Any]:
    """The parts of an answer; asked by id, nodes are ids and the likeliest class is named."""
    answer = got.answer
    if got.named is None:
        return {"nodes": got.nodes, **answer.arrays()}
    named: dict[str, Any] = {"nodes": np.array(got.named.nodes), **answer.arrays()}
    facts = got.named.facts(answer)
    if facts and not got.named.multilabel:
        named["predicted"] = np.array(facts["predicted"])
    return named
