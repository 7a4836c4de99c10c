"""Heads that commands leave: an older ledger put back is noticed by whoever records next."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgeveil.cli.common import remembered
from edgeveil.defences.lapgraph import LapGraph
from edgeveil.defences.recorded import record
from edgeveil.errors import StorageError
from edgeveil.privacy.ledger import open_ledger
from edgeveil.privacy.ledger.heads import HeadFile
from zoo import toy


def tell(ledger: Path, out: Path) -> None:
    with remembered(str(ledger), out):
        record(ledger, LapGraph(epsilon=1.0).mechanism_guarantee(None), toy(), "perturb lapgraph")


def test_an_older_ledger_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    tell(ledger, tmp_path / "a")
    shutil.copy(ledger, copy)
    tell(ledger, tmp_path / "b")
    with open_ledger(ledger) as opened:
        assert HeadFile.recorded(tmp_path / "b").read() == opened.head()
    shutil.copy(copy, ledger)
    with pytest.raises(StorageError, match="older than what it once recorded"):
        tell(ledger, tmp_path / "c")
    assert not HeadFile.recorded(tmp_path / "c").path.exists()
    with open_ledger(ledger) as opened:
        assert len(opened.charges()) == 1


def test_heads_of_another_ledger_do_not_stand_in_the_way(tmp_path: Path) -> None:
    tell(tmp_path / "one.db", tmp_path / "a")
    tell(tmp_path / "two.db", tmp_path / "b")
    tell(tmp_path / "one.db", tmp_path / "c")
    with open_ledger(tmp_path / "one.db") as one, open_ledger(tmp_path / "two.db") as two:
        assert (len(one.charges()), len(two.charges())) == (2, 1)
