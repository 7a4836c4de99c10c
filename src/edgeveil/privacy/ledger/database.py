"""One door to the database: durable write transactions, SQLite or PostgreSQL, failures always closed.

SQLite takes the write lock at BEGIN (IMMEDIATE) and flushes at COMMIT (WAL with synchronous=FULL). PostgreSQL locks
rows with SELECT ... FOR UPDATE and is told not to acknowledge before its log is on disk; what only reads is given one
snapshot, where by default every statement would see another state.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from edgeveil.errors import LedgerUnavailable, MissingExtra, UsageError
from edgeveil.privacy.ledger.migrations import LATEST, lock_tables, migrate
from edgeveil.sqlite_files import write_ahead

__all__ = ["Database"]


class Database:
    """Connections to the ledger. Migrated on the first use; every failure is a `LedgerUnavailable`."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        self.url = _normal(url)
        self._timeout = timeout
        self._engine = self._make_engine()
        self._turn = threading.Lock()  # in-process fairness; the database itself is what excludes
        self._ready = False

    @property
    def is_sqlite(self) -> bool:
        """SQLite rather than PostgreSQL."""
        return self._engine.dialect.name == "sqlite"

    def _make_engine(self) -> Engine:
        parsed = make_url(self.url)
        if parsed.get_backend_name() == "sqlite":
            if not parsed.database or parsed.database == ":memory:":
                raise UsageError("an in-memory ledger would forget what was spent; give a file: sqlite:///ledger.db")
            file = Path(parsed.database)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)
            engine = create_engine(self.url, connect_args={"timeout": self._timeout}, pool_size=4, max_overflow=4)
            event.listen(engine, "connect", partial(_sqlite_connect, patience=self._timeout))
            event.listen(engine, "begin", _sqlite_begin)
            return engine
        limit = int(self._timeout * 1000)
        options = f"-c statement_timeout={limit} -c lock_timeout={limit} -c synchronous_commit=on"
        arguments = {"connect_timeout": max(2, int(self._timeout)), "options": options}
        try:
            engine = create_engine(
                self.url, connect_args=arguments, pool_pre_ping=True, pool_size=4, max_overflow=4,
                pool_timeout=self._timeout,
            )  # fmt: skip
        except ImportError as error:
            raise MissingExtra("a PostgreSQL ledger", "ledger") from error
        event.listen(engine, "begin", _postgres_begin)
        return engine

    def _migrate_once(self) -> None:
        if self._ready:
            return
        with self._turn:
            if not self._ready:
                with self._begin(write=True) as connection:
                    migrate(connection, steps=LATEST)
                self._ready = True

    @contextmanager
    def _begin(self, *, write: bool) -> Iterator[Connection]:
        try:
            with self._engine.connect().execution_options(edgeveil_write=write) as connection, connection.begin():
                yield connection
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise LedgerUnavailable(f"the ledger did not confirm: {type(error).__name__}: {error}") from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One durable transaction: when the block ends without an error, it is on disk."""
        self._migrate_once()
        with self._turn, self._begin(write=True) as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view without locks."""
        self._migrate_once()
        with self._begin(write=False) as connection:
            yield connection

    def make_tables(self, *statements: str) -> None:
        """Run CREATE TABLE IF NOT EXISTS statements; any number of processes may do so at once."""
        with self.write() as connection:
            lock_tables(connection)
            for statement in statements:
                connection.execute(text(statement))

    def now(self, connection: Connection, *, keep: bool = False) -> int:
        """Seconds since 1970 that never run backwards: the latest time this ledger has seen (kept if `keep`)."""
        seen = int(connection.execute(text("SELECT value FROM meta WHERE name = 'clock'")).scalar_one())
        now = int(time.time())
        if keep and now > seen:
            connection.execute(text("UPDATE meta SET value = :v WHERE name = 'clock'"), {"v": str(now)})
        return max(seen, now)

    def reset_clock(self) -> int:
        """Set the latest time seen to the system's, after an operator has repaired a clock that ran ahead."""
        with self.write() as connection:
            now = int(time.time())
            connection.execute(text("UPDATE meta SET value = :v WHERE name = 'clock'"), {"v": str(now)})
            return now

    def check_writable(self) -> None:
        """Write something, durably; raises `LedgerUnavailable` where a spend would."""
        with self.write() as connection:
            connection.execute(text("UPDATE meta SET value = value WHERE name = 'clock'"))

    def secret(self) -> bytes:
        """Random bytes made with the ledger, for signing the operator's cookies."""
        with self.read() as connection:
            return bytes.fromhex(connection.execute(text("SELECT value FROM meta WHERE name = 'secret'")).scalar_one())

    def close(self) -> None:
        """Give all connections back."""
        self._engine.dispose()


def _normal(url: str) -> str:
    if url.startswith(("postgres://", "postgresql://")):
        url = "postgresql+psycopg://" + url.split("://", 1)[1]
    try:
        backend = make_url(url).get_backend_name()
    except (ArgumentError, NoSuchModuleError) as error:
        raise UsageError(
            f"{url!r} is no database address; write sqlite:///ledger.db or postgresql://host/name"
        ) from error
    if backend not in ("sqlite", "postgresql"):
        raise UsageError(f"a ledger lives in SQLite or PostgreSQL, not in {backend!r}")
    return url


def _sqlite_connect(connection: Any, _: Any, *, patience: float) -> None:
    connection.isolation_level = None  # transactions are ours, see _sqlite_begin
    write_ahead(connection, patience)
    for setting in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")


def _sqlite_begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("edgeveil_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _postgres_begin(connection: Connection) -> None:
    if connection.get_execution_options().get("edgeveil_write") is False:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
