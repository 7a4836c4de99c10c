"""One release, one noisy answer to each question, however often its making is interrupted.

A noisy answer is written, flushed and renamed into place before anybody reads it. Whoever is killed before has shown
nothing; whoever comes after finds the answer and never asks again. The same folder keeps trained models, so that the
clusters that a question was asked with do not change, and the token under which the ledger is charged.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import StorageError, UsageError
from edgeveil.graph.npz import atomic_write, read_arrays, write_arrays

__all__ = ["Journal", "open_journal", "write_rows"]

Array = NDArray[Any]
Blocks = Iterator[Array]


class Journal:
    """What has been settled about one release, in a folder that only its owner can read."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder, self.token = folder, token

    def model(self, name: str, train: Callable[[], dict[str, Array]]) -> dict[str, Array]:
        """Weights by that name: those that are kept, else trained now and kept."""
        path = self.folder / f"{name}.npz"
        if not path.is_file():
            write_arrays(path, train(), 0o600)
        return read_arrays(path)

    def number(self, name: str, draw: Callable[[], int]) -> int:
        """A number by that name, drawn once."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            atomic_write(path, json.dumps(draw()).encode(), 0o600)
        return int(json.loads(path.read_text()))

    def answer(self, name: str, asked: Array, shape: tuple[int, int], ask: Callable[[], Blocks]) -> Array:
        """The one noisy answer by that name, mapped from its file; `ask` yields its rows if there is none yet.

        `asked` is what the question depended on. An answer to another question is never replaced: it was given.
        """
        path, mark = self.folder / f"{name}.npy", hashlib.sha256(np.ascontiguousarray(asked).tobytes()).hexdigest()
        asked_of = self.folder / f"{name}.asked"
        if not path.is_file():
            atomic_write(asked_of, mark.encode(), 0o600)
            self._commit(path, shape, ask())
        if asked_of.read_text() != mark:
            raise StorageError(
                f"{path} answers a question about other clusters than the models beside it give; nothing is asked "
                "again. Start a new release with another work folder: it spends its own epsilon"
            )
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return found

    def _commit(self, path: Path, shape: tuple[int, int], rows: Blocks) -> None:
        part = path.with_suffix(".part")
        write_rows(part, shape, rows)
        part.replace(path)
        _sync(path.parent)


def write_rows(path: Path, shape: tuple[int, int], rows: Blocks) -> None:
    """A ``.npy`` file of float32 rows, on disk when this returns; written, not mapped, so that it takes no memory."""
    at = 0
    try:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for block in rows:
                file.write(np.ascontiguousarray(block, "<f4").tobytes())
                at += len(block)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}; free some space and go on") from error
    if at != shape[0]:
        raise StorageError(f"{path.name} needs {shape[0]} rows, but they ended after {at}; nothing was kept")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def open_journal(work: Path, plan: Mapping[str, Any]) -> Iterator[Journal]:
    """The journal of the release that `plan` describes, begun or continued; one process at a time."""
    text = json.dumps(plan, sort_keys=True, default=str)
    folder = work / f"release-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"another process is making this release in {folder}; wait for it") from error
        path = folder / "plan.json"
        if not path.is_file():
            kept = {"token": secrets.token_hex(16), "plan": json.loads(text)}
            atomic_write(path, json.dumps(kept, indent=1).encode(), 0o600)
        yield Journal(folder, json.loads(path.read_text())["token"])
