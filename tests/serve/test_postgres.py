"""The ledger on a real PostgreSQL: races across processes' worth of connections, crashes, outages, a whole server."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_ledger import check_kills, open_accounts, race, spend
from test_readings import change, readings

from edgeveil.errors import BudgetExceeded, LedgerUnavailable
from edgeveil.privacy.ledger.database import Database
from edgeveil.privacy.ledger.migrations import TABLES
from edgeveil.privacy.ledger.units import to_units
from edgeveil.serve.auth import KeyStore
from edgeveil.serve.problems import Problem, QuotaExceeded
from edgeveil.serve.readings import Readings
from edgeveil.serve.server_ledger import Ledger


def find_binaries() -> Path | None:
    """Debian keeps server binaries out of the path; on CI a missing server is installed."""
    for _ in range(2):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        direct = shutil.which("initdb")
        if found or direct:
            return found[-1].parent if found else Path(str(direct)).resolve().parent
        if os.environ.get("CI") != "true":
            return None
        subprocess.run(["apt-get", "install", "-y", "-q", "postgresql"], check=False, capture_output=True)
    return None


class Cluster:
    """A throw-away PostgreSQL on loopback, run by an unprivileged user."""

    def __init__(self, binaries: Path) -> None:
        self.binaries = binaries
        self.home = Path(tempfile.mkdtemp(prefix="edgeveil-pg-"))
        self.user: str | None = None
        if os.geteuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            self.user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.home, self.user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.run("initdb", "-D", str(self.home / "data"), "-U", "edgeveil", "--auth=trust", "-E", "UTF8")
        self.start()
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "edgeveil", "ledger")

    def run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.binaries / name), *arguments], user=self.user, cwd=self.home, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.home}"
        log = str(self.home / "log")
        self.run("pg_ctl", "-D", str(self.home / "data"), "-l", log, "-w", "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        self.run("pg_ctl", "-D", str(self.home / "data"), "-m", how, "-w", "stop")

    @property
    def url(self) -> str:
        return f"postgresql://edgeveil@127.0.0.1:{self.port}/ledger"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql, or CI=true to let the tests do it)")
    cluster = Cluster(binaries)
    yield cluster
    cluster.stop("immediate")
    shutil.rmtree(cluster.home, ignore_errors=True)


@pytest.fixture
def ledger(cluster: Cluster) -> Iterator[Ledger]:
    database = Database(cluster.url)
    from sqlalchemy import text

    with database.write() as connection:
        for table in set(TABLES) - {"meta", "journal"}:
            connection.execute(text(f"TRUNCATE {table}"))
    ledger = Ledger(database)
    ledger.unlock(cluster.home / "ledger.key")
    yield ledger
    database.close()


def test_64_clients_race_for_the_last_unit(cluster: Cluster, ledger: Ledger) -> None:
    open_accounts(ledger)
    spend(ledger, 0.9, "before")
    ledgers = [Ledger(Database(cluster.url, timeout=60)) for _ in range(8)]
    won: list[str] = []
    lost: list[int] = []

    def client(i: int) -> None:
        try:
            won.append(spend(ledgers[i % 8], 0.1, f"race-{i}"))
        except BudgetExceeded:
            lost.append(i)

    race(client)
    assert (len(won), len(lost)) == (1, 63)
    assert sum(c["amount"] for c in ledger.charges("g")) == ledger.account("edges:g").used == to_units(1.0)
    for other in ledgers:
        other.database.close()


def test_one_token_in_a_race_is_charged_once(cluster: Cluster, ledger: Ledger) -> None:
    open_accounts(ledger)
    ledgers = [Ledger(Database(cluster.url, timeout=60)) for _ in range(8)]
    ids: list[str] = []
    race(lambda i: ids.append(spend(ledgers[i % 8], 0.1, "same")))
    assert len(ids) == 64 and len(set(ids)) == 1
    assert ledger.account("edges:g").used == to_units(0.1)
    for other in ledgers:
        other.database.close()


def test_leases_race_exactly(cluster: Cluster, ledger: Ledger) -> None:
    ledger.open_account("tenant:t", "queries", 200)
    others = [Ledger(Database(cluster.url, timeout=60)) for _ in range(4)]
    granted: list[int] = []

    def client(i: int) -> None:
        try:
            while True:
                granted.append(others[i % 4].lease("tenant:t", 9, f"w{i}"))
        except QuotaExceeded:
            pass

    race(client)
    assert sum(granted) == 200 == ledger.account("tenant:t", "queries").used
    nodes: list[Any] = []

    def node_client(i: int) -> None:
        with contextlib.suppress(QuotaExceeded):
            nodes.append(others[i % 4].lease_nodes("r", [i % 5, 5, 6 + i % 3], 1, cap=30))

    race(node_client)
    assert len(nodes) == 30 and ledger.account("r:5", "node").used == 30
    for other in others:
        other.database.close()


def test_migrating_at_the_same_time(cluster: Cluster, ledger: Ledger) -> None:
    failures: list[Exception] = []

    def open_again(_: int) -> None:
        database = Database(cluster.url, timeout=60)
        try:
            KeyStore(database).list()
        except Exception as error:
            failures.append(error)
        finally:
            database.close()

    race(open_again, 8)
    assert not failures


@pytest.mark.slow
def test_a_crashed_database_keeps_every_acknowledged_spend(cluster: Cluster, ledger: Ledger) -> None:
    open_accounts(ledger, edges=100.0, tenant=100.0)
    acknowledged: list[str] = []
    stop = threading.Event()
    unavailable: list[bool] = []

    def spender(i: int) -> None:
        count = 0
        while not stop.is_set():
            try:
                acknowledged.append(spend(ledger, 0.001, f"{i}-{count}"))
            except LedgerUnavailable:
                unavailable.append(True)
                time.sleep(0.05)
            count += 1

    threads = [threading.Thread(target=spender, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        time.sleep(0.3)
        cluster.stop("immediate")  # no checkpoint, no goodbye: what a power cut leaves to recovery
        time.sleep(0.2)
        cluster.start()
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    rows = {c["id"]: c["amount"] for c in ledger.charges("g")}
    assert unavailable and acknowledged
    assert set(acknowledged) <= set(rows)
    assert sum(rows.values()) == ledger.account("edges:g").used


@pytest.mark.slow
def test_kills_on_postgres(cluster: Cluster, ledger: Ledger, tmp_path: Path) -> None:
    check_kills(cluster.url, tmp_path, 50)


def test_a_server_on_postgres(cluster: Cluster, ledger: Ledger, live: Callable[..., Any]) -> None:
    server = live(
        ledger=cluster.url, ledger_key=cluster.home / "ledger.key", lease_block=4, key_memory=0, ledger_timeout=2.0
    )
    key = server.key(queries=10)
    states = [server.post("/v1/predict", key, json={"nodes": [0]}).status_code for _ in range(3)]
    assert states == [200] * 3
    cluster.stop("immediate")
    try:
        down = server.post("/v1/predict", key, json={"nodes": [0]})
        assert down.status_code == 503 and down.json()["error"]["code"] == "ledger_unavailable"
        assert server.client.get("/readyz").status_code == 503
    finally:
        cluster.start()
    states = [server.post("/v1/predict", key, json={"nodes": [0]}).status_code for _ in range(9)]
    assert states.count(200) == 7 and states[-1] == 429
    assert ledger.account("tenant:bob", "queries").used == 10


def test_edge_sets_add_up_on_postgres_and_a_copy_of_it_is_whole(
    cluster: Cluster, ledger: Ledger, tmp_path: Path
) -> None:
    from test_ledger_sets import open_sets, path_graph, told

    from edgeveil.privacy.ledger.examine import backup

    open_sets(ledger, a=3.0, b=3.0)
    told(ledger, "a", 2.0, path_graph(0, 5), "1")
    told(ledger, "b", 1.0, path_graph(5, 9), "2")
    with pytest.raises(BudgetExceeded, match="edges:a"):
        told(ledger, "b", 1.0, path_graph(3, 9), "3")
    ledger.open_account("edges:a", "epsilon", to_units(4.0))
    ledger.open_account("edges:b", "epsilon", to_units(4.0))
    told(ledger, "b", 1.0, path_graph(3, 9), "3")
    assert ledger.bills()["a"].epsilon == to_units(4.0) and ledger.overlaps() == [["a", "b"]]
    copy = Ledger(Database(f"sqlite:///{backup(ledger, tmp_path / 'copy.db')}"))
    copy.unlock(cluster.home / "ledger.key")
    assert copy.head() == ledger.head() and copy.bills() == ledger.bills()
    told(copy, "a", 0, path_graph(0, 5), "4")
    with pytest.raises(BudgetExceeded):
        told(copy, "a", 0.1, path_graph(0, 5), "5")
    copy.close()


def test_spends_on_overlapping_sets_race_exactly(cluster: Cluster, ledger: Ledger) -> None:
    from test_ledger_sets import open_sets, path_graph, told

    open_sets(ledger, a=1.0, b=1.0)
    others = [Ledger(Database(cluster.url, timeout=60)) for _ in range(4)]
    for other in others:
        other.unlock(cluster.home / "ledger.key")
    won: list[str] = []

    def client(i: int) -> None:
        with contextlib.suppress(BudgetExceeded):
            told(others[i % 4], "ab"[i % 2], 0.1, path_graph(0, 5), f"race-{i}")
            won.append("ab"[i % 2])

    race(client, 24)
    assert len(won) == 10 and ledger.bills()["a"].epsilon == to_units(1.0)
    for other in others:
        other.close()


def test_a_charge_that_lands_while_edges_are_compared_is_seen(
    cluster: Cluster, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statement by statement, PostgreSQL would show the shelf before the charge and its version after it."""
    from test_ledger_sets import check_look_ahead

    with contextlib.closing(Ledger(Database(cluster.url))) as other:
        other.unlock(cluster.home / "ledger.key")
        check_look_ahead(ledger, other, monkeypatch)


def test_many_processes_make_the_same_tables_at_once(cluster: Cluster, ledger: Ledger) -> None:
    others = [Database(cluster.url) for _ in range(6)]
    for other in others:
        other.check_writable()
    made: list[str] = []

    def client(i: int, table: str) -> None:
        others[i].make_tables(f"CREATE TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY)")
        made.append(table)

    tables = [f"fresh{n}" for n in range(8)]
    for table in tables:
        race(partial(client, table=table), 6)
    assert sorted(made) == sorted(6 * tables)
    for other in others:
        other.close()


def test_one_reading_shows_one_state(ledger: Ledger) -> None:
    from sqlalchemy import text

    open_accounts(ledger)
    spent = text("SELECT used FROM accounts WHERE subject = 'edges:g' AND resource = 'epsilon'")
    with ledger.database.read() as connection:
        before = connection.execute(spent).scalar_one()
        spend(ledger, 0.1, "meanwhile")
        assert connection.execute(spent).scalar_one() == before == 0
    with ledger.database.read() as connection:
        assert connection.execute(spent).scalar_one() == to_units(0.1)


def test_readings_are_counted_once_over_processes(cluster: Cluster, ledger: Ledger) -> None:
    """Four processes' worth of connections ask different questions about the same nodes at the same time."""
    processes: list[Readings] = []

    def open_one(_: int) -> None:
        database = Database(cluster.url, timeout=60)
        processes.append(readings(database, scope="pg", cross=5, cross_all=9, own=3))

    race(open_one, 4)  # the tables are made by whoever comes first
    asked, modes, refused = np.arange(6), [], []
    first = change(*range(6), salt=99.0)
    assert processes[0].take("bob", first, asked) == "together"

    def client(i: int) -> None:
        try:
            tenant = ("bob", "eve", "mallory")[i % 3]
            modes.append(processes[i % 4].take(tenant, change(*range(6), salt=float(i)), asked))
        except Problem as problem:
            refused.append(problem.code)

    race(client, 48)
    one, tenants = processes[0], ("bob", "eve", "mallory")
    assert modes.count("together") == 8 and set(refused) == {"guard_refused"}
    assert modes.count("alone") == 9 and len(refused) == 31  # three own readings of every node for each tenant
    assert one.used("*", "cross", range(6)) == dict.fromkeys(range(6), 9)
    each = [one.used(tenant, "cross", [0]).get(0, 0) for tenant in tenants]
    assert sum(each) == 9 and max(each) <= 5
    assert {process.take("bob", first, asked) for process in processes} == {"together"}  # counted once, free ever after
    assert one.used("*", "cross", [0]) == {0: 9}
    for process in processes:
        process._database.close()
