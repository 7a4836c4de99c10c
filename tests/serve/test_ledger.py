"""The ledger never grants more than its caps: in races, after kills, after torn writes, with a jumping clock."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from edgeveil.errors import BudgetExceeded, InputError, LedgerUnavailable, StorageError, UsageError
from edgeveil.privacy.ledger.database import Database
from edgeveil.privacy.ledger.ledger import TokenReused
from edgeveil.privacy.ledger.migrations import LATEST, migrate
from edgeveil.privacy.ledger.units import UNIT, from_units, to_units
from edgeveil.serve.auth import KeyStore
from edgeveil.serve.problems import QuotaExceeded
from edgeveil.serve.server_ledger import Ledger
from forked import Child
from tries import tries


def open_accounts(ledger: Ledger, edges: float = 1.0, tenant: float = 1.0) -> None:
    ledger.open_account("edges:g", "epsilon", to_units(edges))
    ledger.open_account("tenant:t", "epsilon", to_units(tenant))


def spend(ledger: Ledger, epsilon: float, token: str, digest: str = "d") -> str:
    return ledger.spend(
        tenant="t", key_id="k", what="snapshot", edge_set="g", epsilon=epsilon, token=token, digest=digest
    ).id


def charged(ledger: Ledger) -> int:
    return sum(charge["amount"] for charge in ledger.charges("g"))


def test_spend_quote_and_refusal(ledger: Ledger) -> None:
    open_accounts(ledger, edges=1.0, tenant=0.7)
    assert ledger.quote("t", "g", 0.5).allowed
    assert not ledger.quote("t", "g", 0.8).allowed
    spend(ledger, 0.5, "a")
    with pytest.raises(BudgetExceeded, match=r"short by 0\.3"):
        spend(ledger, 0.5, "b")
    found = ledger.quote("t", "g", 0.2)
    assert found.allowed and found.accounts["tenant:t"] == {"cap": 0.7, "spent": 0.5, "left": pytest.approx(0.2)}
    spend(ledger, 0.2, "c")
    assert charged(ledger) == ledger.account("edges:g").used == ledger.account("tenant:t").used == to_units(0.7)
    with pytest.raises(BudgetExceeded):
        spend(ledger, 1e-12, "tiny")  # any positive spend after exhaustion is refused


def test_unknown_accounts_have_no_budget(ledger: Ledger) -> None:
    assert not ledger.quote("t", "g", 0.1).allowed
    with pytest.raises(BudgetExceeded):
        spend(ledger, 0.1, "a")
    with pytest.raises(QuotaExceeded):
        ledger.lease("tenant:t", 1, "w")


def test_a_token_is_charged_once_and_bound_to_its_request(ledger: Ledger) -> None:
    open_accounts(ledger)
    first = spend(ledger, 0.4, "token")
    assert spend(ledger, 0.4, "token") == first
    assert charged(ledger) == to_units(0.4)
    with pytest.raises(TokenReused, match="different request"):
        spend(ledger, 0.4, "token", digest="other")


@given(st.lists(st.fractions(min_value=0, max_value=2, max_denominator=10**12), max_size=30))
@settings(max_examples=tries(200), deadline=None)
def test_units_never_lose_a_spend(amounts: list[Fraction]) -> None:
    total = sum(to_units(a) for a in amounts)
    assert from_units(total) >= sum(amounts)
    assert from_units(total) <= sum(amounts) + Fraction(len(amounts), UNIT)
    assert all(to_units(a) > 0 for a in amounts if a > 0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -0.1, 1e30])
def test_nonsense_epsilon_is_refused(bad: float) -> None:
    with pytest.raises(InputError):
        to_units(bad)


def test_the_database_itself_refuses_an_overdraft(ledger: Ledger) -> None:
    open_accounts(ledger)
    from sqlalchemy.exc import IntegrityError

    with pytest.raises(IntegrityError), ledger.database.write() as connection:
        connection.execute(text("UPDATE accounts SET used = cap + 1"))
    assert ledger.account("edges:g").used == 0
    with pytest.raises(InputError, match="already used"):
        spend(ledger, 0.5, "a")
        ledger.open_account("edges:g", "epsilon", to_units(0.4))


def test_64_clients_race_for_the_last_unit(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'race.db'}"
    first = Ledger(Database(url))
    open_accounts(first, edges=1.0, tenant=1.0)
    spend(first, 0.9, "before")
    ledgers = [Ledger(Database(url, timeout=60)) for _ in range(8)]  # eight processes' worth of connections
    won: list[str] = []
    lost: list[str] = []
    start = threading.Barrier(64)

    def client(i: int) -> None:
        start.wait()
        try:
            won.append(spend(ledgers[i % 8], 0.1, f"race-{i}"))
        except BudgetExceeded:
            lost.append(str(i))

    race(client)
    assert (len(won), len(lost)) == (1, 63)
    assert charged(first) == first.account("edges:g").used == to_units(1.0)
    for ledger in [first, *ledgers]:
        ledger.database.close()


def race(client: object, count: int = 64) -> None:
    threads = [threading.Thread(target=client, args=(i,)) for i in range(count)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_64_clients_race_for_query_quota(ledger: Ledger) -> None:
    ledger.open_account("tenant:t", "queries", 100)
    granted: list[int] = []

    def client(i: int) -> None:
        try:
            while True:
                granted.append(ledger.lease("tenant:t", 7, f"w{i}"))
        except QuotaExceeded:
            pass

    race(client)
    assert sum(granted) == 100 == ledger.account("tenant:t", "queries").used
    ledger.give_back("tenant:t", 5, "w0")
    assert ledger.account("tenant:t", "queries").used == 95
    with ledger.database.read() as connection:
        assert connection.execute(text("SELECT SUM(amount - returned) FROM leases")).scalar_one() == 95


def test_node_leases_are_all_or_nothing(ledger: Ledger) -> None:
    assert ledger.lease_nodes("r", [1, 2, 3], 4, cap=6) == [4, 4, 4]
    assert ledger.lease_nodes("r", [3, 4], 4, cap=6) == [2, 4]
    with pytest.raises(QuotaExceeded, match="node 3"):
        ledger.lease_nodes("r", [1, 3], 1, cap=6)
    assert ledger.account("r:1", "node").used == 4


KILLED = """
import sys
from edgeveil.privacy.ledger.database import Database
from edgeveil.serve.server_ledger import Ledger
from edgeveil.errors import BudgetExceeded
url, name = sys.argv[1:]
ledger = Ledger(Database(url, timeout=60))
print("ready", flush=True)
for i in range(10**6):
    try:
        facts = dict(tenant="t", key_id="k", what="s", edge_set="g", epsilon=0.001, digest="d")
        spend = ledger.spend(token=f"{name}-{i}", **facts)
        print(spend.id, flush=True)
    except BudgetExceeded:
        print("refused", flush=True)
        break
    try:
        print("leased", ledger.lease("tenant:t", 3, name), flush=True)
    except Exception as error:
        if type(error).__name__ != "QuotaExceeded":
            raise
"""


@pytest.mark.slow
def test_50_kills_lose_no_record(tmp_path: Path) -> None:
    check_kills(f"sqlite:///{tmp_path / 'kill.db'}", tmp_path, 50)


def test_a_few_kills_lose_no_record(tmp_path: Path) -> None:
    check_kills(f"sqlite:///{tmp_path / 'kill.db'}", tmp_path, 4)


def check_kills(url: str, folder: Path, kills: int) -> None:
    """Kill -9 a spender in full flight, again and again: what it was told it has is in the ledger, and caps hold."""
    ledger = Ledger(Database(url))
    open_accounts(ledger, edges=10.0, tenant=10.0)
    ledger.open_account("tenant:t", "queries", 10**6)
    acknowledged: set[str] = set()
    leased = 0
    rng = random.Random(0)
    script = folder / "spender.py"
    script.write_text(KILLED)
    for round_ in range(kills):
        log = folder / f"log{round_}"
        log.touch()
        child = Child(script, url, round_, cwd=folder, out=log)
        while "ready" not in log.read_text():
            assert child.poll() is None, log.read_text()
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.1))
        child.kill()
        child.wait()
        lines = log.read_text().splitlines()
        acknowledged |= {line for line in lines if len(line) == 24}
        leased += sum(int(line.split()[1]) for line in lines if line.startswith("leased ") and line.split()[1:])
    rows = {charge["id"]: charge["amount"] for charge in ledger.charges("g")}
    assert acknowledged <= set(rows)
    assert len(rows) - len(acknowledged) <= kills  # at most the one in flight
    assert sum(rows.values()) == ledger.account("edges:g").used == ledger.account("tenant:t").used <= to_units(10.0)
    assert ledger.account("tenant:t", "queries").used >= leased
    ledger.database.close()


def test_torn_log_keeps_acknowledged_spends_and_nothing_half(tmp_path: Path) -> None:
    """Cut the write-ahead log anywhere, as a power cut may: a prefix of whole transactions survives."""
    database = Database(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger = Ledger(database)
    open_accounts(ledger)
    with database.read() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2  # FULL: flushed before acknowledged
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
    wal = tmp_path / "ledger.db-wal"
    sizes = []
    for i in range(30):
        spend(ledger, 0.01, f"t{i}")
        sizes.append(wal.stat().st_size)
    assert sizes == sorted(sizes)
    rng = random.Random(1)
    for cut in [0, sizes[0], *(rng.randrange(sizes[-1]) for _ in range(12)), sizes[-1]]:
        copy = tmp_path / f"copy{cut}"
        copy.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "ledger.db", copy / "ledger.db")
        (copy / "ledger.db-wal").write_bytes(wal.read_bytes()[:cut])
        torn = Database(f"sqlite:///{copy / 'ledger.db'}")
        with torn.read() as connection:
            try:
                rows = connection.execute(text("SELECT token FROM charges ORDER BY at, id")).all()
                used = connection.execute(text("SELECT MAX(used) FROM accounts")).scalar() or 0
            except Exception:  # cut before the schema itself was written
                rows, used = [], 0
        safe = sum(size <= cut for size in sizes)
        assert safe <= len(rows) <= 30
        assert used == len(rows) * to_units(0.01)
        torn.close()
    database.close()


ABORTED = """
import os, sys
from sqlalchemy import text
from edgeveil.privacy.ledger.database import Database
database = Database(sys.argv[1])
with database.write() as connection:
    connection.execute(text("UPDATE accounts SET used = used + 5"))
    os.abort()
"""


def test_abort_inside_a_transaction_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger(Database(url))
    open_accounts(ledger)
    spend(ledger, 0.25, "a")
    done = subprocess.run([sys.executable, "-c", ABORTED, url], capture_output=True)
    assert done.returncode == -signal.SIGABRT
    assert ledger.account("edges:g").used == to_units(0.25)
    spend(ledger, 0.25, "b")  # the lock is gone with the process
    ledger.database.close()


def test_the_clock_never_runs_backwards(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time()

    def now() -> int:
        with ledger.database.write() as connection:
            return ledger.database.now(connection, keep=True)

    monkeypatch.setattr(time, "time", lambda: real + 1000)
    ahead = now()
    monkeypatch.setattr(time, "time", lambda: real - 10**6)
    assert now() == ahead
    open_accounts(ledger)
    spend(ledger, 0.1, "a")
    assert ledger.charges()[0]["at"] == ahead
    monkeypatch.setattr(time, "time", lambda: real)
    ledger.database.reset_clock()
    assert now() == int(real)


def test_clock_jumps_grant_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.open_account("tenant:t", "queries", 3)
    open_accounts(ledger, edges=0.2)
    spend(ledger, 0.2, "a")
    assert ledger.lease("tenant:t", 1, "w") == 1
    assert ledger.lease("tenant:t", 9, "w") + ledger.lease("tenant:t", 9, "w") == 2
    for jump in (10**9, -(10**9)):
        monkeypatch.setattr(time, "time", lambda jump=jump: 1.7e9 + jump)
        with pytest.raises(QuotaExceeded):
            ledger.lease("tenant:t", 1, "w")
        with pytest.raises(BudgetExceeded):
            spend(ledger, 0.1, f"b{jump}")


def test_migrations_keep_data_and_refuse_the_future(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    old = Database(url)
    old._ready = True
    with old.write() as connection:
        assert migrate(connection, steps=1) == 0
        connection.execute(text("INSERT INTO accounts VALUES ('edges:g', 'epsilon', 100, 42)"))
    old.close()
    new = Database(url)
    assert Ledger(new).account("edges:g").used == 42
    with new.write() as connection:
        assert migrate(connection) == LATEST
        connection.execute(text("SELECT COUNT(*) FROM reviews"))
        connection.execute(text("UPDATE meta SET value = '99' WHERE name = 'schema'"))
    new.close()
    with pytest.raises(StorageError, match="schema 99"):
        Ledger(Database(url)).accounts("epsilon")


def test_a_ledger_of_the_version_before_the_rooms_opens_with_its_charges_keys_and_caps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests/old_version/ledger.db` was made at commit 101cf19: a key, two charges of one edge set, leased queries."""
    copy = shutil.copy(Path(__file__).parents[1] / "old_version" / "ledger.db", tmp_path / "ledger.db")
    monkeypatch.setattr(time, "time", lambda: 1_794_874_400.0)  # before the key expires
    database = Database(f"sqlite:///{copy}")
    key = KeyStore(database).verify("ev_c75ed4dcf987a579_u4mK8JLd0f75grospB3BB26y-bdd1rLaR0X43r2m0lo")
    assert (key.tenant, key.role) == ("bob", "query")
    ledger = Ledger(database)
    ledger.unlock(tmp_path / "ledger.db.key")
    for subject, cap in (("edges:toy", 4), ("tenant:bob", 2)):
        account = ledger.account(subject)
        assert (account.cap, account.used) == (cap * 10**9, 75 * 10**7), "nothing that was told is forgotten"
    assert [charge["amount"] for charge in ledger.charges("toy")] == [500_000_000, 250_000_000]
    assert ledger.account("tenant:bob", "queries").used == 7
    asked = {"tenant": "bob", "key_id": key.id, "what": "renew lapgraph", "edge_set": "toy"}
    with pytest.raises(BudgetExceeded):
        ledger.spend(epsilon=1.5, token="new", digest="d", **asked)
    again = ledger.spend(epsilon=0.5, token="token-0", digest=ledger.key.seal("d0"), **asked)
    assert not again.fresh, "an old token is still that old charge, its digest sealed meanwhile"
    ledger.spend(epsilon=1.25, token="fits", digest="d", **asked)
    assert ledger.account("edges:toy").used == 2 * 10**9
    database.close()


def test_bad_addresses(tmp_path: Path) -> None:
    for url in ("sqlite://", "sqlite:///:memory:"):
        with pytest.raises(UsageError, match="forget"):
            Database(url)
    with pytest.raises(UsageError, match="SQLite or PostgreSQL"):
        Database("mysql://localhost/x")
    with pytest.raises(UsageError, match="database address"):
        Database("nonsense")
    unreachable = Ledger(Database("postgresql://127.0.0.1:1/none", timeout=2))
    with pytest.raises(LedgerUnavailable):
        unreachable.accounts("epsilon")


def test_the_file_is_private(ledger: Ledger) -> None:
    ledger.accounts("epsilon")
    path = Path(ledger.database.url.removeprefix("sqlite:///"))
    assert path.stat().st_mode & 0o777 == 0o600
