"""What every SQLite file of ours needs, whoever opens it."""

from __future__ import annotations

import sqlite3
import time

__all__ = ["write_ahead"]


def write_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Switch to WAL. Where another process does the same, SQLite says *locked* at once, whatever its time limit."""
    until = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)
