"""Arrays in binary bodies that anybody may have made: names, counts and sizes are checked before anything is unpacked.

Nothing is unpickled, and nothing is allocated on the word of a header alone.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.serve.problems import Problem

__all__ = ["read_arrow", "read_npz"]

_END = struct.Struct("<4s4H2LH")  # end of central directory (APPNOTE 4.3.16)
_END64 = b"PK\x06\x07"
_MEMBERS = 16
_DIRECTORY = 16 * 1024
_HEADER = 1024
_PLAIN = "biufU"


def read_npz(body: bytes, limit: int, known: frozenset[str]) -> dict[str, NDArray[Any]]:
    """Arrays of an npz archive that take at most `limit` bytes, also as numbers of 8 bytes each."""
    _check_directory(body)
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            items = archive.infolist()
            _check_members(items, limit, known)
            found = {item.filename.removesuffix(".npy"): _read_npy(archive.read(item)) for item in items}
    except Problem:
        raise
    except Exception:  # a hostile archive raises whatever zipfile, zlib and the header's parser may raise
        raise Problem(400, "malformed_npz", "the body is not a readable npz archive of plain arrays") from None
    if sum(8 * part.size for part in found.values()) > limit:
        raise _too_large(limit)
    return found


def _too_large(limit: int) -> Problem:
    return Problem(413, "too_large", f"the unpacked arrays exceed {limit} bytes")


def _check_directory(body: bytes) -> None:
    """Refuse an archive with a long table of contents before `zipfile` reads it: that alone costs seconds."""
    at = body.rfind(b"PK\x05\x06", max(0, len(body) - _END.size - 0xFFFF))
    if at < 0 or at + _END.size > len(body) or body[max(0, at - 20) : at].startswith(_END64):
        raise Problem(400, "malformed_npz", "the body is not a readable npz archive of plain arrays")
    entries, size = _END.unpack_from(body, at)[4:6]
    if entries > _MEMBERS or size > _DIRECTORY:
        raise Problem(413, "too_large", f"an archive may hold at most {_MEMBERS} arrays")


def _check_members(items: list[zipfile.ZipInfo], limit: int, known: frozenset[str]) -> None:
    names = [item.filename.removesuffix(".npy") for item in items]
    unknown = sorted(set(names) - known)
    if unknown:
        raise Problem(422, "bad_input", f"unknown array {unknown[0][:40]!r}; use {', '.join(sorted(known))}")
    if len(set(names)) != len(names):
        raise Problem(422, "bad_input", "an array is given twice; name each array once")
    if any(item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for item in items):
        raise Problem(400, "malformed_npz", "arrays must be stored or deflated, as numpy.savez writes them")
    if sum(item.file_size for item in items) > limit:
        raise _too_large(limit)


def _read_npy(data: bytes) -> NDArray[Any]:
    """An array whose header agrees with the bytes that follow it; numpy would allocate what the header says."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, fortran, dtype = read(stream, max_header_size=_HEADER)
    count = math.prod(shape)
    if dtype.kind not in _PLAIN or dtype.itemsize < 1 or min(shape, default=0) < 0:
        raise ValueError("not a plain array")
    if count * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("the header does not fit the data")
    flat = np.frombuffer(data, dtype, count, stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def read_arrow(body: bytes, limit: int) -> dict[str, NDArray[Any]]:
    """A stream of record batches: column `nodes`, column `features` (lists of numbers), flags in the metadata."""
    try:
        import pyarrow as pa
    except ImportError:
        raise Problem(415, "unsupported_media_type", "this server reads no Arrow; send JSON or npz") from None
    try:
        return _arrow_arrays(pa, body, limit)
    except Problem:
        raise
    except Exception:  # as above: Arrow has many ways to say that a stream is junk
        raise Problem(400, "malformed_arrow", "the body is not a readable Arrow stream") from None


def _arrow_arrays(pa: Any, body: bytes, limit: int) -> dict[str, NDArray[Any]]:
    _check_messages(pa, body)
    with pa.ipc.open_stream(body) as reader:
        if not set(reader.schema.names) <= {"nodes", "features", "answer"}:
            raise Problem(422, "bad_input", "an Arrow stream has the columns nodes, features and answer")
        table = reader.read_all()
    table.validate(full=True)
    if table.nbytes > limit:
        raise _too_large(limit)
    found = {name: np.asarray(table[name].to_pylist()) for name in table.column_names}
    meta = table.schema.metadata or {}
    for name in (b"answer_all", b"induced"):
        if name in meta:
            found[name.decode()] = np.array([meta[name] == b"true"])
    if b"answer" in meta:
        found["answer"] = np.asarray(json.loads(meta[b"answer"]))
    if b"snapshot" in meta:
        found["snapshot"] = np.array([meta[b"snapshot"].decode()])
    return found


def _check_messages(pa: Any, body: bytes) -> None:
    """Refuse compressed batches, whose size is known only after unpacking, and dictionaries, not needed here."""
    for message in pa.ipc.MessageReader.open_stream(body):
        if message.type == "dictionary" or (message.type == "record batch" and _is_compressed(message.metadata)):
            raise Problem(400, "malformed_arrow", "send plain record batches, neither compressed nor dictionaries")


def _is_compressed(metadata: Any) -> bool:
    """Whether a Message's RecordBatch has its fourth field, `compression` (Arrow's Message.fbs, as a flatbuffer)."""
    data = metadata.to_pybytes()

    def field(table: int, index: int) -> int:
        vtable = table - int(struct.unpack_from("<i", data, table)[0])
        if 4 + 2 * index >= struct.unpack_from("<H", data, vtable)[0]:
            return 0
        offset = int(struct.unpack_from("<H", data, vtable + 4 + 2 * index)[0])
        return table + offset if offset else 0

    at = field(int(struct.unpack_from("<I", data, 0)[0]), 2)  # Message.header
    return bool(at and field(at + int(struct.unpack_from("<I", data, at)[0]), 3))
