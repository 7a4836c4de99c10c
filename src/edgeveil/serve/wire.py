"""Bodies on the wire: JSON for people and small queries, npz or Arrow for large ones. Nothing is ever unpickled."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Annotated, Any

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
    "Named",
    "PredictRequest",
    "Query",
    "ReadyRows",
    "Words",
    "chosen",
    "encode_answer",
    "parse_json",
    "parse_predict",
    "query_from_arrays",
]

JSON = "application/json"
NPZ = "application/x-npz"
ARROW = "application/vnd.apache.arrow.stream"
ARRAYS = frozenset({"nodes", "features", "answer", "answer_all", "induced", "snapshot"})
# The first fault is enough: a list of millions must not become as many error messages.
Rows = Annotated[list[Annotated[list[float], Field(fail_fast=True)]], Field(fail_fast=True)]
Cell = str | bool | int | float | None
Numbers = Annotated[list[int], Field(min_length=1, fail_fast=True)]
Ids = Annotated[list[str], Field(min_length=1, fail_fast=True)]
Columns = dict[str, Annotated[list[Cell], Field(fail_fast=True)]]
_REMEMBERED = 100_000
_FAULTS = 100
_encode = json.JSONEncoder(separators=(",", ":")).encode


class PredictRequest(BaseModel):
    """A question about nodes. Without `features` the stored ones are used."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={
            "examples": [
                {"nodes": [0, 5]},
                {"nodes": [3], "features": [[0.1, 0.0]], "answer": [3, 4]},
                {"nodes": ["CUST-00821"], "columns": {"income": [52000], "region": ["north"]}},
            ]
        },
    )

    nodes: Numbers | Ids | None = Field(None, description="Nodes asked about, by number or by id; default: all.")
    features: Rows | None = Field(None, description="Rows in model space that replace those of `nodes`.")
    columns: Columns | None = Field(
        None, min_length=1, description="In place of `features`: a raw table by columns, as the release's own had them."
    )
    answer: Numbers | Ids | None = Field(
        None, description="Nodes to answer for when features are given; default: `nodes`."
    )
    answer_all: bool = Field(False, description="Answer for every node.")
    induced: bool = Field(False, description="Answer on the subgraph induced by `nodes` alone.")
    snapshot: str | None = Field(None, max_length=64, description="Snapshot to ask; default: the served release.")


@dataclass(frozen=True)
class Words:
    """The parts of a question in the owner's words: ids for node numbers, a raw table for features."""

    nodes: list[str] | None = None
    answer: list[str] | None = None
    columns: Columns | None = None


class Query:
    """A parsed question in arrays: what changes and whom the answer is about (`answer=None`: everyone).

    `words` are still to be put in numbers (`raw_tables.in_numbers`); `named`: they were, so the answer names nodes too.
    """

    __slots__ = ("answer", "features", "induced", "named", "nodes", "snapshot", "words")

    def __init__(
        self,
        nodes: NDArray[np.int64] | None = None,
        features: NDArray[np.float64] | None = None,
        answer: NDArray[np.int64] | None = None,
        induced: bool = False,
        snapshot: str | None = None,
        words: Words | None = None,
        named: bool = False,
    ) -> None:
        self.nodes, self.features, self.answer = nodes, features, answer
        self.induced, self.snapshot = induced, snapshot
        self.words, self.named = words, named


def parse_json(model: type[BaseModel], body: bytes) -> Any:
    """Validated JSON, or a 400 for what is not JSON and a 422 for what does not fit."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _explain(error) from None


def _explain(error: ValidationError) -> Problem:
    """The first fault; of a choice (numbers or ids), the fault of what fits longest."""
    if error.error_count() > _FAULTS:  # one by one they would cost seconds
        return Problem(422, "bad_input", f"the body has {error.error_count()} faults; /openapi.json describes it")
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    first = faults[0]
    if first["type"] == "json_invalid":
        return Problem(400, "malformed_json", f"the body is not JSON: {first['msg']}")
    same = [fault for fault in faults if fault["loc"][:1] == first["loc"][:1]]
    worst = max(same, key=lambda fault: [part for part in fault["loc"] if isinstance(part, int)])
    where = ".".join(str(part) for part in worst["loc"] if not str(part).startswith(("list[", "constrained-")))
    return Problem(422, "bad_input", f"{where}: {worst['msg']}" if where else worst["msg"])


def parse_predict(content_type: str, body: bytes, unpacked: int = 2**26) -> Query:
    """The question in a body of any accepted type; compressed arrays may take `unpacked` bytes at most."""
    kind = content_type.split(";", 1)[0].strip().lower()
    if kind in ("", JSON):
        return _from_json(parse_json(PredictRequest, body))
    if kind == NPZ:
        return query_from_arrays(read_npz(body, unpacked, ARRAYS))
    if kind == ARROW:
        return query_from_arrays(read_arrow(body, unpacked))
    raise Problem(415, "unsupported_media_type", f"send {JSON}, {NPZ} or {ARROW}, not {kind!r}")


def _from_json(request: PredictRequest) -> Query:
    features = None
    if request.features is not None:
        widths = {len(row) for row in request.features}
        if len(widths) > 1:
            raise Problem(422, "bad_input", f"features: rows have different lengths {sorted(widths)[:4]}")
        features = np.asarray(request.features, np.float64).reshape(len(request.features), max(widths, default=0))
    (nodes, ids), (answer, others) = _either(request.nodes, "nodes"), _either(request.answer, "answer")
    words = None
    if ids is not None or others is not None or request.columns is not None:
        words = Words(ids, others, request.columns)
    return _query(nodes, features, answer, request.answer_all, request.induced, request.snapshot, words)


def _either(given: list[int] | list[str] | None, what: str) -> tuple[NDArray[np.int64] | None, list[str] | None]:
    """Node numbers, or ids."""
    if given is None:
        return None, None
    return (None, given) if isinstance(given[0], str) else (_ids(given, what), None)


def query_from_arrays(arrays: dict[str, Any]) -> Query:
    """The question in named arrays; `nodes` and `answer` may be lists of ids."""
    given = {what: _array_ids(arrays[what], what) if what in arrays else (None, None) for what in ("nodes", "answer")}
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
    (nodes, ids), (answer, others) = given["nodes"], given["answer"]
    words = None if ids is None and others is None else Words(ids, others)
    return _query(nodes, features, answer, flags["answer_all"], flags["induced"], snapshot, words)


def _array_ids(values: Any, what: str) -> tuple[NDArray[np.int64] | None, list[str] | None]:
    if isinstance(values, list) and values:
        return None, values
    if values.ndim == 1 and values.size and values.dtype.kind == "U":
        return None, values.tolist()
    return _ids(values, what), None


def _query(
    nodes: NDArray[np.int64] | None,
    features: NDArray[np.float64] | None,
    answer: NDArray[np.int64] | None,
    answer_all: bool,
    induced: bool,
    snapshot: str | None,
    words: Words | None,
) -> Query:
    said = words or Words()
    if features is not None and said.columns is not None:
        raise Problem(422, "bad_input", "send features (model space) or columns (a raw table), not both")
    apart = answer is not None or said.answer is not None
    if apart and (answer_all or induced or (features is None and said.columns is None)):
        raise Problem(422, "bad_input", "answer goes with features, and not with answer_all or induced")
    if induced and nodes is None and said.nodes is None:
        raise Problem(422, "bad_input", "induced needs nodes: the subgraph to answer on")
    if induced and answer_all:
        raise Problem(422, "bad_input", "induced answers for its nodes only; drop answer_all")
    if not answer_all and not apart:
        answer = nodes
        if said.nodes is not None:
            words = Words(said.nodes, said.nodes, said.columns)
    return Query(nodes, features, None if answer_all else answer, induced, snapshot, words)


def _ids(values: Any, what: str) -> NDArray[np.int64]:
    try:
        if type(values) is list:  # as the validator of JSON lets them through: whole numbers, at least one
            return np.array(values, np.int64)
        ids = np.asarray(values)
        if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "iu":
            raise ValueError
        return ids.astype(np.int64)
    except (ValueError, OverflowError, TypeError):
        raise Problem(422, "bad_input", f"{what}: expected a non-empty list of node numbers") from None


def chosen(accept: str) -> str:
    """The type the client likes best of those we write (RFC 9110, 12.5.1); JSON where it is all the same."""
    if not accept or accept == "*/*":
        return JSON
    weights: dict[str, float] = {}
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        given = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            weights[name] = float(given) if 0 <= float(given) <= 1 else 0.0  # neither nan nor inf
        except ValueError:
            weights[name] = 0.0
    liked = {m: weights.get(m, weights.get("application/*", weights.get("*/*", 0.0))) for m in (JSON, NPZ, ARROW)}
    best = max(liked, key=lambda m: liked[m])
    if liked[best] <= 0:
        raise Problem(406, "not_acceptable", f"this server writes {JSON}, {NPZ} or {ARROW}")
    return best


@dataclass(frozen=True)
class Named:
    """Names for an answer: ids of its nodes, and the classes if they have names."""

    nodes: list[str]
    class_names: tuple[str, ...] | None
    multilabel: bool = False

    def facts(self, answer: Answer) -> dict[str, Any]:
        """What is added to an answer: the names of its columns, and the class of every row (multilabel: classes)."""
        if self.class_names is None:
            return {}
        names = self.class_names
        predicted = [[names[i] for i in row] if self.multilabel else names[row] for row in self._classes(answer)]
        return {"class_names": list(names), "predicted": predicted}

    def _classes(self, answer: Answer) -> list[Any]:
        """By what is in the answer and nothing else."""
        values, classes = answer.values, answer.classes
        if values is None:
            assert answer.labels is not None
            return [np.flatnonzero(row) for row in answer.labels] if self.multilabel else answer.labels.tolist()
        columns = np.broadcast_to(np.arange(values.shape[1]), values.shape) if classes is None else classes
        if self.multilabel:
            likely = values > (0.5 if answer.kind == "probabilities" else 0.0)
            return [row[keep].tolist() for row, keep in zip(columns, likely, strict=True)]
        return columns[np.arange(len(values)), values.argmax(axis=1)].tolist()  # type: ignore[no-any-return]


class ReadyRows:
    """The stored answers as the policy lets them out; rows that were asked for once stay written as JSON.

    `facts` go with every answer.
    """

    def __init__(self, answer: Answer, facts: dict[str, Any]) -> None:
        self.answer, self._end = answer, _encode(facts)[1:]
        self._parts = answer.arrays()
        self._rows: dict[int, tuple[str, ...]] = {}

    def body(self, nodes: list[int]) -> bytes:
        """What `encode_answer` writes about these nodes in JSON."""
        rows = [self._rows.get(node) or self._write(node) for node in nodes]
        parts = [f'"{name}":[{",".join([row[i] for row in rows])}]' for i, name in enumerate(self._parts)]
        head = f'{{"kind":"{self.answer.kind}","nodes":[{",".join(map(str, nodes))}],'
        return f"{head}{','.join(parts)},{self._end}".encode()

    def _write(self, node: int) -> tuple[str, ...]:
        if len(self._rows) >= _REMEMBERED:
            self._rows.clear()
        row = self._rows[node] = tuple(_encode(part[node].tolist()) for part in self._parts.values())
        return row


def encode_answer(
    accept: str, answer: Answer, nodes: NDArray[np.int64], facts: dict[str, Any], named: Named | None = None
) -> tuple[bytes, str]:
    """The answer in the type the client asked for, JSON by default."""
    media, arrays = chosen(accept), answer.arrays()
    extra = {} if named is None else named.facts(answer)
    asked: Any = nodes if named is None else np.array(named.nodes)
    if media == NPZ:
        buffer = io.BytesIO()
        ragged = named is not None and named.multilabel
        more = {name: np.array(part) for name, part in extra.items() if name == "class_names" or not ragged}
        if facts.get("alone"):
            more["alone"] = np.array(True)
        np.savez(buffer, allow_pickle=False, nodes=asked, kind=np.array(answer.kind), **more, **arrays)
        return buffer.getvalue(), NPZ
    if media == ARROW:
        return _write_arrow(answer, asked, extra, bool(facts.get("alone"))), ARROW
    body = {
        "kind": answer.kind,
        "nodes": asked.tolist(),
        **{k: v.tolist() for k, v in arrays.items()},
        **extra,
        **facts,
    }
    return _encode(body).encode(), JSON


def _write_arrow(answer: Answer, nodes: NDArray[Any], extra: dict[str, Any], alone: bool) -> bytes:
    try:
        import pyarrow as pa
    except ImportError:
        raise Problem(406, "not_acceptable", "this server writes no Arrow; accept JSON or npz") from None
    columns = {"nodes": pa.array(nodes)}
    for name, part in answer.arrays().items():
        columns[name] = pa.array(part) if part.ndim == 1 else pa.array(list(part))
    meta = {"kind": answer.kind, "alone": str(alone).lower()}
    if extra:
        columns["predicted"] = pa.array(extra["predicted"])
        meta["class_names"] = json.dumps(extra["class_names"])
    table = pa.table(columns).replace_schema_metadata(meta)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
