"""Who was told what about which edges: one ledger for commands, Python and the server.

Needs the extra `ledger` (SQLAlchemy, and psycopg for PostgreSQL); `open_ledger` fails with one sentence without it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from edgeveil.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from edgeveil.privacy.ledger.ledger import Ledger

__all__ = ["address", "open_ledger", "require_extra"]


def require_extra(feature: str = "a ledger") -> None:
    """Raise `MissingExtra` unless the ledger's database library is installed."""
    if find_spec("sqlalchemy") is None:
        raise MissingExtra(feature, "ledger")


def address(where: str | Path) -> str:
    """A file or a database address as a database address."""
    return str(where) if "://" in str(where) else f"sqlite:///{Path(where).as_posix()}"


def open_ledger(where: str | Path, *, key: Path | None = None, make: bool = True, locked: bool = False) -> Ledger:
    """The ledger in a file or at a ``postgresql://`` address; a new file unless `make` is False.

    `key` is the file with its key: beside an SQLite ledger by default, for PostgreSQL as EDGEVEIL_LEDGER_KEY says.
    `locked` opens it without the key, to read; edges cannot be recorded then.
    """
    require_extra()
    from edgeveil.privacy.ledger.database import Database
    from edgeveil.privacy.ledger.keyfile import key_path
    from edgeveil.privacy.ledger.ledger import Ledger

    if not make and "://" not in str(where) and not Path(where).is_file():
        raise UsageError(f"no ledger at {where}; edgeveil release --ledger {where} makes one")
    ledger = Ledger(Database(address(where)))
    if not locked:
        ledger.unlock(key_path(ledger.database.url, key))
    return ledger
