"""Where results live: one SQLite file in WAL mode, written by many processes, read while a sweep runs.

Tables: ``runs`` (one per run, with settings and provenance), ``rows`` (what each row is about), ``figures`` (one line
per run, row and metric; row -1 holds figures of the whole run), ``details`` (curves and found edges of
runs that keep them). A run and all its rows enter in one transaction, so a kill leaves it finished or absent. Beside
the database an append-only log holds the same records. Ids of runs cover the content of the graphs, edges included, so
both files are made readable by their owner only; exported rows hold no id.
"""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from edgeveil.errors import MissingExtra, StorageError
from edgeveil.runs.records import Record, append_record, owner_only, read_log
from edgeveil.runs.rows import FIELDS, FIGURES, LABELS, WHOLE
from edgeveil.runs.run_config import canonical_json
from edgeveil.sqlite_files import write_ahead

__all__ = ["Store", "log_path", "rebuild"]

FORMAT = 2  # 1 had no table of details
MARK = 0x65647665  # "edve": tells our files from other SQLite databases
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs(
  id TEXT PRIMARY KEY, key TEXT NOT NULL, code TEXT NOT NULL, plan TEXT NOT NULL, config TEXT NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('done', 'failed')), error TEXT, provenance TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS runs_key ON runs(key);
CREATE TABLE IF NOT EXISTS rows(run TEXT NOT NULL, number INTEGER NOT NULL, labels TEXT NOT NULL,
  PRIMARY KEY(run, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS figures(run TEXT NOT NULL, number INTEGER NOT NULL, metric TEXT NOT NULL, value REAL,
  PRIMARY KEY(run, number, metric)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS details(run TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID;
"""
OWNER_ONLY = 0o600
PATIENCE = 60  # seconds to wait for a lock


def log_path(path: Path) -> Path:
    """The append-only copy that belongs to a store."""
    return path.with_name(path.name + ".log")


class Store:
    """An open store. Use as a context manager; every method raises `StorageError` with a remedy when the disk fails."""

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.exists():
            raise StorageError(f"there is no store at {self.path}; run edgeveil sweep first, or check the path")
        with self._errors("open"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            owner_only(self.path)
            self._db = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            self._prepare()
        self._mend_log()

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        mark = self._db.execute("PRAGMA application_id").fetchone()[0]
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and mark != MARK:
            raise StorageError(f"{self.path} is a database, but not a store of edgeveil; choose another file")
        if tables and version > FORMAT:
            raise StorageError(f"{self.path} has store format {version}, this version reads {FORMAT}; use a new file")
        write_ahead(self._db, PATIENCE)
        self._db.execute("PRAGMA synchronous=FULL")
        if not tables:
            self._db.execute(f"PRAGMA application_id={MARK}")
        if not tables or version < FORMAT:
            self._db.executescript(f"BEGIN IMMEDIATE;{SCHEMA}PRAGMA user_version={FORMAT};COMMIT;")
        if self._db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("the integrity check failed")

    def _mend_log(self) -> None:
        """A kill between commit and log entry leaves the log one record short; add what it lacks."""
        logged = {record.id for record in read_log(log_path(self.path))}
        with self._errors("write"):
            for run in sorted(self.done() - logged):
                append_record(log_path(self.path), self.record(run))

    def _protect(self) -> None:
        """Take everyone else's access away, which older versions left, before details are written."""
        with self._errors("write"):
            for ending in ("", "-wal", "-shm", ".log"):
                part = self.path.with_name(self.path.name + ending)
                if part.exists() and stat.S_IMODE(part.stat().st_mode) != OWNER_ONLY:
                    part.chmod(OWNER_ONLY)

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise StorageError(_explain(self.path, verb, error)) from error
        except OSError as error:
            raise StorageError(
                f"cannot {verb} the store {self.path}: {error.strerror or error}. Rows finished before stay readable; "
                "free some space or choose another file, then run the same command again"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._errors("write"):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    # -- writing --------------------------------------------------------------------------------------------------

    def finish(self, record: Record) -> bool:
        """Keep a finished run; False (and no change) if it is there already."""
        if record.details:
            self._protect()
        with self._transaction() as db:
            known = db.execute("SELECT status FROM runs WHERE id=?", (record.id,)).fetchone()
            if known is not None and known[0] == "done":
                return False
            db.execute(
                "INSERT OR REPLACE INTO runs VALUES(?,?,?,?,?,'done',NULL,?)",
                (*_head(record), json.dumps(record.provenance)),
            )
            db.executemany("INSERT INTO rows VALUES(?,?,?)", [
                (record.id, n, json.dumps({k: row.get(k) for k in LABELS})) for n, row in enumerate(record.rows)
            ])  # fmt: skip
            db.executemany("INSERT INTO figures VALUES(?,?,?,?)", [
                *((record.id, -1, k, v) for k, v in record.figures.items()),
                *((record.id, n, k, row[k]) for n, row in enumerate(record.rows) for k in FIGURES if _there(row, k)),
            ])  # fmt: skip
            if record.details:
                db.execute("INSERT OR REPLACE INTO details VALUES(?,?)", (record.id, json.dumps(record.details)))
        with self._errors("write"):
            append_record(log_path(self.path), record)
        return True

    def fail(self, record: Record, error: str) -> None:
        """Note that a run failed; a finished one is never replaced."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO runs VALUES(?,?,?,?,?,'failed',?,?) ON CONFLICT(id) DO UPDATE SET "
                "error=excluded.error, provenance=excluded.provenance WHERE status='failed'",
                (*_head(record), error, json.dumps(record.provenance)),
            )

    def forget_failed(self, runs: Iterable[str]) -> None:
        """Drop failures that have been overcome; finished runs stay."""
        with self._transaction() as db:
            db.executemany("DELETE FROM runs WHERE id=? AND status='failed'", [(run,) for run in runs])

    # -- reading --------------------------------------------------------------------------------------------------

    def _select(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._errors("read"):
            return self._db.execute(sql, values).fetchall()

    def done(self, *, any_code: bool = False) -> set[str]:
        """Ids of finished runs; with `any_code` their keys, whatever version of the code made them."""
        column = "key" if any_code else "id"
        return {run for (run,) in self._select(f"SELECT {column} FROM runs WHERE status='done'")}

    def latest(self) -> dict[str, str]:
        """The newest finished run of every key."""
        return dict(self._select("SELECT key, id FROM runs WHERE status='done' ORDER BY rowid"))

    def failed(self) -> dict[str, str]:
        """Error of every failed run."""
        return dict(self._select("SELECT id, error FROM runs WHERE status='failed' ORDER BY rowid"))

    def failed_settings(self) -> dict[str, list[str]]:
        """Ids of failed runs by their settings (canonical JSON), whatever code or data they failed with."""
        found: dict[str, list[str]] = {}
        for run, config in self._select("SELECT id, config FROM runs WHERE status='failed' ORDER BY rowid"):
            found.setdefault(canonical_json(json.loads(config)), []).append(run)
        return found

    def record(self, run: str) -> Record:
        """One finished run, complete."""
        found = self._select("SELECT key, code, plan, config, provenance FROM runs WHERE id=? AND status='done'", run)
        if not found:
            raise StorageError(f"{self.path} holds no finished run {run!r}")
        key, code, plan, config, provenance = found[0]
        figures = dict(self._select("SELECT metric, value FROM figures WHERE run=? AND number=-1", run))
        details = self._select("SELECT content FROM details WHERE run=?", run)
        return Record(
            id=run, key=key, code=code, plan=plan, config=json.loads(config), rows=tuple(self.rows(run)),
            figures=figures, provenance=json.loads(provenance),
            details=json.loads(details[0][0]) if details else {},
        )  # fmt: skip

    def rows(self, run: str | None = None) -> Iterator[dict[str, Any]]:
        """Rows in the schema of `edgeveil.runs.rows`, of one run or of all in the order they were finished."""
        runs = [run] if run else [r for (r,) in self._select("SELECT id FROM runs WHERE status='done' ORDER BY rowid")]
        for name in runs:
            figures: dict[int, dict[str, Any]] = {}
            for number, metric, value in self._select(
                "SELECT number, metric, value FROM figures WHERE run=? AND number>=0", name
            ):
                figures.setdefault(number, {})[metric] = int(value) if metric in WHOLE else value
            for number, labels in self._select("SELECT number, labels FROM rows WHERE run=? ORDER BY number", name):
                yield {**dict.fromkeys(FIELDS), **json.loads(labels), **figures.get(number, {})}

    def to_pandas(self, run: str | None = None) -> Any:
        """The rows as a pandas DataFrame, one column per field."""
        try:
            pandas: Any = import_module("pandas")
        except ImportError as error:
            raise MissingExtra("rows as a DataFrame", "pandas") from error
        return pandas.DataFrame.from_records(list(self.rows(run)))

    def seconds(self) -> list[tuple[Mapping[str, Any], float]]:
        """Settings and processor seconds of every finished run, for estimates."""
        found = self._select("SELECT config, provenance FROM runs WHERE status='done'")
        return [(json.loads(c), float(json.loads(p).get("cpu_seconds", 0.0))) for c, p in found]

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _head(record: Record) -> tuple[str, str, str, str, str]:
    return record.id, record.key, record.code, record.plan, json.dumps(record.config)


def _there(row: Mapping[str, Any], metric: str) -> bool:
    return row.get(metric) is not None


def _explain(path: Path, verb: str, error: sqlite3.DatabaseError) -> str:
    text = str(error)
    if "full" in text or "disk I/O" in text:
        return (
            f"cannot {verb} the store {path}: {text}. Rows finished before stay readable; "
            "free some space (or raise the limit on file sizes), then run the same command again"
        )
    if "locked" in text:
        return f"the store {path} is locked by another program for more than a minute; close it and try again"
    if "readonly" in text or "unable to open" in text:
        return f"cannot {verb} the store {path}: {text}; check that the folder exists and is writable"
    log = log_path(path)
    count = sum(1 for _ in read_log(log))
    return (
        f"the store {path} is damaged ({text}). Its log {log.name} still holds {count} finished runs: "
        f"rebuild it with: edgeveil sweep --rebuild --store {path}"
    )


def rebuild(path: Path) -> int:
    """Make a fresh store from the log; the damaged files are kept beside it with the ending ``.damaged``."""
    records = list(read_log(log_path(path)))
    if not records:
        raise StorageError(f"{log_path(path)} holds no finished run, so there is nothing to rebuild {path} from")
    for ending in ("", "-wal", "-shm", ".log"):
        old = path.with_name(path.name + ending)
        if old.exists():
            old.replace(path.with_name(path.name + ending + ".damaged"))
    with Store(path) as store:
        return sum(store.finish(record) for record in records)
