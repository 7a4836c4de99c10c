"""Heads of a ledger's journal that survive elsewhere: in a small file beside a release, in lines of an audit log."""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from edgeveil.errors import StorageError
from edgeveil.privacy.ledger import open_ledger
from edgeveil.privacy.ledger.chain import Head

if TYPE_CHECKING:
    from edgeveil.privacy.ledger.ledger import Ledger

__all__ = ["HeadFile", "check_recorded", "keep_recorded", "last_logged"]

log = logging.getLogger("edgeveil")
_BLOCK = 1 << 16
_RECORDED = ".recorded-head"
_MARK = b'"event":"ledger"'


class HeadFile:
    """The latest head, beside a release: an old copy of the ledger put back does not bring back an old head."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._latest = -1
        self._warned = False

    @classmethod
    def beside(cls, release: Path) -> HeadFile:
        """The file for a release folder: its name and ``.ledger-head``."""
        whole = release.absolute()
        return cls(whole.with_name(f"{whole.name}.ledger-head"))

    @classmethod
    def recorded(cls, out: Path) -> HeadFile:
        """The file beside a folder that a command wrote under ``--ledger``: its name and ``.recorded-head``."""
        whole = out.absolute()
        return cls(whole.with_name(f"{whole.name}{_RECORDED}"))

    def read(self) -> Head | None:
        """The head, or None if none was ever kept here."""
        try:
            return Head.from_json(json.loads(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{self.path} cannot be read ({error}), so nobody can tell whether the ledger is the latest; restore "
                "it, or remove it if you know that the ledger is"
            ) from error

    def write(self, head: Head) -> None:
        """Keep a later head. A folder that cannot be written costs the notice of an old copy, so it is said once."""
        with self._turn:
            if head.entry <= self._latest:
                return
            scratch = self.path.with_name(f".{self.path.name}-{secrets.token_hex(4)}")
            try:
                scratch.write_text(json.dumps(head.to_json()) + "\n", encoding="utf-8")
                scratch.replace(self.path)
                self._latest = head.entry
            except OSError as error:
                scratch.unlink(missing_ok=True)
                if not self._warned:
                    log.warning("cannot keep the ledger's head in %s: %s", self.path, error.strerror or error)
                self._warned = True


def keep_recorded(where: str | Path, out: Path) -> None:
    """Leave the head of the ledger beside what was written under it."""
    with open_ledger(where, make=False, locked=True) as ledger:
        HeadFile.recorded(out).write(ledger.head())


def check_recorded(ledger: Ledger, *places: Path) -> None:
    """Refuse a ledger that has forgotten an entry remembered beside any folder next to these; others' heads pass."""
    name = ledger.head().ledger
    for folder in sorted({place.absolute().parent for place in places}):
        for path in sorted(folder.glob(f"*{_RECORDED}")):
            head = HeadFile(path).read()
            if head is not None and head.ledger == name:
                ledger.check_head(head, str(path))


def last_logged(path: Path) -> Head | None:
    """The last head in an audit log, read from the end; None if there is none."""
    try:
        with path.open("rb") as file:
            at, rest = file.seek(0, os.SEEK_END), b""
            while at > 0:
                size = min(_BLOCK, at)
                at -= size
                file.seek(at)
                lines = (file.read(size) + rest).split(b"\n")
                rest = lines.pop(0) if at else b""
                for line in reversed(lines):
                    if _MARK in line and (head := _parse(line)) is not None:
                        return head
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read the audit log {path}: {error.strerror or error}") from error
    return None


def _parse(line: bytes) -> Head | None:
    try:
        return Head.from_json(json.loads(line))
    except (ValueError, KeyError, TypeError):  # a line torn by a full disk
        return None
