"""The guards of all served releases together: shared scores that survive a restart, and the operator's review list."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text

from edgeveil.privacy.ledger.database import Database
from edgeveil.serve.config import GuardSettings
from edgeveil.serve.engine import Change, Engine
from edgeveil.serve.guard import Decision, Guard

__all__ = ["Watch"]


class Watch:
    """One guard per engine. Scores are written to the database when they change a decision, and by `flush`."""

    def __init__(self, database: Database, settings: GuardSettings) -> None:
        self._database, self._settings = database, settings
        self._guards: dict[str, Guard] = {}
        self._written: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def guard(self, engine: Engine) -> Guard:
        """The guard of an engine, with the scores kept from earlier runs."""
        with self._lock:
            found = self._guards.get(engine.name)
            if found is None:
                found = Guard(
                    self._settings, num_nodes=engine.num_nodes, num_features=engine.num_features,
                    secret=self._database.secret(), protected=engine.release.guarantee.status == "sound",
                )  # fmt: skip
                found.restore(self._load())
                self._guards[engine.name] = found
            return found

    def judge(
        self, engine: Engine, key: str, tenant: str, change: Change | None, asked: Any, subset: NDArray[np.int64] | None
    ) -> Decision:
        """Judge one query, in memory; what comes to `review` or beyond is for `note`."""
        return self.guard(engine).watch(key, tenant, change, asked, subset=subset)

    def _load(self) -> dict[tuple[str, str], int]:
        with self._database.read() as connection:
            rows = connection.execute(text("SELECT subject, detector, score FROM guard_scores"))
            return {(row.subject, row.detector): int(row.score) for row in rows}

    def note(self, key: str, tenant: str, decision: Decision) -> None:
        """Enter a decision in the review list, once until it is cleared."""
        names = {key: tenant} | self._tenants(decision.partners)
        with self._database.write() as connection:
            now = self._database.now(connection)
            open_ = "SELECT 1 FROM reviews WHERE key_id = :k AND detector = :d AND action = :a AND resolved IS NULL"
            for name, owner in names.items():
                row = {"k": name, "d": decision.detector, "a": decision.action}
                if connection.execute(text(open_), row).first() is None:
                    connection.execute(
                        text(
                            "INSERT INTO reviews (id, at, key_id, tenant, detector, score, action) "
                            "VALUES (:i, :t, :k, :o, :d, :s, :a)"
                        ),
                        {**row, "i": secrets.token_hex(12), "t": now, "o": owner, "s": decision.score},
                    )
        self.flush()

    def _tenants(self, keys: tuple[str, ...]) -> dict[str, str]:
        if not keys:
            return {}
        with self._database.read() as connection:
            rows = connection.execute(text("SELECT id, tenant FROM api_keys")).all()
        return {row.id: row.tenant for row in rows if row.id in keys}

    def reviews(self) -> list[dict[str, Any]]:
        """Open entries, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(text("SELECT * FROM reviews WHERE resolved IS NULL ORDER BY at DESC, id"))
            return [dict(row._mapping) for row in rows]

    def clear(self, key: str) -> None:
        """The operator has looked: close the key's entries and forget its scores and those of its tenant."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            tenants = connection.execute(text("SELECT tenant FROM api_keys WHERE id = :k"), {"k": key}).scalars().all()
            connection.execute(
                text("UPDATE reviews SET resolved = :t WHERE key_id = :k AND resolved IS NULL"), {"t": now, "k": key}
            )
            for subject in [key, *tenants]:
                connection.execute(text("DELETE FROM guard_scores WHERE subject = :s"), {"s": subject})
        for guard in list(self._guards.values()):
            for subject in [key, *tenants]:
                guard.forgive(subject)

    def flush(self) -> None:
        """Write scores that grew since the last time."""
        with self._lock:
            merged: dict[tuple[str, str], int] = {}
            for guard in self._guards.values():
                for name, score in list(guard.scores.items()):
                    merged[name] = max(score, merged.get(name, 0))
            fresh = {n: s for n, s in merged.items() if s and self._written.get(n) != s}
            if not fresh:
                return
            with self._database.write() as connection:
                connection.execute(
                    text(
                        "INSERT INTO guard_scores (subject, detector, score) VALUES (:s, :d, :n) "
                        "ON CONFLICT (subject, detector) DO UPDATE SET score = :n"
                    ),
                    [{"s": subject, "d": detector, "n": score} for (subject, detector), score in fresh.items()],
                )
            self._written |= fresh
