"""The ledger: every grant is checked and recorded in one database transaction, and only then acted upon.

Epsilon is charged twice in that transaction, to the edge set it concerns (all tenants together: they may collude) and
to the tenant who asked. A crash after the charge loses the charge, never the record. A request carries a token of the
client's choice; asking again with the same token finds the first charge instead of making a second one.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from edgeveil.errors import BudgetExceeded, InputError
from edgeveil.privacy.budget import exact
from edgeveil.serve.database import Database
from edgeveil.serve.problems import LedgerUnavailable, Problem, QuotaExceeded

__all__ = ["UNIT", "UNLIMITED", "Account", "Ledger", "Quote", "Spend", "from_units", "to_units"]

UNIT = 10**9
UNLIMITED = 2**62
EPSILON, QUERIES, NODE = "epsilon", "queries", "node"
_CHUNK = 5000


def to_units(epsilon: float | Fraction) -> int:
    """Epsilon in whole 10^-9, rounded up, so that no positive spend is ever recorded as nothing."""
    if isinstance(epsilon, float) and not math.isfinite(epsilon):
        raise InputError(f"epsilon must be a finite number >= 0, got {epsilon!r}")
    value = exact(epsilon)
    if value < 0 or value * UNIT > UNLIMITED:
        raise InputError(f"epsilon must lie in 0..10^9, got {epsilon!r}")
    return math.ceil(value * UNIT)


def from_units(units: int) -> Fraction:
    """Inverse of `to_units`."""
    return Fraction(units, UNIT)


@dataclass(frozen=True)
class Account:
    """A cap and what of it is used (for epsilon in units of 10^-9)."""

    subject: str
    resource: str
    cap: int
    used: int

    @property
    def left(self) -> int:
        """What may still be used."""
        return self.cap - self.used


@dataclass(frozen=True)
class Spend:
    """One recorded charge; `fresh` is False when the token had been used for it before."""

    id: str
    amount: int
    edge_set: str
    status: str
    fresh: bool


@dataclass(frozen=True)
class Quote:
    """What a spend would do, without doing it."""

    epsilon: float
    allowed: bool
    accounts: Mapping[str, Mapping[str, float]]


class Ledger:
    """Accounts, charges and leases in one database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # -- accounts -------------------------------------------------------------------------------------------------

    def open_account(self, subject: str, resource: str, cap: int) -> Account:
        """Create an account, or set the cap of an existing one (never below what is used)."""
        with self.database.write() as connection:
            _insert_account(connection, [subject], resource, cap)
            used = _locked(connection, [subject], resource)[subject].used
            if cap < used:
                raise InputError(f"the cap of {subject} cannot be {cap}: {used} is already used")
            _update(connection, resource, [{"s": subject, "used": used, "cap": cap}])
        return Account(subject, resource, cap, used)

    def account(self, subject: str, resource: str = EPSILON) -> Account | None:
        """One account, or None."""
        statement = "SELECT subject, resource, cap, used FROM accounts WHERE subject = :s AND resource = :r"
        with self.database.read() as connection:
            row = connection.execute(text(statement), {"s": subject, "r": resource}).first()
        return None if row is None else Account(*row)

    def accounts(self, resource: str) -> list[Account]:
        """All accounts of one resource."""
        statement = "SELECT subject, resource, cap, used FROM accounts WHERE resource = :r ORDER BY subject"
        with self.database.read() as connection:
            return [Account(*row) for row in connection.execute(text(statement), {"r": resource})]

    # -- epsilon --------------------------------------------------------------------------------------------------

    def quote(self, tenant: str, edge_set: str, epsilon: float | Fraction) -> Quote:
        """What `spend` would charge and whether it would be allowed now; no side effect."""
        amount, view, allowed = to_units(epsilon), {}, True
        for subject in _subjects(tenant, edge_set):
            account = self.account(subject) or Account(subject, EPSILON, 0, 0)
            allowed = allowed and amount <= account.left
            facts = {"cap": account.cap, "spent": account.used, "left": account.left}
            view[subject] = {name: float(from_units(value)) for name, value in facts.items()}
        return Quote(float(from_units(amount)), allowed, view)

    def spend(
        self, *, tenant: str, key_id: str, what: str, edge_set: str, epsilon: float | Fraction, token: str, digest: str
    ) -> Spend:
        """Charge epsilon, or find the charge this token already made; raises and charges nothing if a cap would break.

        `digest` identifies the request: a token that returns with another request is refused.
        """
        row = {"tenant": tenant, "key": key_id, "what": what[:200], "set": edge_set, "token": token, "digest": digest}
        charge: dict[str, Any] = {**row, "amount": to_units(epsilon), "id": secrets.token_hex(12)}
        try:
            with self.database.write() as connection:
                return self._spend(connection, charge)
        except IntegrityError:  # another process used the token, or a cap check of the database fired
            with self.database.read() as connection:
                found = _charge(connection, tenant, token, digest)
            if found is None:
                raise LedgerUnavailable("the database refused the charge") from None
            return found

    def _spend(self, connection: Connection, row: dict[str, Any]) -> Spend:
        found = _charge(connection, row["tenant"], row["token"], row["digest"])
        if found is not None:
            return found
        subjects = sorted(_subjects(row["tenant"], row["set"]))
        accounts = _locked(connection, subjects, EPSILON)
        amount = row["amount"]
        for subject in subjects:
            account = accounts.get(subject) or Account(subject, EPSILON, 0, 0)
            if amount > account.left:
                cap, used, asked = (from_units(v) for v in (account.cap, account.used, amount))
                raise BudgetExceeded(cap, used, asked, f"{row['what']} on account {subject}")
        held = [accounts[s] for s in subjects if s in accounts]
        _update(connection, EPSILON, [{"s": a.subject, "used": a.used + amount, "cap": a.cap} for a in held])
        now = self.database.now(connection, keep=True)
        connection.execute(
            text(
                "INSERT INTO charges (id, at, tenant, key_id, what, edge_set, amount, token, digest, status) "
                "VALUES (:id, :at, :tenant, :key, :what, :set, :amount, :token, :digest, 'charged')"
            ),
            {**row, "at": now},
        )
        return Spend(row["id"], amount, row["set"], "charged", True)

    def settle(self, charge_id: str, status: str) -> None:
        """Note how a charge ended (``done`` or ``failed``); a failed one stays charged."""
        with self.database.write() as connection:
            connection.execute(text("UPDATE charges SET status = :s WHERE id = :i"), {"s": status, "i": charge_id})

    def charges(self, edge_set: str | None = None) -> list[dict[str, Any]]:
        """All charges, oldest first."""
        where = "" if edge_set is None else " WHERE edge_set = :e"
        with self.database.read() as connection:
            rows = connection.execute(
                text(f"SELECT * FROM charges{where} ORDER BY at, id"), {"e": edge_set} if where else {}
            )
            return [dict(row._mapping) for row in rows]

    # -- query quota ----------------------------------------------------------------------------------------------

    def lease(self, subject: str, amount: int, worker: str) -> int:
        """Take up to `amount` queries out of an account for one process; raises `QuotaExceeded` when none is left."""
        with self.database.write() as connection:
            account = _locked(connection, [subject], QUERIES).get(subject)
            if account is None or account.left <= 0:
                raise QuotaExceeded(subject, 0 if account is None else account.cap)
            granted = min(amount, max(1, account.left // 4))  # the last units are shared out, not hoarded
            _update(connection, QUERIES, [{"s": subject, "used": account.used + granted, "cap": account.cap}])
            self._note_lease(connection, subject, worker, granted, 0)
        return granted

    def give_back(self, subject: str, amount: int, worker: str) -> None:
        """Return the unused part of a lease at an orderly shutdown; a crash simply loses it."""
        if amount <= 0:
            return
        with self.database.write() as connection:
            account = _locked(connection, [subject], QUERIES)[subject]
            _update(connection, QUERIES, [{"s": subject, "used": account.used - amount, "cap": account.cap}])
            self._note_lease(connection, subject, worker, 0, amount)

    def _note_lease(self, connection: Connection, subject: str, worker: str, amount: int, returned: int) -> None:
        now = self.database.now(connection, keep=True)
        connection.execute(
            text("INSERT INTO leases (id, at, worker, subject, amount, returned) VALUES (:i, :t, :w, :s, :a, :r)"),
            {"i": secrets.token_hex(12), "t": now, "w": worker, "s": subject, "a": amount, "r": returned},
        )

    def lease_nodes(self, scope: str, nodes: Sequence[int], amount: int, cap: int) -> list[int]:
        """Take up to `amount` queries about each node; all nodes or none. Limits are shared by all tenants."""
        names = [f"{scope}:{node}" for node in nodes]
        with self.database.write() as connection:
            _insert_account(connection, sorted(names), NODE, cap)
            accounts = _locked(connection, sorted(names), NODE)
            left = {name: cap - accounts[name].used for name in names}
            empty = next((name for name in names if left[name] <= 0), None)
            if empty is not None:
                raise QuotaExceeded(f"node {empty.rsplit(':', 1)[1]}", cap)
            granted = [min(amount, left[name]) for name in names]
            rows = [{"s": n, "used": accounts[n].used + g, "cap": cap} for n, g in zip(names, granted, strict=True)]
            _update(connection, NODE, rows)
        return granted


def _subjects(tenant: str, edge_set: str) -> list[str]:
    return [f"edges:{edge_set}", f"tenant:{tenant}"]


def _charge(connection: Connection, tenant: str, token: str, digest: str) -> Spend | None:
    statement = "SELECT id, amount, edge_set, status, digest FROM charges WHERE tenant = :t AND token = :k"
    row = connection.execute(text(statement), {"t": tenant, "k": token}).first()
    if row is None:
        return None
    if row.digest != digest:
        raise Problem(409, "token_reused", "this Idempotency-Key was used for a different request; choose a new one")
    return Spend(row.id, row.amount, row.edge_set, row.status, False)


def _insert_account(connection: Connection, subjects: Sequence[str], resource: str, cap: int) -> None:
    statement = text(
        "INSERT INTO accounts (subject, resource, cap, used) VALUES (:s, :r, :c, 0) "
        "ON CONFLICT (subject, resource) DO NOTHING"
    )
    connection.execute(statement, [{"s": subject, "r": resource, "c": cap} for subject in subjects])


def _locked(connection: Connection, subjects: Sequence[str], resource: str) -> dict[str, Account]:
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


def _update(connection: Connection, resource: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        statement = text("UPDATE accounts SET used = :used, cap = :cap WHERE subject = :s AND resource = :r")
        connection.execute(statement, [{**row, "r": resource} for row in rows])
