"""Who executes the queries on an edge table: DuckDB in this process, or Spark on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from edgeveil.errors import UnknownNameError
from edgeveil.graph.stored.addresses import Place

__all__ = ["BATCH", "ENGINES", "Engine", "open_engine"]

BATCH = 1 << 18
ENGINES = ("duckdb", "spark")


class Engine(Protocol):
    """Runs SQL over views of parquet files. Answers are exact; an engine that repeats lost work still answers once."""

    name: str
    local: bool
    """Whether rows of an answer come from this process, so that counting them here costs no journey."""

    def view(self, name: str, place: Place, columns: Mapping[str, str] | None = None) -> None:
        """Call these files `name`; `columns` keeps only those columns, under new names (new: old)."""
        ...

    def batches(self, sql: str) -> Iterator[Any]:
        """The answer as Arrow record batches."""
        ...

    def save(self, sql: str, folder: Path) -> None:
        """The answer as parquet files in a new folder, complete or not there at all."""
        ...

    def rest(self) -> None:
        """Give back memory that no running query needs."""
        ...

    def close(self) -> None:
        """Give back memory and scratch files."""
        ...


def open_engine(name: str, scratch: Path, *, memory: str = "1GB", threads: int | None = None) -> Engine:
    """The engine of that name: ``duckdb``, ``spark``, or ``spark:MASTER`` (``spark:local[2]``, ``spark:yarn``).

    `memory` bounds DuckDB's buffers and each Spark process, not this whole process. `scratch` is where they spill; for
    Spark it must be a folder that every worker sees.
    """
    kind, _, master = name.partition(":")
    if kind == "duckdb" and not master:
        from edgeveil.graph.stored.duckdb_engine import DuckDBEngine

        return DuckDBEngine(scratch, memory=memory, threads=threads)
    if kind == "spark":
        from edgeveil.graph.stored.spark_engine import SparkEngine

        return SparkEngine(scratch, master=master or None, memory=memory)
    raise UnknownNameError("engine", name, ENGINES)
