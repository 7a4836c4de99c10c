"""The embedded engine: DuckDB, out of core, spilling to a scratch folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgeveil.errors import MissingExtra, StorageError
from edgeveil.graph.stored.addresses import EDGE_TABLES, EXTRA, Place
from edgeveil.graph.stored.sql_engine import BATCH

__all__ = ["DuckDBEngine"]

READ = "hive_partitioning = false, union_by_name = true"  # columns come from the files, of the widest type among them


class DuckDBEngine:
    """One connection with bounded buffers; what exceeds them goes to `scratch`."""

    name = "duckdb"
    local = True

    def __init__(self, scratch: Path, *, memory: str = "1GB", threads: int | None = None) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise MissingExtra(EDGE_TABLES, EXTRA) from error
        self._errors = duckdb.Error
        self._scratch = Path(tempfile.mkdtemp(prefix="spill-", dir=scratch))
        try:
            self._connection = duckdb.connect(
                config={
                    "memory_limit": memory,
                    "temp_directory": str(self._scratch),
                    "threads": threads or os.cpu_count() or 1,
                    "preserve_insertion_order": False,
                    "autoinstall_known_extensions": False,
                }
            )
        except duckdb.Error as error:
            raise StorageError(f"DuckDB does not start with a memory of {memory!r}: {error}") from error
        self._systems: set[str] = set()
        self._memory = memory

    def view(self, name: str, place: Place, columns: Mapping[str, str] | None = None) -> None:
        """Call these files `name`; `columns` keeps only those columns, under new names (new: old)."""
        if place.system is not None:
            protocol = place.system.protocol if isinstance(place.system.protocol, str) else place.system.protocol[0]
            if protocol not in self._systems:
                self._connection.register_filesystem(_dated(place.system))
                self._systems.add(protocol)
        chosen = ", ".join(f"{_quoted(old)} AS {new}" for new, old in columns.items()) if columns else "*"
        files = ", ".join("'" + file.replace("'", "''") + "'" for file in place.files)
        self._run(f"CREATE OR REPLACE VIEW {name} AS SELECT {chosen} FROM read_parquet([{files}], {READ})")

    def batches(self, sql: str) -> Iterator[Any]:
        """The answer as Arrow record batches."""
        try:
            yield from self._connection.sql(sql).to_arrow_reader(BATCH)
        except self._errors as error:
            raise _failed(error) from error

    def save(self, sql: str, folder: Path) -> None:
        """The answer as one parquet file in a new folder, in the order that the query states."""
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir(parents=True)
            target = str(part / "part-0.parquet").replace("'", "''")
            self._run(f"COPY ({sql}) TO '{target}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 262144)")
            shutil.rmtree(folder, ignore_errors=True)
            part.replace(folder)
        except OSError as error:
            raise StorageError(f"cannot write {folder}: {error.strerror or error}; free some space") from error

    def rest(self) -> None:
        """Drop cached pages by a moment under a small limit."""
        self._run("SET memory_limit = '64MB'")
        self._run(f"SET memory_limit = '{self._memory}'")

    def close(self) -> None:
        """Give back memory and scratch files."""
        for protocol in self._systems:
            self._connection.unregister_filesystem(protocol)
        self._connection.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _run(self, sql: str) -> Any:
        try:
            return self._connection.execute(sql)
        except self._errors as error:
            raise _failed(error) from error


def _dated(system: Any) -> Any:
    """DuckDB asks for a time of change, for its cache alone; http and others have none."""
    from fsspec import AbstractFileSystem

    if type(system).modified is AbstractFileSystem.modified:
        system.modified = lambda path: datetime.fromtimestamp(0, UTC)
    return system


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _failed(error: Exception) -> StorageError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    if "memory" in type(error).__name__.lower():
        remedy = "more memory (--memory) or disk for the work folder may help"
    else:
        remedy = "check that all files are there, whole and readable, and that the work folder's disk is not full"
    return StorageError(f"DuckDB could not answer: {text}; {remedy}")
