"""Rows of accounts: a cap and what of it is used, locked in one order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

__all__ = ["DELTA", "EPSILON", "Account", "insert", "locked", "update"]

EPSILON, DELTA = "epsilon", "delta"
_CHUNK = 5000


@dataclass(frozen=True)
class Account:
    """A cap and what of it is used (for epsilon in units of 10^-9, for delta of 10^-18)."""

    subject: str
    resource: str
    cap: int
    used: int

    @property
    def left(self) -> int:
        """What may still be used."""
        return self.cap - self.used


def insert(connection: Connection, subjects: Sequence[str], resource: str, cap: int) -> None:
    """Create accounts that do not exist yet."""
    statement = text(
        "INSERT INTO accounts (subject, resource, cap, used) VALUES (:s, :r, :c, 0) "
        "ON CONFLICT (subject, resource) DO NOTHING"
    )
    connection.execute(statement, [{"s": subject, "r": resource, "c": cap} for subject in subjects])


def locked(connection: Connection, subjects: Sequence[str], resource: str) -> dict[str, Account]:
    """Accounts by subject, locked until the transaction ends, in one order so that two transactions cannot deadlock."""
    lock = " FOR UPDATE" if connection.dialect.name == "postgresql" else ""
    found: dict[str, Account] = {}
    for start in range(0, len(subjects), _CHUNK):
        names = {f"s{i}": subject for i, subject in enumerate(subjects[start : start + _CHUNK])}
        places = ", ".join(f":{name}" for name in names)
        statement = (
            "SELECT subject, resource, cap, used FROM accounts "
            f"WHERE resource = :r AND subject IN ({places}) ORDER BY subject{lock}"
        )
        found |= {row.subject: Account(*row) for row in connection.execute(text(statement), {"r": resource, **names})}
    return found


def update(connection: Connection, resource: str, rows: list[dict[str, Any]]) -> None:
    """Set `used` and `cap` of accounts; rows hold s, used and cap."""
    if rows:
        statement = text("UPDATE accounts SET used = :used, cap = :cap WHERE subject = :s AND resource = :r")
        connection.execute(statement, [{**row, "r": resource} for row in rows])
