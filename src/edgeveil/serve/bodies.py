"""Request and answer bodies besides predictions, and what the OpenAPI description says about all of them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from edgeveil.release.release import Release
from edgeveil.serve.archives import read_npz
from edgeveil.serve.problems import Problem
from edgeveil.serve.snapshots import SnapshotRequest
from edgeveil.serve.wire import ARROW, JSON, NPZ, Columns, PredictRequest, Rows, parse_json
from edgeveil.serve.words import table_rows

__all__ = ["ErrorBody", "PredictAnswer", "QuoteAnswer", "QuoteRequest", "SnapshotBody", "describe", "parse_snapshot"]

Node = Annotated[int, Field(ge=0, lt=2**31)]
_LONGEST = 200  # characters of an id
NodeId = Annotated[str, Field(min_length=1, max_length=_LONGEST)]
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
    nodes: list[int] | list[str] = Field(description="As they were asked: numbers, or ids.")
    values: list[list[float]] | None = None
    classes: list[list[int]] | None = None
    labels: list[int] | list[list[int]] | None = None
    class_names: list[str] | None = Field(None, description="When asked by id: names of the classes, in order.")
    predicted: list[str] | list[list[str]] | None = Field(
        None, description="When asked by id: the likeliest class of every node (multilabel: all likely ones)."
    )
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
        json_schema_extra={
            "examples": [
                {"name": "monday", "num_nodes": 3, "edges": [[0, 1], [1, 2]], "epsilon": 1.0},
                {"name": "tuesday", "edges": [["CUST-00821", "CUST-00003"]], "epsilon": 1.0},
            ]
        },
    )

    name: str = Field(pattern=_NAME)
    num_nodes: int | None = Field(None, gt=0, le=2**31, description="From a public list of nodes; or name the nodes.")
    nodes: Annotated[list[NodeId], Field(min_length=1, fail_fast=True)] | None = Field(
        None, description="Ids of all nodes (public), in the order of features; default: the release's."
    )
    edges: (
        Annotated[list[tuple[Node, Node]], Field(fail_fast=True)]
        | Annotated[list[tuple[str, str]], Field(fail_fast=True)]
    ) = Field(description="Pairs of node numbers, or of ids.")
    features: Rows | None = Field(None, description="In model space; default: the stored ones.")
    columns: Columns | None = Field(
        None, min_length=1, description="In place of `features`: a raw table by columns, as the release's own had them."
    )
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


def parse_snapshot(content_type: str, body: bytes, unpacked: int, release: Release) -> SnapshotRequest:
    """The snapshot in a JSON or npz body; the release knows ids and raw columns."""
    kind = content_type.split(";", 1)[0].strip().lower()
    if kind in ("", JSON):
        given: SnapshotBody = parse_json(SnapshotBody, body)
        return _request(given, given.edges, given.features, release)
    if kind != NPZ:
        raise Problem(415, "unsupported_media_type", f"send {JSON} or {NPZ}, not {kind!r}")
    arrays = read_npz(body, unpacked, frozenset(SnapshotBody.model_fields) - {"columns"})
    edges, features, nodes = (arrays.pop(name, None) for name in ("edges", "features", "nodes"))
    if edges is None or edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iuU":
        raise Problem(422, "bad_input", "edges: expected an array [2, E] of node numbers or ids")
    if nodes is not None and (nodes.ndim != 1 or nodes.dtype.kind != "U" or not nodes.size):
        raise Problem(422, "bad_input", "nodes: expected the ids of all nodes")
    if nodes is not None and nodes.dtype.itemsize > 4 * _LONGEST:
        raise Problem(422, "bad_input", f"nodes: an id has at most {_LONGEST} characters")
    plain = {name: part.item() for name, part in arrays.items() if part.ndim == 0 and part.dtype.kind in "biufU"}
    given = parse_json(SnapshotBody, _as_json({**plain, "edges": []}))
    if nodes is not None:
        given.nodes = nodes.tolist()
    return _request(given, edges.T.tolist() if edges.dtype.kind == "U" else edges.T, features, release)


def _as_json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def _request(given: SnapshotBody, edges: Any, features: Any, release: Release) -> SnapshotRequest:
    by_id = len(edges) > 0 and isinstance(edges[0][0], str)
    ids = None if given.nodes is None else np.array(given.nodes)
    if ids is None and by_id:
        ids = release.node_ids
        if ids is None:
            raise Problem(422, "bad_input", "nodes: the release has no ids, so edges by id need those of all nodes")
    if ids is not None and len(np.unique(ids)) != len(ids):
        raise Problem(422, "repeated_node", "nodes: an id is given twice; name each node once")
    count = given.num_nodes if ids is None else len(ids)
    if count is None:
        raise Problem(422, "bad_input", "num_nodes: say how many nodes there are, or name them in nodes")
    if given.num_nodes not in (None, count):
        raise Problem(422, "bad_input", f"num_nodes: {given.num_nodes} nodes, but nodes has {count} ids")
    numbers = _by_id(edges, ids) if by_id and ids is not None else np.asarray(edges, np.int64).reshape(-1, 2).T
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise Problem(422, "unknown_node", f"edges: node numbers must lie in 0..{count - 1}")
    x = _features(given, features, count, release)
    return SnapshotRequest(given.name, numbers, count, x, given.epsilon, given.edge_set, given.shared, ids)


def _by_id(edges: Any, ids: NDArray[Any]) -> NDArray[np.int64]:
    place = {str(name): at for at, name in enumerate(ids.tolist())}
    unknown = next((name for pair in edges for name in pair if name not in place), None)
    if unknown is not None:
        raise Problem(422, "unknown_node", f"edges: unknown node {unknown[:80]!r}; nodes lists all ids")
    return np.array([[place[u], place[v]] for u, v in edges], np.int64).reshape(-1, 2).T


def _features(given: SnapshotBody, features: Any, count: int, release: Release) -> NDArray[np.float64] | None:
    if given.columns is not None:
        if features is not None:
            raise Problem(422, "bad_input", "send features (model space) or columns (a raw table), not both")
        return table_rows(release, given.columns, count)
    if features is None:
        return None
    try:
        x = np.atleast_2d(np.asarray(features, np.float64))
    except (ValueError, TypeError):
        raise Problem(422, "bad_input", "features: expected a matrix of numbers") from None
    if not np.isfinite(x).all():
        raise Problem(422, "bad_input", "features: NaN or infinite values; send finite numbers")
    return x


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
    ok: dict[str, Any],
    *codes: int,
    body: type[BaseModel] | None = None,
    secured: bool = True,
    error: type[BaseModel] = ErrorBody,
) -> dict[str, Any]:
    """Keyword arguments of a route: its answers and, if it has one, its body."""
    responses: dict[int | str, dict[str, Any]] = {200: ok}
    responses |= {code: {"model": error, "description": _PROBLEMS[code]} for code in sorted({*codes})}
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
