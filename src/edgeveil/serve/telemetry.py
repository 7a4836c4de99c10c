"""Numbers for Prometheus and an audit log of one JSON object per line. Neither holds features, answers or edges."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from edgeveil.errors import StorageError
from edgeveil.serve.problems import AuditUnavailable

__all__ = ["AuditLog", "Metrics"]

_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """One registry per server, so that several servers in one process do not mix."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        mine: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter("edgeveil_requests", "Requests answered.", ["route", "status"], **mine)
        self._seconds = Histogram("edgeveil_request_seconds", "Time to answer.", ["route"], buckets=BUCKETS, **mine)
        self._rows = Counter("edgeveil_rows", "Prediction rows sent.", ["source"], **mine)
        self._guard = Counter("edgeveil_guard", "Guard decisions that were not pass.", ["detector", "action"], **mine)
        self._spent = Gauge("edgeveil_epsilon_spent", "Epsilon charged.", ["account"], **mine)
        self._cap = Gauge("edgeveil_epsilon_cap", "Epsilon that may be charged.", ["account"], **mine)
        self._ledger = Counter("edgeveil_ledger_failures", "Requests refused because the ledger failed.", **mine)
        self._queries = Gauge("edgeveil_queries_leased", "Queries taken out of a tenant's limit.", ["tenant"], **mine)
        self._limit = Gauge("edgeveil_queries_limit", "A tenant's limit; absent without one.", ["tenant"], **mine)
        self._queue = Gauge("edgeveil_queue_waiting", "Inferences waiting or running.", **mine)
        self._batch = Histogram(
            "edgeveil_batch_questions", "Questions computed together.", buckets=(1, 2, 4, 8, 16, 32, 64), **mine
        )
        self._queue_limit = Gauge("edgeveil_queue_limit", "Inferences that may wait.", **mine)
        self._connections = Gauge("edgeveil_connections", "Open connections.", **mine)
        self._sources = {source: self._rows.labels(source) for source in ("stored", "computed")}
        self._children: dict[tuple[str, int], tuple[Any, Any]] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        """One finished request."""
        found = self._children.get((route, status))
        if found is None:
            found = (self._requests.labels(route, str(status)), self._seconds.labels(route))
            self._children[route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def rows(self, source: str, count: int) -> None:
        """Rows answered from ``stored`` or ``computed`` results."""
        self._sources[source].inc(count)

    def guard(self, detector: str, action: str) -> None:
        """One decision of the guard."""
        self._guard.labels(detector, action).inc()

    def batch(self, questions: int) -> None:
        """Questions under changed features that a model thread took at once."""
        self._batch.observe(questions)

    def ledger_failed(self) -> None:
        """One request refused because the ledger failed."""
        self._ledger.inc()

    def epsilon(self, account: str, spent: float, cap: float) -> None:
        """The state of one epsilon account."""
        self._spent.labels(account).set(spent)
        self._cap.labels(account).set(cap)

    def queries(self, tenant: str, leased: int, limit: int | None) -> None:
        """The state of one tenant's quota."""
        self._queries.labels(tenant).set(leased)
        if limit is not None:
            self._limit.labels(tenant).set(limit)

    def load(self, waiting: int, queue: int, connections: int) -> None:
        """How busy this process is."""
        self._queue.set(waiting)
        self._queue_limit.set(queue)
        self._connections.set(connections)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)


class AuditLog:
    """Append-only JSON Lines (mode 0600). Lines are written whole; `durable` ones are on disk before going on.

    A line that cannot be written whole raises `AuditUnavailable`, and what it was about must not leave the server.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise StorageError(f"cannot write the audit log {path}: {error.strerror or error}") from error
        self._lock = threading.Lock()
        self._failed = self._torn = False

    def check(self) -> None:
        """Raise `AuditUnavailable` if the last line failed and another one does too."""
        if self._failed:
            self.write("audit log writable")

    def write(self, event: str, durable: bool = False, **facts: Any) -> None:
        """Add one line: the event, the time and its facts."""
        line = _encode({"at": round(time.time(), 3), "event": event, **facts}).encode() + b"\n"
        with self._lock:
            try:
                self._append(line)
                if durable:
                    os.fsync(self._file)
            except OSError as error:
                self._failed = True
                raise AuditUnavailable(f"the audit log cannot be written: {error.strerror or error}") from error
            self._failed = False

    def _append(self, line: bytes) -> None:
        """One line; a full disk may take a part of it, which the next line must not continue."""
        whole = b"\n" + line if self._torn else line
        written = os.write(self._file, whole)
        if written < len(whole):
            self._torn = self._torn or written > 0
            raise OSError(errno.ENOSPC, "no space left for the line")
        self._torn = False

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
