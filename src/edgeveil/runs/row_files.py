"""Rows out of a store: JSON Lines, CSV or parquet, by the ending of the file."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from edgeveil.errors import StorageError, UsageError
from edgeveil.runs.rows import FIELDS, FIGURES, WHOLE

__all__ = ["ENDINGS", "export", "write_table"]

ENDINGS = (".jsonl", ".csv", ".parquet")
Rows = Iterable[Mapping[str, Any]]


def export(rows: Rows, path: Path) -> int:
    """Write rows to a file in one atomic step and return how many; ``params`` is JSON text in CSV and parquet."""
    writers = {".jsonl": _jsonl, ".json": _jsonl, ".csv": _csv, ".parquet": _parquet}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise UsageError(f"cannot tell the format of {path.name!r}; end it with one of {', '.join(ENDINGS)}")
    table = list(rows)
    _atomically(path, lambda part: writer(table, part))
    return len(table)


def write_table(rows: list[dict[str, Any]], path: Path) -> None:
    """Plain dictionaries with equal keys as CSV, in one atomic step."""

    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else [])
            writer.writeheader()
            writer.writerows(rows)

    _atomically(path, write)


def _atomically(path: Path, write: Callable[[Path], None]) -> None:
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another file"
        ) from error


def _jsonl(rows: list[Mapping[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "params": json.dumps(row.get("params") or {}, sort_keys=True)}


def _csv(rows: list[Mapping[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(map(_flat, rows))


def _parquet(rows: list[Mapping[str, Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"is_twin": pa.bool_(), "epsilon": pa.float64(), "delta": pa.float64()}
    kinds |= {name: pa.int64() if name in WHOLE else pa.float64() for name in {*FIGURES, *WHOLE}}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in FIELDS])
    pq.write_table(pa.Table.from_pylist(list(map(_flat, rows)), schema=schema), path)
