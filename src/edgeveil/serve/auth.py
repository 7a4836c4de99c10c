"""API keys: 256 random bits, kept only as SHA-256, compared in constant time, with a role, an expiry and revocation."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from edgeveil.errors import InputError
from edgeveil.privacy.ledger import chain
from edgeveil.privacy.ledger.database import Database
from edgeveil.privacy.ledger.ledger import OWNER
from edgeveil.privacy.ledger.units import UNLIMITED, to_units
from edgeveil.serve.problems import Problem
from edgeveil.serve.server_ledger import Ledger

__all__ = ["ROLES", "Key", "KeyStore", "key_id_of"]

ROLES: dict[str, frozenset[str]] = {
    "monitor": frozenset({"metrics"}),
    "query": frozenset({"predict", "read"}),
    "curate": frozenset({"predict", "read", "snapshot"}),
    "admin": frozenset({"predict", "read", "snapshot", "metrics", "admin"}),
}
_FORM = re.compile(r"ev_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_TENANT = re.compile(r"[A-Za-z0-9._@-]{1,80}")
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Key:
    """What the server knows of a key; never the key itself."""

    id: str
    tenant: str
    role: str
    created: int
    expires: int | None
    revoked: int | None
    note: str = ""

    def may(self, permission: str) -> bool:
        """Whether the key's role includes a permission."""
        return permission in ROLES[self.role]

    @property
    def viewer(self) -> str | None:
        """The tenant whose things the key may see; None for an admin key, which may see everybody's."""
        return None if self.may("admin") else self.tenant

    def state(self, now: int) -> str:
        """``active``, ``revoked`` or ``expired``."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "active"


def key_id_of(presented: str) -> str:
    """The public part of what a client sent as its key, or an empty text."""
    match = _FORM.fullmatch(presented)
    return match.group(1) if match else ""


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class KeyStore:
    """Keys in the ledger's database, with a short-lived memory of verified ones.

    A revocation made elsewhere takes at most `memory` seconds to act here; one made here acts at once. When the
    database is unreachable and the memory is stale, nobody gets in.
    """

    def __init__(self, database: Database, *, memory: float = 5.0) -> None:
        self._database = database
        self._memory = memory
        self._known: dict[str, tuple[float, int, Key]] = {}  # by SHA-256 of the whole key
        self._lock = threading.Lock()

    def add(
        self,
        tenant: str,
        role: str = "query",
        *,
        days: float | None = 365.0,
        queries: int | None = None,
        epsilon: float | None = None,
        note: str = "",
    ) -> tuple[str, Key]:
        """A new key (shown this once) and its record; `queries` and `epsilon` set the tenant's limits when given."""
        if role not in ROLES:
            raise InputError(f"unknown role {role!r}; use one of {', '.join(ROLES)}")
        if not _TENANT.fullmatch(tenant):
            raise InputError(f"tenant {tenant!r} must be 1 to 80 letters, digits or ._@-")
        if tenant.lower() == OWNER:
            raise InputError(
                f"{tenant!r} is the data owner, whose epsilon has no cap of its own; choose another tenant"
            )
        if days is not None and not 0 < days <= 36_500:
            raise InputError(f"a key lives between 0 and 36500 days, got {days:g}")
        if queries is not None and not 0 <= queries <= UNLIMITED:
            raise InputError(f"a query limit is a whole number >= 0, got {queries}")
        self._open_accounts(tenant, queries, epsilon)
        key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        with self._database.write() as connection:
            now = self._database.now(connection, keep=True)
            expires = None if days is None else now + round(days * 86400)
            row = {"i": key_id, "t": tenant, "r": role, "d": _digest(secret), "c": now, "e": expires, "n": note[:200]}
            connection.execute(
                text(
                    "INSERT INTO api_keys (id, tenant, role, digest, created, expires, note) "
                    "VALUES (:i, :t, :r, :d, :c, :e, :n)"
                ),
                row,
            )
            chain.extend(connection, now, "key", {"added": key_id, "tenant": tenant, "role": role})
        return f"ev_{key_id}_{secret}", Key(key_id, tenant, role, now, expires, None, note[:200])

    def _open_accounts(self, tenant: str, queries: int | None, epsilon: float | None) -> None:
        ledger = Ledger(self._database)
        for resource, cap, default in (
            ("queries", queries, UNLIMITED),
            ("epsilon", None if epsilon is None else to_units(epsilon), 0),
        ):
            if cap is not None or ledger.account(f"tenant:{tenant}", resource) is None:
                ledger.open_account(f"tenant:{tenant}", resource, default if cap is None else cap)

    def list(self) -> list[Key]:
        """All keys, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(text("SELECT * FROM api_keys ORDER BY created DESC, id"))
            return [_key(row._mapping) for row in rows]

    def find(self, key_id: str) -> tuple[Key, int] | None:
        """One key by its id and the present time of the ledger, or None."""
        with self._database.read() as connection:
            row = connection.execute(text("SELECT * FROM api_keys WHERE id = :i"), {"i": key_id}).first()
            return None if row is None else (_key(row._mapping), self._database.now(connection))

    def revoke(self, key_id: str) -> Key:
        """Revoke one key for good; revoking again changes nothing."""
        with self._database.write() as connection:
            now = self._database.now(connection, keep=True)
            statement = "UPDATE api_keys SET revoked = :now WHERE id = :i AND revoked IS NULL"
            connection.execute(text(statement), {"now": now, "i": key_id})
            row = connection.execute(text("SELECT * FROM api_keys WHERE id = :i"), {"i": key_id}).first()
            if row is not None:
                chain.extend(connection, now, "key", {"revoked": key_id})
        if row is None:
            raise InputError(f"no key with id {key_id!r}; edgeveil keys list shows them")
        with self._lock:
            self._known.clear()
        return _key(row._mapping)

    def remembered(self, presented: str) -> Key | None:
        """The key if it was verified a moment ago; touches no disk."""
        found = self._known.get(hashlib.sha256(presented.encode()).hexdigest())
        if found is None or time.monotonic() >= found[0]:
            return None
        _, latest, key = found
        return key if key.state(max(latest, int(time.time()))) == "active" else None

    def verify(self, presented: str) -> Key:
        """The active key behind what a client sent, else a 401 that does not tell unknown from wrong."""
        match = _FORM.fullmatch(presented)
        key_id, secret = match.groups() if match else ("", "")
        with self._database.read() as connection:
            row = connection.execute(text("SELECT * FROM api_keys WHERE id = :i"), {"i": key_id}).first()
            now = self._database.now(connection)
        expected = _NOBODY if row is None else str(row.digest)
        if not hmac.compare_digest(_digest(secret), expected) or row is None:
            raise Problem(401, "invalid_key", "this API key is unknown")
        key = _key(row._mapping)
        state = key.state(now)
        if state != "active":
            raise Problem(401, f"{state}_key", f"this API key is {state}; ask the operator for a new one")
        with self._lock:
            if len(self._known) > 10_000:
                self._known.clear()
            name = hashlib.sha256(presented.encode()).hexdigest()
            self._known[name] = (time.monotonic() + self._memory, now, key)
        return key


def _key(row: Any) -> Key:
    fields = ("id", "tenant", "role", "created", "expires", "revoked", "note")
    return Key(**{name: row[name] for name in fields})
