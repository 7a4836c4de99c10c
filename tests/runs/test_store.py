"""The store keeps what it was given, once, through concurrent writers, damage and full disks."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from edgeveil.errors import StorageError
from edgeveil.runs.records import Record, append_record, read_log
from edgeveil.runs.store import Store, log_path, rebuild


def record(number: int, rows: int = 3) -> Record:
    row = {"dataset": "cora", "defence": "none", "params": {"a": 1}, "is_twin": False, "seed": number, "queries": 5}
    return Record(
        id=f"id{number}", key=f"key{number}", code="c", plan="p", config={"dataset": "cora", "seed": number},
        rows=tuple({**row, "belief": str(b), "auc": number + b / 10} for b in range(rows)), figures={"micro_f1": 0.5},
        provenance={"cpu_seconds": 1.5},
    )  # fmt: skip


def test_rows_and_figures_come_back(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        assert store.finish(record(1)) and store.finish(record(2))
        rows = list(store.rows())
        assert [(r["seed"], r["auc"], r["queries"]) for r in rows[:3]] == [(1, 1.0, 5), (1, 1.1, 5), (1, 1.2, 5)]
        assert rows[0]["params"] == {"a": 1} and rows[0]["recall"] is None
        back = store.record("id2")
        assert back.figures == {"micro_f1": 0.5} and back.provenance == {"cpu_seconds": 1.5} and len(back.rows) == 3
        assert store.seconds()[0][1] == 1.5


def test_a_finished_run_is_never_replaced(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        store.fail(record(1), "out of luck")
        assert store.failed() == {"id1": "out of luck"} and store.done() == set()
        assert store.finish(record(1))
        assert not store.finish(record(1, rows=1))
        store.fail(record(1), "too late")
        assert store.failed() == {} and len(list(store.rows())) == 3
        assert store.done() == {"id1"} and store.done(any_code=True) == {"key1"}


def _write(path: str, first: int) -> None:
    with Store(path) as store:
        for number in range(first, first + 20):
            store.finish(record(number))


@pytest.mark.slow
def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(str(path), 15 * k)) for k in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [w.exitcode for w in writers] == [0, 0, 0]
    with Store(path) as store:
        assert store.done() == {f"id{n}" for n in range(50)}
        assert len(list(store.rows())) == 150
    assert {r.id for r in read_log(log_path(path))} == {f"id{n}" for n in range(50)}


def filled(path: Path, count: int = 40) -> None:
    with Store(path) as store:
        for number in range(count):
            store.finish(record(number, rows=10))


@pytest.mark.parametrize("damage", ["header", "middle", "short", "garbage"])
def test_a_damaged_store_says_so_and_is_rebuilt_from_its_log(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s.sqlite"
    filled(path)
    before = sorted(json.dumps(r, sort_keys=True) for r in Store(path).rows())
    data = bytearray(path.read_bytes())
    if damage == "header":
        data[:100] = os.urandom(100)
    elif damage == "middle":
        data[len(data) // 4 : len(data) // 2] = os.urandom(len(data) // 2 - len(data) // 4)
    elif damage == "short":
        data = data[: len(data) // 3]
    else:
        data = bytearray(b"not a database, but long enough to be taken for one" * 100)
    path.write_bytes(data)
    with pytest.raises(StorageError, match=r"damaged.*40 finished runs.*--rebuild"):
        Store(path)
    assert rebuild(path) == 40
    with Store(path) as store:
        assert sorted(json.dumps(r, sort_keys=True) for r in store.rows()) == before
    assert (tmp_path / "s.sqlite.damaged").exists()


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t(x)")
    db.commit()
    db.close()
    with pytest.raises(StorageError, match="not a store of edgeveil"):
        Store(path)


def test_a_missing_store_is_not_invented(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no store at"):
        Store(tmp_path / "s.sqlite", create=False)
    assert not (tmp_path / "s.sqlite").exists()


FULL = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from test_store import record
from edgeveil.runs.store import Store
from edgeveil.errors import StorageError
store = Store(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
done = 0
try:
    for number in range(10_000):
        store.finish(record(number, rows=20))
        done += 1
except StorageError as error:
    print(done, error)
"""


def test_a_full_disk_gives_a_clear_error_and_keeps_finished_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    here = str(Path(__file__).parent)
    out = subprocess.run([sys.executable, "-c", FULL, str(path), here], capture_output=True, text=True, timeout=120)
    done, message = int(out.stdout.split()[0]), out.stdout
    assert done > 5 and "stay readable" in message and "free some space" in message, out.stderr
    with Store(path) as store:
        finished = store.done()
        assert {f"id{n}" for n in range(done)} <= finished <= {f"id{n}" for n in range(done + 1)}
        assert len(list(store.rows())) == 20 * len(finished)
        assert store.finish(record(99_999))


def test_torn_and_repeated_log_lines_are_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append_record(log, record(1))
    with log.open("ab") as file:
        file.write(b'00000000 {"half a line')
    append_record(log, record(2))
    append_record(log, record(2))
    assert [r.id for r in read_log(log)] == ["id1", "id2"]


def test_a_log_that_lacks_a_record_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    filled(path, 3)
    log_path(path).unlink()
    Store(path).close()
    assert {r.id for r in read_log(log_path(path))} == {"id0", "id1", "id2"}


def test_ids_that_cover_private_graphs_are_for_the_owner_only(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        store.finish(record(1))
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert set(modes.values()) == {0o600} and {"s.sqlite", "s.sqlite.log"} <= modes.keys()
        assert not any("id1" in json.dumps(row) or "key1" in json.dumps(row) for row in store.rows())
