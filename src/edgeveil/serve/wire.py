"""Bodies on the wire: JSON for people and small queries, npz or Arrow for large ones. Nothing is ever unpickled."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgeveil.serve.archives import read_arrow, read_npz
from edgeveil.serve.policy import Answer
from edgeveil.serve.problems import Problem

__all__ = [
    "ARROW",
    "JSON",
    "NPZ",
    "PredictRequest",
    "Query",
    "encode_answer",
    "parse_json",
    "parse_predict",
]

JSON = "application/json"
NPZ = "application/x-npz"
ARROW = "application/vnd.apache.arrow.stream"
ARRAYS = frozenset({"nodes", "features", "answer", "answer_all", "induced", "snapshot"})
Row = list[float]
_encode = json.JSONEncoder(separators=(",", ":")).encode


class PredictRequest(BaseModel):
    """A question about nodes. Without `features` the stored ones are used."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={"examples": [{"nodes": [0, 5]}, {"nodes": [3], "features": [[0.1, 0.0]], "answer": [3, 4]}]},
    )

    nodes: list[int] | None = Field(None, min_length=1, description="Nodes asked about; default: all.")
    features: list[Row] | None = Field(None, description="Rows in model space that replace those of `nodes`.")
    answer: list[int] | None = Field(
        None, min_length=1, description="Nodes to answer for when features are given; default: `nodes`."
    )
    answer_all: bool = Field(False, description="Answer for every node.")
    induced: bool = Field(False, description="Answer on the subgraph induced by `nodes` alone.")
    snapshot: str | None = Field(None, max_length=64, description="Snapshot to ask; default: the served release.")


class Query:
    """A parsed question in arrays: what changes and whom the answer is about (`answer=None`: everyone)."""

    __slots__ = ("answer", "features", "induced", "nodes", "snapshot")

    def __init__(
        self,
        nodes: NDArray[np.int64] | None = None,
        features: NDArray[np.float64] | None = None,
        answer: NDArray[np.int64] | None = None,
        induced: bool = False,
        snapshot: str | None = None,
    ) -> None:
        self.nodes, self.features, self.answer = nodes, features, answer
        self.induced, self.snapshot = induced, snapshot


def parse_json(model: type[BaseModel], body: bytes) -> Any:
    """Validated JSON, or a 400 for what is not JSON and a 422 for what does not fit."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise Problem(400, "malformed_json", f"the body is not JSON: {first['msg']}") from None
        where = ".".join(str(part) for part in first["loc"])
        raise Problem(422, "bad_input", f"{where}: {first['msg']}" if where else first["msg"]) from None


def parse_predict(content_type: str, body: bytes, unpacked: int = 2**26) -> Query:
    """The question in a body of any accepted type; compressed arrays may take `unpacked` bytes at most."""
    kind = content_type.split(";", 1)[0].strip().lower()
    if kind in ("", JSON):
        return _from_json(parse_json(PredictRequest, body))
    if kind == NPZ:
        return _from_arrays(read_npz(body, unpacked, ARRAYS))
    if kind == ARROW:
        return _from_arrays(read_arrow(body, unpacked))
    raise Problem(415, "unsupported_media_type", f"send {JSON}, {NPZ} or {ARROW}, not {kind!r}")


def _from_json(request: PredictRequest) -> Query:
    features = None
    if request.features is not None:
        widths = {len(row) for row in request.features}
        if len(widths) > 1:
            raise Problem(422, "bad_input", f"features: rows have different lengths {sorted(widths)[:4]}")
        features = np.asarray(request.features, np.float64).reshape(len(request.features), max(widths, default=0))
    nodes = None if request.nodes is None else _ids(request.nodes, "nodes")
    answer = None if request.answer is None else _ids(request.answer, "answer")
    return _query(nodes, features, answer, request.answer_all, request.induced, request.snapshot)


def _from_arrays(arrays: dict[str, NDArray[Any]]) -> Query:
    nodes = _ids(arrays["nodes"], "nodes") if "nodes" in arrays else None
    answer = _ids(arrays["answer"], "answer") if "answer" in arrays else None
    features = None
    if "features" in arrays:
        features = np.atleast_2d(arrays["features"])
        if features.dtype.kind not in "fiub" or features.ndim != 2:
            raise Problem(422, "bad_input", "features: expected a matrix of numbers")
        features = features.astype(np.float64)
        if not np.isfinite(features).all():
            raise Problem(422, "bad_input", "features: NaN or infinite values; send finite numbers")
    flags = {
        name: bool(arrays[name].reshape(-1)[:1].any()) if name in arrays else False
        for name in ("answer_all", "induced")
    }
    snapshot = str(arrays["snapshot"].reshape(-1)[0]) if "snapshot" in arrays and arrays["snapshot"].size else None
    return _query(nodes, features, answer, flags["answer_all"], flags["induced"], snapshot)


def _query(
    nodes: NDArray[np.int64] | None,
    features: NDArray[np.float64] | None,
    answer: NDArray[np.int64] | None,
    answer_all: bool,
    induced: bool,
    snapshot: str | None,
) -> Query:
    if answer is not None and (answer_all or induced or features is None):
        raise Problem(422, "bad_input", "answer goes with features, and not with answer_all or induced")
    if induced and nodes is None:
        raise Problem(422, "bad_input", "induced needs nodes: the subgraph to answer on")
    if induced and answer_all:
        raise Problem(422, "bad_input", "induced answers for its nodes only; drop answer_all")
    if not answer_all and answer is None:
        answer = nodes
    return Query(nodes, features, None if answer_all else answer, induced, snapshot)


def _ids(values: Any, what: str) -> NDArray[np.int64]:
    try:
        ids = np.asarray(values)
        if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "iu":
            raise ValueError
        return ids.astype(np.int64)
    except (ValueError, OverflowError, TypeError):
        raise Problem(422, "bad_input", f"{what}: expected a non-empty list of node numbers") from None


def _chosen(accept: str) -> str:
    """The type the client likes best of those we write (RFC 9110, 12.5.1); JSON where it is all the same."""
    if not accept or accept == "*/*":
        return JSON
    weights: dict[str, float] = {}
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        given = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            weights[name] = float(given)
        except ValueError:
            weights[name] = 0.0
    liked = {m: weights.get(m, weights.get("application/*", weights.get("*/*", 0.0))) for m in (JSON, NPZ, ARROW)}
    best = max(liked, key=lambda m: liked[m])
    if liked[best] <= 0:
        raise Problem(406, "not_acceptable", f"this server writes {JSON}, {NPZ} or {ARROW}")
    return best


def encode_answer(accept: str, answer: Answer, nodes: NDArray[np.int64], facts: dict[str, Any]) -> tuple[bytes, str]:
    """The answer in the type the client asked for, JSON by default."""
    arrays = answer.arrays()
    media = _chosen(accept)
    if media == NPZ:
        buffer = io.BytesIO()
        alone = {"alone": np.array(True)} if facts.get("alone") else {}
        np.savez(buffer, allow_pickle=False, nodes=nodes, kind=np.array(answer.kind), **alone, **arrays)
        return buffer.getvalue(), NPZ
    if media == ARROW:
        return _write_arrow(answer, nodes, bool(facts.get("alone"))), ARROW
    body = {"kind": answer.kind, "nodes": nodes.tolist(), **{k: v.tolist() for k, v in arrays.items()}, **facts}
    return _encode(body).encode(), JSON


def _write_arrow(answer: Answer, nodes: NDArray[np.int64], alone: bool) -> bytes:
    try:
        import pyarrow as pa
    except ImportError:
        raise Problem(406, "not_acceptable", "this server writes no Arrow; accept JSON or npz") from None
    columns = {"nodes": pa.array(nodes)}
    for name, part in answer.arrays().items():
        columns[name] = pa.array(part) if part.ndim == 1 else pa.array(list(part))
    table = pa.table(columns).replace_schema_metadata({"kind": answer.kind, "alone": str(alone).lower()})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
