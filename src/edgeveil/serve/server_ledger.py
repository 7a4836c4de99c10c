"""The server's ledger: the privacy ledger and, in the same database, the query limits."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sqlalchemy import Connection, text

from edgeveil.privacy.ledger import accounts, ledger
from edgeveil.serve.problems import QuotaExceeded

__all__ = ["Ledger", "crash_share"]

QUERIES, NODE = "queries", "node"


def crash_share(cap: int) -> int:
    """The most queries one process may hold of a limit, and so lose in a crash: a hundredth, or 16 if that is more."""
    return max(16, cap // 100)


class Ledger(ledger.Ledger):
    """Accounts, charges and leases in one database."""

    def lease(self, subject: str, amount: int, worker: str, held: int = 0) -> int:
        """Take up to `amount` queries out of an account for one process; raises `QuotaExceeded` when none is left.

        With what the process holds already it never gets beyond `crash_share`.
        """
        with self._entry() as connection:
            account = accounts.locked(connection, [subject], QUERIES).get(subject)
            if account is None or account.left <= 0:
                raise QuotaExceeded(subject, 0 if account is None else account.cap)
            granted = min(amount, crash_share(account.cap) - held)
            granted = min(granted, max(1, account.left // 4))  # the last units are shared out, not hoarded
            if granted <= 0:
                return 0
            self._use(connection, account, granted)
            self._note_lease(connection, subject, worker, granted, 0)
        return granted

    def give_back(self, subject: str, amount: int, worker: str) -> None:
        """Return the unused part of a lease at an orderly shutdown; a crash simply loses it."""
        if amount <= 0:
            return
        with self._entry() as connection:
            account = accounts.locked(connection, [subject], QUERIES)[subject]
            self._use(connection, account, -amount)
            self._note_lease(connection, subject, worker, 0, amount)

    @staticmethod
    def _use(connection: Connection, account: accounts.Account, amount: int) -> None:
        row = {"s": account.subject, "used": account.used + amount, "cap": account.cap}
        accounts.update(connection, QUERIES, [row])

    def _note_lease(self, connection: Connection, subject: str, worker: str, amount: int, returned: int) -> None:
        now = self.database.now(connection, keep=True)
        connection.execute(
            text("INSERT INTO leases (id, at, worker, subject, amount, returned) VALUES (:i, :t, :w, :s, :a, :r)"),
            {"i": secrets.token_hex(12), "t": now, "w": worker, "s": subject, "a": amount, "r": returned},
        )
        self._note(connection, "lease", {"subject": subject, "amount": amount, "returned": returned})

    def lease_nodes(self, scope: str, nodes: Sequence[int], amount: int, cap: int) -> list[int]:
        """Take up to `amount` queries about each node; all nodes or none. Limits are shared by all tenants."""
        names = [f"{scope}:{node}" for node in nodes]
        with self.database.write() as connection:
            accounts.insert(connection, sorted(names), NODE, cap)
            found = accounts.locked(connection, sorted(names), NODE)
            left = {name: cap - found[name].used for name in names}
            empty = next((name for name in names if left[name] <= 0), None)
            if empty is not None:
                raise QuotaExceeded(f"node {empty.rsplit(':', 1)[1]}", cap)
            granted = [min(amount, left[name]) for name in names]
            rows = [{"s": n, "used": found[n].used + g, "cap": cap} for n, g in zip(names, granted, strict=True)]
            accounts.update(connection, NODE, rows)
        return granted
