"""Keys: enough randomness, only hashes kept, revocation at once, expiry that a turned-back clock cannot undo."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest

from edgeveil.errors import InputError, LedgerUnavailable
from edgeveil.privacy.ledger.database import Database
from edgeveil.privacy.ledger.units import UNLIMITED, to_units
from edgeveil.serve.auth import ROLES, KeyStore
from edgeveil.serve.problems import Problem
from edgeveil.serve.server_ledger import Ledger


def test_a_key_has_256_random_bits_and_is_kept_as_a_hash(ledger: Ledger, tmp_path: Path) -> None:
    store = KeyStore(ledger.database)
    texts = [store.add("bob")[0] for _ in range(5)]
    secrets = [text.split("_", 2)[2] for text in texts]
    assert all(len(base64.urlsafe_b64decode(s + "=")) == 32 for s in secrets) and len(set(secrets)) == 5
    content = b"".join(path.read_bytes() for path in tmp_path.glob("ledger.db*"))
    assert not any(s.encode() in content for s in secrets)
    assert store.verify(texts[0]).tenant == "bob"


def test_limits_belong_to_the_tenant_and_stay(ledger: Ledger) -> None:
    store = KeyStore(ledger.database)
    store.add("bob", queries=10, epsilon=2.5)
    store.add("bob")
    assert ledger.account("tenant:bob", "queries").cap == 10
    assert ledger.account("tenant:bob").cap == to_units(2.5)
    store.add("eve")
    assert ledger.account("tenant:eve", "queries").cap == UNLIMITED
    assert ledger.account("tenant:eve").cap == 0  # no right to spend epsilon unless given


@pytest.mark.parametrize("name", ["owner", "Owner"])
def test_the_data_owner_is_no_tenant(ledger: Ledger, name: str) -> None:
    """What is recorded for the owner is held against no tenant's cap, so no key may carry that name."""
    with pytest.raises(InputError, match="data owner"):
        KeyStore(ledger.database).add(name)


@pytest.mark.parametrize("text", ["", "ev_", "ev_0123456789abcdef_" + "a" * 43, "x" * 500, "ev_é"])
def test_nonsense_is_unknown(ledger: Ledger, text: str) -> None:
    store = KeyStore(ledger.database)
    store.add("bob")
    with pytest.raises(Problem) as caught:
        store.verify(text)
    assert (caught.value.status, caught.value.code) == (401, "invalid_key")
    assert store.remembered(text) is None


def test_memory_is_short_and_revocation_clears_it(ledger: Ledger) -> None:
    store = KeyStore(ledger.database, memory=0.2)
    text, key = store.add("bob")
    assert store.remembered(text) is None
    store.verify(text)
    assert store.remembered(text) is not None
    elsewhere = KeyStore(ledger.database)
    elsewhere.revoke(key.id)
    time.sleep(0.25)
    assert store.remembered(text) is None
    with pytest.raises(Problem, match="revoked"):
        store.verify(text)
    other, key = store.add("bob")
    store.verify(other)
    store.revoke(key.id)
    assert store.remembered(other) is None
    with pytest.raises(InputError, match="no key"):
        store.revoke("missing")


def test_a_turned_back_clock_does_not_revive_a_key(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    store = KeyStore(ledger.database)
    text, _ = store.add("bob", days=1)
    store.verify(text)
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real + 2 * 86400)
    assert store.remembered(text) is None
    with pytest.raises(Problem, match="expired"):
        store.verify(text)
    with ledger.database.write() as connection:  # any write lets the ledger see the time
        ledger.database.now(connection, keep=True)
    monkeypatch.setattr(time, "time", lambda: real)
    with pytest.raises(Problem, match="expired"):
        store.verify(text)


@pytest.mark.parametrize(
    "bad", [{"role": "king"}, {"tenant": "a b"}, {"tenant": ""}, {"days": -1}, {"queries": -5}, {"epsilon": -1.0}]
)
def test_bad_requests_for_keys(ledger: Ledger, bad: dict[str, object]) -> None:
    with pytest.raises(InputError):
        KeyStore(ledger.database).add(**{"tenant": "bob", **bad})  # type: ignore[arg-type]
    assert KeyStore(ledger.database).list() == []


def test_roles(ledger: Ledger) -> None:
    store = KeyStore(ledger.database)
    allowed = {role: store.add("bob", role)[1] for role in ROLES}
    assert not allowed["query"].may("snapshot") and allowed["curate"].may("snapshot")
    assert not allowed["monitor"].may("predict") and allowed["admin"].may("admin")
    assert not allowed["curate"].may("admin")


def test_no_database_nobody_gets_in(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'k.db'}")
    store = KeyStore(database, memory=0.0)
    text, _ = store.add("bob")
    database.close()
    for extra in ("", "-wal", "-shm"):
        (tmp_path / f"k.db{extra}").unlink(missing_ok=True)
    (tmp_path / "k.db").write_bytes(b"junk" * 4096)
    with pytest.raises(LedgerUnavailable):
        store.verify(text)
