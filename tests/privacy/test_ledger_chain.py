"""The journal tells an old copy from the latest one, and every change behind its back."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import edgeveil as ev
from edgeveil.cli.main import build_app
from edgeveil.errors import MissingExtra, StorageError, UsageError
from edgeveil.privacy.guarantee import SECURE, Guarantee
from edgeveil.privacy.ledger import open_ledger
from edgeveil.privacy.ledger.chain import Head
from edgeveil.privacy.ledger.examine import backup, faults
from edgeveil.privacy.ledger.heads import HeadFile, last_logged
from edgeveil.privacy.ledger.recording import recording
from edgeveil.privacy.ledger.units import cost_of, to_units

GRAPH = ev.Graph.from_edges(np.array([[0, 1, 2], [1, 2, 3]]), num_nodes=5)
SOUND = Guarantee(status="sound", claimed_epsilon=1.0, randomness=SECURE)


def told(path: Path, times: int = 1, edge_set: str = "g") -> Head:
    with open_ledger(path) as ledger:
        for _ in range(times):
            with recording(ledger, [GRAPH], edge_set=edge_set) as recorder:
                recorder.charge(cost_of(SOUND), "perturb")
        return ledger.head()


def test_an_old_copy_is_behind_and_a_used_one_has_another_past(tmp_path: Path) -> None:
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    first = told(path)
    with open_ledger(path) as ledger:
        backup(ledger, copy)
    last = told(path, 2)
    with open_ledger(path) as ledger:
        for head in (first, last):
            ledger.check_head(head, "here")  # ahead of a head is normal
    shutil.copy(tmp_path / "ledger.db.key", tmp_path / "copy.db.key")
    with open_ledger(copy) as old:
        old.check_head(first, "here")
        with pytest.raises(StorageError, match="older than what it once recorded"):
            old.check_head(last, "here")
    told(copy, 3)
    with open_ledger(copy) as old, pytest.raises(StorageError, match="another past"):
        old.check_head(last, "here")
    with open_ledger(tmp_path / "new.db") as new, pytest.raises(StorageError, match="knows nothing"):
        new.check_head(first, "here")
    assert copy.stat().st_mode & 0o777 == 0o600
    with open_ledger(path) as ledger, pytest.raises(UsageError, match="exists"):
        backup(ledger, copy)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE charges SET amount = 1", "differs from the journal"),
        ("UPDATE journal SET facts = replace(facts, '1000000000', '5') WHERE kind = 'charge'", "broken at entry"),
        ("DELETE FROM journal WHERE entry = 2", "broken at entry 2"),
        ("DELETE FROM journal WHERE entry = (SELECT MAX(entry) FROM journal)", "its head says"),
        ("DELETE FROM charges WHERE id = (SELECT MIN(id) FROM charges)", "missing from the table"),
        ("UPDATE accounts SET used = 0 WHERE subject = 'edges:g'", "account edges:g has used 0 epsilon"),
        ("UPDATE charges SET unbounded = 'x'", "is not marked"),
    ],
)
def test_changes_behind_its_back_are_found(tmp_path: Path, damage: str, fault: str) -> None:
    path = tmp_path / "ledger.db"
    told(path, 3)
    with open_ledger(path) as ledger:
        assert faults(ledger) == []
    raw = sqlite3.connect(path)
    raw.execute(damage)
    raw.commit()
    raw.close()
    with open_ledger(path, locked=True) as ledger:
        found = faults(ledger)
    assert any(fault in text for text in found), found
    answer = CliRunner().invoke(build_app(), ["ledger", "verify", str(path)])
    assert answer.exit_code == 1 and "fault:" in answer.output


def test_without_the_extra_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgeveil.privacy.ledger.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'edgeveil\[ledger\]'"):
        open_ledger(tmp_path / "ledger.db")


def test_heads_survive_in_a_file_and_in_a_log(tmp_path: Path) -> None:
    kept = HeadFile.beside(tmp_path / "release")
    assert kept.read() is None and last_logged(tmp_path / "audit.jsonl") is None
    for entry in (1, 3, 2):
        kept.write(Head("l", entry, f"h{entry}"))
    assert kept.read() == Head("l", 3, "h3")
    kept.path.write_text("torn")
    with pytest.raises(StorageError, match="nobody can tell"):
        kept.read()
    log = tmp_path / "audit.jsonl"
    line = json.dumps({"event": "ledger", **Head("l", 7, "h7").to_json()}, separators=(",", ":"))
    other = json.dumps({"event": "request", "x": "y" * 500})
    log.write_text("\n".join([line.replace("7", "6"), other, line, line[:40], *[other] * 400]) + "\n")
    assert last_logged(log) == Head("l", 7, "h7")


def test_show_lists_who_was_told_what_after_two_releases(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    told(path, 1)
    told(path, 1, "renamed")
    run = CliRunner().invoke(build_app(), ["ledger", "show", str(path)])
    assert "edge set g: epsilon 2, delta 0, no cap; 3 edges between nodes known by row number" in run.output
    assert "share an edge: g, renamed" in run.output and run.output.count("owner was told") == 2
    rows = CliRunner().invoke(build_app(), ["ledger", "show", str(path), "--json"]).output.splitlines()
    assert [json.loads(row)["edge_set"] for row in rows] == ["g", "renamed", "g", "renamed"]
    capped = CliRunner().invoke(
        build_app(), ["ledger", "edge-set", "g", "--ledger", str(path), "--epsilon-cap", "3", "--delta-cap", "1e-5"]
    )
    assert json.loads(capped.output)["epsilon_cap"] == 3.0
    with open_ledger(path) as ledger:
        assert ledger.account("edges:g").cap == to_units(3.0)  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="no ledger at"):
        open_ledger(tmp_path / "absent.db", make=False)
