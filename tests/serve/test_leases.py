"""Leased quota: exact under concurrency, durable before use, lost rather than doubled by a crash."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from sqlalchemy import text

from edgeveil.errors import LedgerUnavailable
from edgeveil.serve.leases import Leases
from edgeveil.serve.problems import QuotaExceeded
from edgeveil.serve.server_ledger import Ledger, crash_share


async def take_all(leases: list[Leases], clients: int) -> int:
    """Concurrent clients over several processes' leases; returns how many got through."""
    answers = 0

    async def client(i: int) -> None:
        nonlocal answers
        try:
            while True:
                await leases[i % len(leases)].take("t")
                answers += 1
                await asyncio.sleep(0)
        except QuotaExceeded:
            pass

    await asyncio.gather(*(client(i) for i in range(clients)))
    return answers


@pytest.mark.parametrize("block", [1, 16, 1000])
def test_64_clients_get_exactly_the_limit(ledger: Ledger, block: int) -> None:
    ledger.open_account("tenant:t", "queries", 100)
    one = Leases(ledger, block=block)
    assert asyncio.run(take_all([one], 64)) == 100
    assert ledger.account("tenant:t", "queries").used == 100


def test_several_processes_share_a_limit(ledger: Ledger) -> None:
    ledger.open_account("tenant:t", "queries", 90)
    several = [Leases(ledger, block=8) for _ in range(4)]

    async def run() -> int:
        answers = await take_all(several, 64)
        held = sum(leases.held("t") for leases in several)
        assert answers + held == ledger.account("tenant:t", "queries").used <= 90
        for leases in several:
            await leases.close()
        return answers

    answers = asyncio.run(run())
    assert ledger.account("tenant:t", "queries").used == answers


def test_a_crash_loses_quota_and_never_grants_more(ledger: Ledger) -> None:
    ledger.open_account("tenant:t", "queries", 20)

    async def some(leases: Leases, count: int) -> None:
        for _ in range(count):
            await leases.take("t")

    asyncio.run(some(Leases(ledger, block=4), 3))  # dropped without close: as a kill does
    assert 3 <= ledger.account("tenant:t", "queries").used <= 20
    rest = asyncio.run(take_all([Leases(ledger, block=4)], 4))
    assert rest + 3 <= 20


def test_nodes_and_tenant_are_taken_together_or_not_at_all(ledger: Ledger) -> None:
    ledger.open_account("tenant:t", "queries", 100)
    leases = Leases(ledger, block=10, node_cap=3, node_block=2)
    nodes = np.array([1, 4])

    async def run() -> None:
        for _ in range(3):
            await leases.take("t", "r", nodes, 10)
        before = leases.held("t")
        with pytest.raises(QuotaExceeded, match="node 1"):
            await leases.take("t", "r", nodes, 10)
        assert leases.held("t") == before
        leases.undo("t", "r", nodes)
        await leases.take("t", "r", nodes, 10)
        await leases.take("t", "r", np.array([2]), 10)

    asyncio.run(run())


def test_other_tenants_do_not_pay(ledger: Ledger) -> None:
    ledger.open_account("tenant:a", "queries", 1)
    ledger.open_account("tenant:b", "queries", 1)
    leases = Leases(ledger, block=5)

    async def run() -> None:
        await leases.take("a")
        with pytest.raises(QuotaExceeded):
            await leases.take("a")
        await leases.take("b")

    asyncio.run(run())


def test_without_the_ledger_only_what_was_leased_is_answered(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.open_account("tenant:t", "queries", 1000)
    leases = Leases(ledger, block=8)

    def away(*_: object) -> int:
        raise LedgerUnavailable("away")

    async def run() -> int:
        await leases.take("t")
        monkeypatch.setattr(ledger, "lease", away)
        answered = 1
        with pytest.raises(LedgerUnavailable):
            while True:
                await leases.take("t")
                answered += 1
        return answered

    assert asyncio.run(run()) <= ledger.account("tenant:t", "queries").used <= 16


@pytest.mark.parametrize(("limit", "most"), [(10**9, 120), (100_000, 120)])
def test_a_busy_tenants_blocks_grow_within_the_share_a_crash_may_cost(ledger: Ledger, limit: int, most: int) -> None:
    ledger.open_account("tenant:t", "queries", limit)
    leases, held = Leases(ledger, block=32), []

    async def ask() -> None:
        for _ in range(20_000):
            await leases.take("t")
            held.append(leases.held("t"))

    asyncio.run(ask())
    assert max(held) <= crash_share(limit)
    with ledger.database.read() as connection:
        blocks = connection.execute(text("SELECT amount FROM leases WHERE amount > 0")).scalars().all()
    assert len(blocks) <= most and blocks[0] == 32  # 625 blocks of 32 otherwise
