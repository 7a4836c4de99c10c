"""Request and answer bodies besides predictions, and what the OpenAPI description says about all of them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from edgeveil.serve.archives import read_npz
from edgeveil.serve.problems import Problem
from edgeveil.serve.snapshots import SnapshotRequest
from edgeveil.serve.wire import ARROW, JSON, NPZ, PredictRequest, parse_json

__all__ = ["ErrorBody", "PredictAnswer", "QuoteAnswer", "QuoteRequest", "SnapshotBody", "describe", "parse_snapshot"]

Node = Annotated[int, Field(ge=0, lt=2**31)]
_NAME = r"^[A-Za-z0-9._ -]{1,80}$"


class ErrorDetail(BaseModel):
    """Why a request failed."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    request_id: str


class ErrorBody(BaseModel):
    """The body of every answer with a status of 400 or more."""

    error: ErrorDetail


class Charged(BaseModel):
    """What an answer cost."""

    queries: int
    epsilon: float


class PredictAnswer(BaseModel):
    """One row per node; which parts are there depends on the operator's output policy."""

    kind: str
    nodes: list[int]
    values: list[list[float]] | None = None
    classes: list[list[int]] | None = None
    labels: list[int] | list[list[int]] | None = None
    charged: Charged
    alone: bool = Field(False, description="Each node was answered as if its own row alone had changed.")


class QuoteRequest(BaseModel):
    """A snapshot one thinks of making."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, json_schema_extra={"examples": [{"epsilon": 1.0}]})

    epsilon: float | None = Field(None, ge=1e-6, le=1e6)
    edge_set: str | None = Field(None, pattern=_NAME)


class AccountState(BaseModel):
    """An epsilon account."""

    cap: float
    spent: float
    left: float


class QuoteAnswer(BaseModel):
    """What a snapshot would cost now; nothing has been spent."""

    epsilon: float
    allowed: bool
    accounts: dict[str, AccountState]
    query_epsilon: float = 0.0


class SnapshotBody(BaseModel):
    """A new or changed graph. Large ones are sent as npz with arrays of the same names."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={"examples": [{"name": "monday", "num_nodes": 3, "edges": [[0, 1], [1, 2]], "epsilon": 1.0}]},
    )

    name: str = Field(pattern=_NAME)
    num_nodes: int = Field(gt=0, le=2**31)
    edges: list[tuple[Node, Node]]
    features: list[list[float]] | None = None
    epsilon: float | None = Field(None, ge=1e-6, le=1e6)
    edge_set: str | None = Field(None, pattern=_NAME)
    shared: bool = Field(False, description="Let other tenants ask it; by default only its maker's may.")


class SnapshotAnswer(BaseModel):
    """A registered snapshot and the epsilon charged for it."""

    id: str
    name: str
    edge_set: str
    num_nodes: int
    tenant: str
    shared: bool
    epsilon: float
    already_charged: bool
    guarantee: dict[str, Any]


def parse_snapshot(content_type: str, body: bytes, unpacked: int) -> SnapshotRequest:
    """The snapshot in a JSON or npz body."""
    kind = content_type.split(";", 1)[0].strip().lower()
    if kind in ("", JSON):
        given: SnapshotBody = parse_json(SnapshotBody, body)
        return _request(given, np.asarray(given.edges, np.int64).reshape(-1, 2).T, given.features)
    if kind != NPZ:
        raise Problem(415, "unsupported_media_type", f"send {JSON} or {NPZ}, not {kind!r}")
    arrays = read_npz(body, unpacked, frozenset(SnapshotBody.model_fields))
    edges = arrays.pop("edges", None)
    features = arrays.pop("features", None)
    if edges is None or edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise Problem(422, "bad_input", "edges: expected an integer array [2, E]")
    plain = {name: part.item() for name, part in arrays.items() if part.ndim == 0 and part.dtype.kind in "biufU"}
    given = parse_json(SnapshotBody, _as_json({**plain, "edges": []}))
    return _request(given, edges.astype(np.int64), features)


def _as_json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def _request(given: SnapshotBody, edges: Any, features: Any) -> SnapshotRequest:
    x = None
    if features is not None:
        try:
            x = np.atleast_2d(np.asarray(features, np.float64))
        except (ValueError, TypeError):
            raise Problem(422, "bad_input", "features: expected a matrix of numbers") from None
        if not np.isfinite(x).all():
            raise Problem(422, "bad_input", "features: NaN or infinite values; send finite numbers")
    if edges.size and (edges.min() < 0 or edges.max() >= given.num_nodes):
        raise Problem(422, "unknown_node", f"edges: node numbers must lie in 0..{given.num_nodes - 1}")
    return SnapshotRequest(given.name, edges, given.num_nodes, x, given.epsilon, given.edge_set, given.shared)


# -- OpenAPI ----------------------------------------------------------------------------------------------------------

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_SECURED: dict[str, Any] = {"security": [{"key": []}]}
_PROBLEMS = {
    400: "The body cannot be read.",
    401: "No key, or one that is unknown, expired or revoked.",
    403: "The key's role does not allow this.",
    404: "Unknown snapshot.",
    406: "The server cannot write what the client accepts.",
    408: "The body did not arrive in time.",
    409: "The epsilon budget does not cover this, or the Idempotency-Key was used for another request.",
    413: "The body or the number of nodes is too large.",
    415: "The body has a type the server does not read.",
    422: "The request is understood and wrong: unknown or repeated nodes, wrong width, NaN.",
    429: "A query limit is used up, the guard refuses, or too many keys have failed.",
    503: "The ledger is unreachable or the server is overloaded; nothing was charged.",
    504: "The answer took too long.",
}


def describe(
    ok: dict[str, Any], *codes: int, body: type[BaseModel] | None = None, secured: bool = True
) -> dict[str, Any]:
    """Keyword arguments of a route: its answers and, if it has one, its body."""
    responses: dict[int | str, dict[str, Any]] = {200: ok}
    responses |= {code: {"model": ErrorBody, "description": _PROBLEMS[code]} for code in sorted({*codes})}
    extra: dict[str, Any] = dict(_SECURED) if secured else {}
    if body is not None:
        schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
        schema.pop("$defs", None)
        content: dict[str, Any] = {JSON: {"schema": schema}}
        if body in (PredictRequest, SnapshotBody):
            content[NPZ] = _BINARY
        if body is PredictRequest:
            content[ARROW] = _BINARY
        extra["requestBody"] = {"required": True, "content": content}
    return {"responses": responses, "openapi_extra": extra}
