"""Binary bodies from hostile clients: refused with a 4xx, quickly, and before anything large is allocated."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeveil.serve.archives import read_arrow, read_npz
from edgeveil.serve.problems import Problem
from edgeveil.serve.wire import ARRAYS, ARROW, NPZ, parse_predict
from tries import tries


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def archive(members: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return buffer.getvalue()


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header(text: str) -> bytes:
    body = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body


def arrow(compression: str | None = None, **columns: Any) -> bytes:
    table = pa.table(columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def encrypted() -> bytes:
    body = bytearray(npz(nodes=np.arange(3)))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        body[body.index(mark) + offset] |= 1
    return bytes(body)


def corrupt() -> bytes:
    body = bytearray(npz(nodes=np.arange(300)))
    body[len(body) // 3] ^= 0xFF
    return bytes(body)


BAD_NPZ: dict[str, tuple[bytes, int]] = {
    "foreign member": (archive({"../../etc/passwd": b"x"}), 422),
    "member that is no array": (archive({"nodes": b"12"}), 400),
    "encrypted member": (encrypted(), 400),
    "corrupt member": (corrupt(), 400),
    "other compression": (archive({"nodes.npy": npy(np.arange(3))}, zipfile.ZIP_LZMA), 400),
    "array twice": (archive({"nodes": npy(np.arange(3)), "nodes.npy": npy(np.arange(3))}), 422),
    "malformed header": (archive({"nodes.npy": header("{'descr': '<i8', 'shape': (1,")}), 400),
    "header of another kind": (archive({"nodes.npy": header("[1, 2]")}), 400),
    "header that promises a terabyte": (
        archive({"nodes.npy": header("{'descr': '<i8', 'fortran_order': False, 'shape': (137438953472,)}")}), 400
    ),
    "negative shape": (archive({"nodes.npy": header("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}")}), 400),
    "pickled objects": (archive({"nodes.npy": header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}")}), 400),
    "records": (npz(nodes=np.zeros(2, [("a", "<i8")])), 400),
    "zip64": (archive({"nodes.npy": npy(np.arange(3))})[:-22] + b"PK\x06\x07" + bytes(16) + b"PK\x05\x06" + bytes(18), 400),
    "bomb": (npz(features=np.zeros((2000, 2000))), 413),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_NPZ)
def test_bad_archives_are_refused(name: str) -> None:
    body, status = BAD_NPZ[name]
    tracemalloc.start()
    try:
        with pytest.raises(Problem) as caught:
            read_npz(body, 2**20, ARRAYS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.status == status
    assert peak < 8 * 2**20


def test_twenty_thousand_members_cost_nothing() -> None:
    body = archive({f"a{i}.npy": b"" for i in range(20_000)}, zipfile.ZIP_STORED)
    started = time.process_time()
    with pytest.raises(Problem) as caught:
        read_npz(body, 2**26, ARRAYS)
    assert caught.value.status == 413
    assert time.process_time() - started < 0.1


def test_what_numpy_writes_is_read() -> None:
    fortran = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    parts = {"nodes": np.arange(3, dtype=np.int32), "features": fortran, "induced": np.array(True)}
    found = read_npz(npz(**parts), 2**20, ARRAYS)
    assert {name: part.tolist() for name, part in found.items()} == {k: v.tolist() for k, v in parts.items()}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"junk",
        b"\xff\xff\xff\xff\x10\x00\x00\x00",
        arrow("zstd", nodes=[1] * 1000),
        arrow(nodes=[1])[:-40],
        arrow(nodes=pa.array(["a"]).dictionary_encode()),
    ],
)
def test_arrow_junk_is_refused(body: bytes) -> None:
    with pytest.raises(Problem) as caught:
        parse_predict(ARROW, body)
    assert caught.value.status in (400, 422)


def test_plain_arrow_is_read_and_limited() -> None:
    body = arrow(nodes=[1, 2], features=[[0.5, 1.0], [2.0, 3.0]])
    query = parse_predict(ARROW, body)
    assert query.nodes is not None and query.features is not None
    assert query.nodes.tolist() == [1, 2] and query.features.tolist() == [[0.5, 1.0], [2.0, 3.0]]
    with pytest.raises(Problem) as caught:
        read_arrow(arrow(nodes=list(range(1000))), 100)
    assert caught.value.status == 413


GOOD = {
    NPZ: [npz(nodes=np.arange(3), features=np.zeros((3, 12))), npz(nodes=np.arange(2), answer=np.arange(3))],
    ARROW: [arrow(nodes=[1, 2], features=[[0.0] * 12] * 2), arrow(nodes=[5])],
}


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good body with bytes changed, removed, added or repeated, also inside an archive's members."""
    kind = draw(st.sampled_from([NPZ, ARROW]))
    body = bytearray(draw(st.sampled_from(GOOD[kind])))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(body) - 1)))
        what = draw(st.sampled_from(["flip", "cut", "add", "repeat", "number"]))
        if what == "flip" and body:
            body[at] ^= draw(st.integers(1, 255))
        elif what == "cut":
            del body[at : at + draw(st.integers(1, 40))]
        elif what == "add":
            body[at:at] = draw(st.binary(min_size=1, max_size=16))
        elif what == "repeat":
            body[at:at] = body[at : at + draw(st.integers(1, 60))]
        else:
            body[at : at + 4] = struct.pack("<I", draw(st.sampled_from([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x10000])))
    return kind, bytes(body)


@st.composite
def mutated_members(draw: st.DrawFn) -> tuple[str, bytes]:
    """An archive whose table of contents is sound and whose arrays are not."""
    data = bytearray(npy(np.arange(draw(st.integers(0, 5)))))
    for _ in range(draw(st.integers(1, 5))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    name = draw(st.sampled_from(["nodes.npy", "features.npy", "answer.npy", "induced", "snapshot.npy", "x.npy"]))
    return NPZ, archive({name: bytes(data)}, draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])))


def check_fuzz(live: Callable[..., Any], cases: int) -> None:
    server = live()
    key = server.key()
    seen: set[int] = set()

    @settings(max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mutated() | mutated_members())
    def fuzz(sample: tuple[str, bytes]) -> None:
        kind, body = sample
        status = server.post("/v1/predict", {**key, "content-type": kind}, content=body).status_code
        seen.add(status)
        assert status < 500, (kind, body)

    fuzz()
    assert 400 in seen
    assert server.client.get("/healthz").status_code == 200


@pytest.mark.timeout(120)
def test_mutated_archives_never_cause_a_server_error(live: Callable[..., Any]) -> None:
    check_fuzz(live, tries(300))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_mutated_archives(live: Callable[..., Any]) -> None:
    check_fuzz(live, 10_000)


@pytest.mark.parametrize(
    "body",
    [
        lambda: b'{"nodes":[' + b'"a",1,' * 900_000 + b"1]}",
        lambda: b'{"nodes":[1],"features":[[' + b'"a",' * 1_900_000 + b"1]]}",
        lambda: b'{"nodes":["a"],"columns":{"a":[' + b"[]," * 2_000_000 + b"1]}}",
        lambda: b'{"nodes":["a"],"columns":{' + b",".join(b'"%d":1' % i for i in range(700_000)) + b"}}",
        lambda: b"{" + b",".join(b'"%d":1' % i for i in range(800_000)) + b"}",
    ],
    ids=["ids", "features", "cells", "columns", "fields"],
)
def test_a_million_faults_cost_little_more_than_one(body: Callable[[], bytes]) -> None:
    sent = body()
    started = time.thread_time()
    with pytest.raises(Problem) as caught:
        parse_predict("application/json", sent)
    assert caught.value.status == 422 and time.thread_time() - started < 1.2  # 2 s and more if each is written down
