"""The ledger's schema: numbered steps that are never edited once released, only followed by further ones.

The statements are the common subset of SQLite and PostgreSQL. Amounts are integers (epsilon in units of 10^-9), so
that sums are exact and the database itself can refuse an overdraft.
"""

from __future__ import annotations

import secrets
import time

from sqlalchemy import Connection, text

from edgeveil.errors import StorageError

__all__ = ["LATEST", "STEPS", "migrate"]

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
)
LATEST = len(STEPS)


def migrate(connection: Connection, *, steps: int = LATEST) -> int:
    """Bring the schema to version `steps` inside the caller's transaction; refuses a newer one. Returns the old one."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    connection.execute(text("CREATE TABLE IF NOT EXISTS meta (name VARCHAR(40) PRIMARY KEY, value TEXT NOT NULL)"))
    found = connection.execute(text("SELECT value FROM meta WHERE name = 'schema'")).scalar()
    version = int(found or 0)
    if version > LATEST:
        raise StorageError(
            f"the ledger has schema {version}, this version of edgeveil knows {LATEST}; upgrade edgeveil instead"
        )
    for statements in STEPS[version:steps]:
        for statement in statements:
            connection.execute(text(statement))
    if found is None:
        facts = {"schema": str(steps), "secret": secrets.token_hex(32), "clock": str(int(time.time()))}
        for name, value in facts.items():
            connection.execute(text("INSERT INTO meta (name, value) VALUES (:n, :v)"), {"n": name, "v": value})
    elif version < steps:
        connection.execute(text("UPDATE meta SET value = :v WHERE name = 'schema'"), {"v": str(steps)})
    return version
