from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgeveil.privacy.ledger.database import Database
from edgeveil.runs.store import Store


def ledger(path: Path) -> None:
    database = Database(f"sqlite:///{path}")
    database.check_writable()
    database.close()


@pytest.mark.parametrize("open_file", [lambda path: Store(path).close(), ledger], ids=["store", "ledger"])
def test_opening_waits_while_another_process_switches_to_wal(
    open_file: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that switch at once: SQLite tells one of them *locked* without waiting, and a worker would fail."""
    refused: list[str] = []

    class Busy(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "journal_mode" in sql and len(refused) < 3:
                refused.append(sql)
                raise sqlite3.OperationalError("database is locked")
            return super().execute(sql, *values)

    opened = sqlite3.connect
    for module in (sqlite3, sqlite3.dbapi2):
        monkeypatch.setattr(module, "connect", lambda *args, **wishes: opened(*args, **wishes, factory=Busy))
    open_file(tmp_path / "file.sqlite")
    assert len(refused) == 3
    with opened(tmp_path / "file.sqlite") as found:
        assert found.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    found.close()
