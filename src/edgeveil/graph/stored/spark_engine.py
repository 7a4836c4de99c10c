"""The same queries on a cluster: Spark, whose workers read and write the tables themselves."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgeveil.errors import MissingExtra, StorageError
from edgeveil.graph.stored.addresses import EDGE_TABLES, Place, find_tables, open_parquet
from edgeveil.graph.stored.sql_engine import BATCH

__all__ = ["SparkEngine"]

LOCAL = ("memory",)  # protocols that live in one process only


class SparkEngine:
    """A Spark session; without `master` the one that the environment configures (``spark-submit``, else local)."""

    name = "spark"
    local = False

    def __init__(self, scratch: Path, *, master: str | None = None, memory: str = "1GB") -> None:
        try:
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise MissingExtra(f"{EDGE_TABLES} on a cluster", "spark") from error
        self._errors = PySparkException
        self._scratch = scratch
        amount = memory.lower().removesuffix("b")
        builder = (
            SparkSession.builder.appName("edgeveil")
            .config("spark.driver.memory", amount)
            .config("spark.executor.memory", amount)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.adaptive.enabled", "true")
            .config("spark.local.dir", str(scratch))
        )
        if master is not None and master.startswith("local"):
            builder = builder.config("spark.sql.shuffle.partitions", "16")  # 200 suit a cluster, not one machine
        try:
            self._session: Any = (builder.master(master) if master else builder).getOrCreate()
        except Exception as error:
            raise StorageError(
                f"Spark does not start ({error}); it needs a Java runtime and a reachable master"
            ) from error
        self._session.sparkContext.setLogLevel("ERROR")

    def view(self, name: str, place: Place, columns: Mapping[str, str] | None = None) -> None:
        """Call these files `name`; `columns` keeps only those columns, under new names (new: old)."""
        protocol = place.address.partition("://")[0] if place.system is not None else ""
        if protocol in LOCAL:
            raise StorageError(f"Spark's workers cannot read {place.address}; use a shared folder, hdfs:// or s3a://")
        files = [file if place.system is not None else f"file://{Path(file).absolute()}" for file in place.files]
        try:
            frame = self._session.read.parquet(*files)
            if columns:
                frame = frame.select([frame[f"`{old}`"].alias(new) for new, old in columns.items()])
            frame.createOrReplaceTempView(name)
        except self._errors as error:
            raise _failed(error) from error

    def batches(self, sql: str) -> Iterator[Any]:
        """The answer as Arrow record batches, through files that the workers write: it may be larger than memory."""
        folder = self._scratch / f"answer-{uuid.uuid4().hex}"
        try:
            self.save(sql, folder)
            place = find_tables(folder)
            for file in place.files:
                yield from open_parquet(place, file).iter_batches(BATCH)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def save(self, sql: str, folder: Path) -> None:
        """The answer as parquet files in a new folder; file names follow the order that the query states."""
        part = folder.with_name(f"part-{folder.name}")
        try:
            frame = self._session.sql(sql)
            frame.write.mode("overwrite").parquet(f"file://{part.absolute()}")
            if not any(part.glob("*.parquet")):  # no row: one empty file keeps the columns
                frame.coalesce(1).write.mode("overwrite").parquet(f"file://{part.absolute()}")
            shutil.rmtree(folder, ignore_errors=True)
            part.replace(folder)
        except self._errors as error:
            raise _failed(error) from error
        except OSError as error:
            raise StorageError(f"cannot write {folder}: {error.strerror or error}; free some space") from error

    def rest(self) -> None:
        """Spark's memory is its own processes'."""

    def close(self) -> None:
        """End the session."""
        self._session.stop()


def _failed(error: Exception) -> StorageError:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return StorageError(f"Spark could not answer: {text}")
