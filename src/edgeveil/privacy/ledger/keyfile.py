"""Where a ledger's key lies, and that it is the right one: hashes under another key would hide every overlap."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

from edgeveil.errors import StorageError, UsageError
from edgeveil.privacy.ledger import chain
from edgeveil.privacy.ledger.database import Database
from edgeveil.privacy.ledger.edges import EdgeKey

__all__ = ["attach_key", "key_path"]

VARIABLE = "EDGEVEIL_LEDGER_KEY"
_PLAIN = "release-"


def key_path(url: str, given: Path | None = None) -> Path:
    """The key's file: as given, as the environment says, or beside an SQLite ledger."""
    named = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None:
        return named
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise UsageError(f"a ledger in PostgreSQL keeps its key in a file of yours: set {VARIABLE} to its path")
    return Path(f"{parsed.database}.key")


def attach_key(database: Database, path: Path) -> EdgeKey:
    """The key of this ledger; a ledger without one gets it now."""
    with database.write() as connection:
        chain.lock(connection)
        known = connection.execute(text("SELECT value FROM meta WHERE name = 'key'")).scalar()
        if known is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            key = EdgeKey.make(path)
            connection.execute(text("INSERT INTO meta (name, value) VALUES ('key', :v)"), {"v": key.seal("check")})
            _seal_old(connection, key)
            return key
    if not path.exists():
        raise StorageError(f"the ledger's key {path} is missing; restore it: other hashes would hide what was spent")
    key = EdgeKey.read(path)
    if key.seal("check") != known:
        raise StorageError(f"{path} is not the key of this ledger; restore the right one")
    return key


def _seal_old(connection: Connection, key: EdgeKey) -> None:
    """Fingerprints of older ledgers were plain hashes of private edges: whoever guesses a graph can check it."""
    for row in connection.execute(text("SELECT id, token, digest FROM charges")).all():
        token = row.token
        if token.startswith(_PLAIN):
            token = _PLAIN + key.seal(token.removeprefix(_PLAIN))
        sealed = {"i": row.id, "t": token, "d": key.seal(row.digest)}
        connection.execute(text("UPDATE charges SET token = :t, digest = :d WHERE id = :i"), sealed)
