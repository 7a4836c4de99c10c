"""Named tensors of the Open Inference Protocol (V2, REST): JSON, and Triton's binary tensor extension."""

from __future__ import annotations

import json
import math
import struct
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from edgeveil.serve.problems import Problem
from edgeveil.serve.wire import parse_json

__all__ = ["InferRequest", "InferResponse", "Tensor", "check_outputs", "read_request", "write_response"]

INTEGERS = {"INT8": "<i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "<u1", "UINT16": "<u2",
            "UINT32": "<u4"}  # fmt: skip
FLOATS = {"FP32": "<f4", "FP64": "<f8"}
BYTES = "BYTES"
_INPUTS = 8
_LENGTH = struct.Struct("<I")
Values = (
    Annotated[list[int], Field(fail_fast=True)]
    | Annotated[list[float], Field(fail_fast=True)]
    | Annotated[list[Annotated[list[float], Field(fail_fast=True)]], Field(fail_fast=True)]
    | Annotated[list[str], Field(fail_fast=True)]
)
Size = Annotated[int, Field(ge=0, le=2**31)]
Parameters = dict[str, str | bool | int | float]


class Tensor(BaseModel):
    """A named tensor; `data` is flat or nested in row-major order, or follows the JSON part as bytes."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: str = Field(max_length=80)
    shape: list[Size] = Field(max_length=2)
    datatype: str = Field(max_length=16)
    parameters: Parameters = Field(default_factory=dict, max_length=32)
    data: Values | None = None


class Wanted(BaseModel):
    """An output that is asked for."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=80)
    parameters: Parameters = Field(default_factory=dict, max_length=32)


class InferRequest(BaseModel):
    """The body of an inference request. Inputs: `nodes`, `features`, `answer`, as in `/v1/predict`."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={
            "examples": [{"inputs": [{"name": "nodes", "shape": [2], "datatype": "INT64", "data": [0, 5]}]}]
        },
    )

    id: str | None = Field(None, max_length=200)
    parameters: Parameters = Field(
        default_factory=dict, max_length=32, description="`answer_all`, `induced` and `binary_data_output` are read."
    )
    inputs: list[Tensor] = Field(max_length=_INPUTS)
    outputs: list[Wanted] | None = Field(None, max_length=32, description="Default: all.")


class InferResponse(BaseModel):
    """The answer; `parameters` say what it cost."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    outputs: list[Tensor]


def read_request(body: bytes, header: str | None) -> tuple[InferRequest, dict[str, Any]]:
    """The request and its inputs by name: arrays, or lists of ids. `header`: the length of the JSON part."""
    size = len(body)
    if header is not None:
        if not header.isascii() or not header.isdigit() or len(header) > 12 or int(header) > size:
            raise Problem(
                400, "malformed_tensor", "Inference-Header-Content-Length must be the length of the JSON part"
            )
        size = int(header)
    request: InferRequest = parse_json(InferRequest, body[:size])
    rest, found = memoryview(body)[size:], {}
    for tensor in request.inputs:
        if tensor.name in found:
            raise Problem(422, "bad_input", f"input {tensor.name!r} is given twice")
        length = tensor.parameters.get("binary_data_size")
        if length is None:
            found[tensor.name] = _from_json(tensor)
            continue
        if type(length) is not int or not 0 <= length <= len(rest):
            raise _bad(tensor, "binary_data_size does not fit the body")
        found[tensor.name] = _from_bytes(tensor, rest[:length])
        rest = rest[length:]
    if len(rest):
        raise Problem(400, "malformed_tensor", f"{len(rest)} bytes after the last tensor belong to none")
    return request, found


def _bad(tensor: Tensor, why: str) -> Problem:
    return Problem(422, "bad_input", f"input {tensor.name!r}: {why}")


def _from_json(tensor: Tensor) -> Any:
    data: Any = tensor.data
    count = math.prod(tensor.shape)
    if data is None:
        raise _bad(tensor, "data is missing")
    if data and isinstance(data[0], list):
        data = [value for row in data for value in row]
    if len(data) != count:
        raise _bad(tensor, f"shape {tensor.shape} wants {count} values, got {len(data)}")
    kind, whole = _kind(tensor), tensor.datatype in INTEGERS
    expected = str if tensor.datatype == BYTES else int if whole else (int, float)
    if not data or not isinstance(data[0], expected):
        raise _bad(tensor, f"expected {tensor.datatype} values, at least one")
    if tensor.datatype == BYTES:
        return data
    try:
        return np.array(data, kind if whole else np.float64).reshape(tensor.shape)
    except (OverflowError, ValueError):
        raise _bad(tensor, f"a value does not fit {tensor.datatype}") from None


def _kind(tensor: Tensor) -> str:
    known = INTEGERS | FLOATS | {BYTES: "<i8"}
    if tensor.datatype not in known:
        raise _bad(tensor, f"datatype {tensor.datatype!r} is not read here; use {', '.join(known)}")
    return known[tensor.datatype]


def _from_bytes(tensor: Tensor, data: memoryview) -> Any:
    if tensor.data is not None:
        raise _bad(tensor, "data is given twice, as JSON and as bytes")
    count, kind = math.prod(tensor.shape), np.dtype(_kind(tensor))
    if tensor.datatype == BYTES:
        return _texts(tensor, data, count)
    if len(data) != count * kind.itemsize:
        raise _bad(tensor, f"shape {tensor.shape} wants {count * kind.itemsize} bytes, got {len(data)}")
    return np.frombuffer(data, kind).reshape(tensor.shape)


def _texts(tensor: Tensor, data: memoryview, count: int) -> list[str]:
    """Each a length of four bytes and so many bytes of UTF-8."""
    found: list[str] = []
    at = 0
    while at < len(data) and len(found) < count:
        if at + _LENGTH.size > len(data):
            break
        end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            break
        try:
            found.append(str(data[at + _LENGTH.size : end], "utf-8"))
        except UnicodeDecodeError:
            raise _bad(tensor, "an id is not UTF-8") from None
        at = end
    if not count or len(found) != count or at != len(data):
        raise _bad(tensor, f"the bytes are not {count} texts, each after its length")
    return found


def write_response(
    facts: dict[str, Any], arrays: dict[str, NDArray[Any]], request: InferRequest
) -> tuple[bytes, int | None]:
    """The body, and the length of its JSON part if bytes follow."""
    wanted = request.outputs if request.outputs is not None else [Wanted(name=name) for name in arrays]
    outputs, tail = [], []
    for output in wanted:
        array = arrays[output.name]
        entry: dict[str, Any] = {"name": output.name, "datatype": _datatype(array), "shape": list(array.shape)}
        if output.parameters.get("binary_data", request.parameters.get("binary_data_output", False)) is True:
            tail.append(_bytes(array))
            entry["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            entry["data"] = array.ravel().tolist()
        outputs.append(entry)
    head = json.dumps({**facts, "outputs": outputs}, separators=(",", ":")).encode()
    return head + b"".join(tail), len(head) if tail else None


def check_outputs(request: InferRequest, names: list[str]) -> None:
    """Refuse, before anything is counted, a request for outputs that its answer will not have."""
    for output in request.outputs or ():
        if output.name not in names:
            raise Problem(422, "bad_input", f"outputs: there is no {output.name!r}; this answer has {', '.join(names)}")


def _datatype(array: NDArray[Any]) -> str:
    return {"i": "INT64", "f": "FP64"}.get(array.dtype.kind, BYTES)


def _bytes(array: NDArray[Any]) -> bytes:
    if _datatype(array) == BYTES:
        texts = [str(value).encode() for value in array.ravel().tolist()]
        return b"".join(_LENGTH.pack(len(text)) + text for text in texts)
    return array.astype("<i8" if array.dtype.kind == "i" else "<f8").tobytes()
