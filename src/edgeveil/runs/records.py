"""What is kept of one finished run, and the append-only copy of it that survives a broken database."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

__all__ = ["Record", "append_record", "owner_only", "read_log"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One finished run: its rows, figures of the whole run (number -1 in the store) and where they came from.

    `id` names settings, data and code; `key` leaves the code out. `details` is what rows cannot hold (curves, which
    edges are found) and names true edges: whatever keeps it must be readable by its owner only.
    """

    id: str
    key: str
    code: str
    plan: str
    config: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...] = ()
    figures: Mapping[str, float | None] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


def owner_only(path: Path) -> None:
    """Make the file, readable by its owner only, if it is not there yet."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def append_record(path: Path, record: Record) -> None:
    """Append one line ``crc json`` and make it durable; concurrent writers take turns, a torn line is closed first."""
    text = json.dumps(asdict(record), separators=(",", ":"))
    line = f"{zlib.crc32(text.encode()):08x} {text}\n".encode()
    owner_only(path)
    with path.open("ab") as file:
        _lock(file)
        if file.tell() and not _ends_line(path):
            line = b"\n" + line
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _lock(file: IO[bytes]) -> None:
    try:
        import fcntl
    except ImportError:  # a system without advisory locks: one writer at a time is up to the user
        return
    fcntl.flock(file, fcntl.LOCK_EX)


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read_log(path: Path) -> Iterator[Record]:
    """Every intact record of a log, each run once; damaged lines are skipped."""
    seen: set[str] = set()
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            crc, _, text = line.rstrip(b"\n").partition(b" ")
            if crc != f"{zlib.crc32(text):08x}".encode():
                continue
            raw = json.loads(text)
            if raw["id"] not in seen:
                seen.add(raw["id"])
                yield Record(**{**raw, "rows": tuple(raw["rows"])})
