"""A transcript of every paid answer, so that an interrupted attack resumes without asking anything twice.

The file is append-only: a header line, then records of key (32 bytes), length (8 bytes), answer (.npy) and checksum
(32 bytes). A record cut short by a crash is dropped when the file is opened again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import StorageError, TargetError
from edgeveil.release.target import Target

__all__ = ["RecordedTarget", "query_key"]

MAGIC = "edgeveil-transcript"
VERSION = 1
KEY, LENGTH = 32, 8


def _digest(part: Any) -> bytes:
    if part is None:
        return b"none"
    if sp.issparse(part):
        csr = sp.csr_matrix(part)
        csr.sum_duplicates()
        return b"".join(_digest(a) for a in (np.array(csr.shape), csr.indptr, csr.indices, csr.data))
    if hasattr(part, "toarray"):
        part = part.toarray()
    array = np.ascontiguousarray(part, dtype=np.float64)
    return hashlib.sha256(str(array.shape).encode() + array.tobytes()).digest()


def query_key(features: Any, nodes: Any, induced: bool, repeat: int) -> bytes:
    """Content hash of a question; `repeat` tells apart repeated questions to a randomised model."""
    state = hashlib.sha256(f"{induced}:{repeat}:".encode())
    for part in (features, nodes):
        state.update(_digest(part))
    return state.digest()


class RecordedTarget(Target):
    """Wraps a target and writes each answer to `path` before handing it on; `inner=None` only replays.

    Recorded questions are answered from the file and cost nothing; `paid` counts the fresh ones. The k-th repetition
    of one question gets the k-th recorded answer, so a replayed attack is the same attack.
    """

    def __init__(self, inner: Target | None, path: str | Path) -> None:
        super().__init__()
        self._inner = inner
        self._path = Path(path)
        self._asked: Counter[bytes] = Counter()
        self._answers: dict[bytes, tuple[int, int]] = {}
        self.paid = 0
        header = self._open()
        self.num_nodes = int(header["num_nodes"])
        self.answer_kind = header["answer_kind"]
        self.features = None if inner is None else inner.features
        self.num_features = None if inner is None else inner.num_features
        self.architecture = None if inner is None else inner.architecture
        self.mechanism = None if inner is None else inner.mechanism

    def _answer(self, features: Any, nodes: Any, induced: bool) -> NDArray[Any]:
        plain = query_key(features, nodes, induced, 0)
        key = query_key(features, nodes, induced, self._asked[plain])
        if key in self._answers:
            answer = self._read(*self._answers[key])
        elif self._inner is None:
            raise TargetError(
                f"query {self.queries + 1} is not in the transcript {self._path}; replay the recorded attack with the "
                "same nodes, parameters and seed, or give the live target"
            )
        else:
            answer = self._inner.query(features, nodes, induced)
            self._append(key, answer)
            self.paid += 1
        self._asked[plain] += 1
        return answer

    def _open(self) -> dict[str, Any]:
        if not self._path.exists():
            if self._inner is None:
                raise StorageError(f"no transcript at {self._path}; record one with a live target first")
            facts = {"num_nodes": self._inner.num_nodes, "answer_kind": self._inner.answer_kind}
            line = json.dumps({"format": MAGIC, "version": VERSION, **facts}) + "\n"
            self._path.write_bytes(line.encode())
        with self._path.open("rb") as file:
            header = self._header(file.readline())
            end = self._scan(file)
        if end < self._path.stat().st_size:
            os.truncate(self._path, end)
        return header

    def _header(self, line: bytes) -> dict[str, Any]:
        try:
            header: dict[str, Any] = json.loads(line)
            known = header["format"] == MAGIC and header["version"] == VERSION
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            raise StorageError(f"{self._path} is not a transcript of version {VERSION}; choose another path")
        if self._inner is not None:
            for fact in ("num_nodes", "answer_kind"):
                if header[fact] != getattr(self._inner, fact):
                    raise StorageError(
                        f"{self._path} was recorded from a target with {fact}={header[fact]!r}, not "
                        f"{getattr(self._inner, fact)!r}; use one transcript per target"
                    )
        return header

    def _scan(self, file: io.BufferedReader) -> int:
        """Index every whole record; returns where the last one ends."""
        end = file.tell()
        while True:
            head = file.read(KEY + LENGTH)
            if len(head) < KEY + LENGTH:
                return end
            size = int.from_bytes(head[KEY:], "little")
            body = file.read(size)
            if len(body) < size or file.read(KEY) != hashlib.sha256(head + body).digest():
                return end
            self._answers[head[:KEY]] = (end + KEY + LENGTH, size)
            end = file.tell()

    def _read(self, start: int, size: int) -> NDArray[Any]:
        with self._path.open("rb") as file:
            file.seek(start)
            answer: NDArray[Any] = np.load(io.BytesIO(file.read(size)), allow_pickle=False)
        return answer

    def _append(self, key: bytes, answer: NDArray[Any]) -> None:
        buffer = io.BytesIO()
        np.save(buffer, answer, allow_pickle=False)
        body = buffer.getvalue()
        head = key + len(body).to_bytes(LENGTH, "little")
        try:
            with self._path.open("ab") as file:
                start = file.tell()
                file.write(head + body + hashlib.sha256(head + body).digest())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"cannot write the transcript {self._path}: {error}") from error
        self._answers[key] = (start + KEY + LENGTH, len(body))
