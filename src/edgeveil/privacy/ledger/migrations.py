"""The ledger's schema: numbered steps that are never edited once released, only followed by further ones.

The statements are the common subset of SQLite and PostgreSQL. Amounts are integers (epsilon in units of 10^-9), so
that sums are exact and the database itself can refuse an overdraft.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time

from sqlalchemy import Connection, text

from edgeveil.errors import StorageError
from edgeveil.privacy.ledger import chain
from edgeveil.privacy.ledger.overlap import UNKNOWN

__all__ = ["LATEST", "STEPS", "TABLES", "inherited", "migrate"]

_LOCK = 0x65646765  # advisory lock number: "edge"

STEPS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE api_keys (
            id VARCHAR(32) PRIMARY KEY, tenant VARCHAR(80) NOT NULL, role VARCHAR(16) NOT NULL,
            digest VARCHAR(64) NOT NULL, created BIGINT NOT NULL, expires BIGINT, revoked BIGINT,
            note VARCHAR(200) NOT NULL DEFAULT '')""",
        """CREATE TABLE accounts (
            subject VARCHAR(160) NOT NULL, resource VARCHAR(16) NOT NULL, cap BIGINT NOT NULL, used BIGINT NOT NULL,
            PRIMARY KEY (subject, resource), CHECK (used >= 0), CHECK (used <= cap))""",
        """CREATE TABLE charges (
            id VARCHAR(32) PRIMARY KEY, at BIGINT NOT NULL, tenant VARCHAR(80) NOT NULL, key_id VARCHAR(32) NOT NULL,
            what VARCHAR(200) NOT NULL, edge_set VARCHAR(120) NOT NULL, amount BIGINT NOT NULL CHECK (amount >= 0),
            token VARCHAR(120) NOT NULL, digest VARCHAR(64) NOT NULL, status VARCHAR(16) NOT NULL,
            UNIQUE (tenant, token))""",
        """CREATE TABLE leases (
            id VARCHAR(32) PRIMARY KEY, at BIGINT NOT NULL, worker VARCHAR(80) NOT NULL,
            subject VARCHAR(160) NOT NULL, amount BIGINT NOT NULL CHECK (amount >= 0), returned BIGINT NOT NULL)""",
        """CREATE TABLE snapshots (
            id VARCHAR(32) PRIMARY KEY, charge_id VARCHAR(32) NOT NULL UNIQUE, at BIGINT NOT NULL,
            name VARCHAR(120) NOT NULL, edge_set VARCHAR(120) NOT NULL, num_nodes BIGINT NOT NULL,
            manifest VARCHAR(64) NOT NULL)""",
    ),
    (
        """CREATE TABLE reviews (
            id VARCHAR(32) PRIMARY KEY, at BIGINT NOT NULL, key_id VARCHAR(32) NOT NULL, tenant VARCHAR(80) NOT NULL,
            detector VARCHAR(32) NOT NULL, score BIGINT NOT NULL, action VARCHAR(16) NOT NULL, resolved BIGINT)""",
        """CREATE TABLE guard_scores (
            subject VARCHAR(80) NOT NULL, detector VARCHAR(32) NOT NULL, score BIGINT NOT NULL,
            PRIMARY KEY (subject, detector))""",
        "CREATE INDEX charges_by_edge_set ON charges (edge_set)",
        "CREATE INDEX leases_by_subject ON leases (subject)",
    ),
    (
        """CREATE TABLE journal (
            entry BIGINT PRIMARY KEY, at BIGINT NOT NULL, kind VARCHAR(16) NOT NULL, facts TEXT NOT NULL,
            hash VARCHAR(64) NOT NULL)""",
        """CREATE TABLE edge_sets (
            name VARCHAR(120) PRIMARY KEY, identity VARCHAR(24) NOT NULL DEFAULT '', edges BIGINT NOT NULL DEFAULT 0,
            unbounded VARCHAR(200) NOT NULL DEFAULT '', tenants TEXT NOT NULL DEFAULT '',
            apart TEXT NOT NULL DEFAULT '')""",
        """CREATE TABLE edge_hashes (
            edge_set VARCHAR(120) NOT NULL, part BIGINT NOT NULL, hashes {blob} NOT NULL,
            PRIMARY KEY (edge_set, part))""",
        "CREATE TABLE shared_edges (names TEXT PRIMARY KEY)",
        "ALTER TABLE charges ADD COLUMN delta BIGINT NOT NULL DEFAULT 0 CHECK (delta >= 0)",
        "ALTER TABLE charges ADD COLUMN unbounded VARCHAR(200) NOT NULL DEFAULT ''",
        "ALTER TABLE charges ADD COLUMN entry BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE charges ADD COLUMN product VARCHAR(64) NOT NULL DEFAULT ''",
    ),
)
LATEST = len(STEPS)
JOURNAL = 3  # the step that began the journal
TABLES = (
    "meta", "api_keys", "accounts", "charges", "leases", "snapshots", "reviews", "guard_scores", "journal",
    "edge_sets", "edge_hashes", "shared_edges",
)  # fmt: skip


def lock_tables(connection: Connection) -> None:
    """One process at a time makes tables: on PostgreSQL two at once fail, in spite of IF NOT EXISTS."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def migrate(connection: Connection, *, steps: int = LATEST) -> int:
    """Bring the schema to version `steps` inside the caller's transaction; refuses a newer one. Returns the old one."""
    lock_tables(connection)
    connection.execute(text("CREATE TABLE IF NOT EXISTS meta (name VARCHAR(40) PRIMARY KEY, value TEXT NOT NULL)"))
    found = connection.execute(text("SELECT value FROM meta WHERE name = 'schema'")).scalar()
    version = int(found or 0)
    if version > LATEST:
        raise StorageError(
            f"the ledger has schema {version}, this version of edgeveil knows {LATEST}; upgrade edgeveil instead"
        )
    blob = "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"
    for statements in STEPS[version:steps]:
        for statement in statements:
            connection.execute(text(statement.replace("{blob}", blob)))
    if found is None:
        facts = {"schema": str(steps), "secret": secrets.token_hex(32), "clock": str(int(time.time()))}
        for name, value in facts.items():
            connection.execute(text("INSERT INTO meta (name, value) VALUES (:n, :v)"), {"n": name, "v": value})
    elif version < steps:
        connection.execute(text("UPDATE meta SET value = :v WHERE name = 'schema'"), {"v": str(steps)})
    if version < JOURNAL <= steps:
        _begin_journal(connection)
    return version


def inherited(connection: Connection, ids: list[str]) -> str:
    """A hash over charges that are older than the journal, so that they cannot be changed unnoticed either."""
    statement = text("SELECT id, at, tenant, edge_set, amount FROM charges ORDER BY id")
    wanted = set(ids)
    rows = [list(row) for row in connection.execute(statement) if row.id in wanted]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _begin_journal(connection: Connection) -> None:
    """The first entry takes over what is there; nobody knows which edges older edge sets hold."""
    chain.start(connection, secrets.token_hex(16))
    named = "SELECT edge_set FROM charges UNION SELECT SUBSTR(subject, 7) FROM accounts WHERE subject LIKE 'edges:%'"
    for name in connection.execute(text(named)).scalars().all():
        row = {"n": name, "i": UNKNOWN}
        connection.execute(text("INSERT INTO edge_sets (name, identity) VALUES (:n, :i)"), row)
    ids = list(connection.execute(text("SELECT id FROM charges ORDER BY id")).scalars())
    if ids:
        facts = {"charges": ids, "hash": inherited(connection, ids)}
        chain.extend(connection, int(time.time()), "inherited", facts)
