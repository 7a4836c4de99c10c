"""Query quota in memory, backed by durable blocks: a request never waits for a disk flush while a block lasts.

Blocks are taken from the ledger before anything is answered from them, so a crash loses the rest of a block and never
grants more than was recorded. A process never holds more than a hundredth of a tenant's limit, or 16 queries if that is
more (`crash_share`). Within that, blocks grow for a tenant who uses them up in less than a second, so that a busy one
does not keep the disk busy too. At an orderly shutdown the rest of the tenants' blocks goes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
import threading
import time
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import LedgerUnavailable
from edgeveil.serve.problems import QuotaExceeded
from edgeveil.serve.server_ledger import Ledger

__all__ = ["Leases"]

Int = NDArray[np.int64]
_GROWTH = 64  # the largest block of a busy tenant, in first ones


class Leases:
    """This process's share of all query limits.

    `node_cap` limits the answers about each node under features that are not the stored ones, over all tenants
    together (LinkTeller App. E1); None means no such limit.
    """

    def __init__(self, ledger: Ledger, *, block: int = 256, node_cap: int | None = None, node_block: int = 8) -> None:
        self._ledger = ledger
        self._block = max(1, block)
        self.node_cap = node_cap
        self._node_block = max(1, node_block)
        self.worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._tenants: dict[str, int] = defaultdict(int)
        self._blocks: dict[str, int] = {}  # size of the latest block
        self._wanted: dict[str, tuple[int, float]] = {}  # what was asked for last, and when
        self._nodes: dict[str, Int] = {}
        self._memory = threading.Lock()
        self._refills: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._ahead: dict[str, asyncio.Task[None]] = {}

    async def take(self, tenant: str, scope: str = "", nodes: Int | None = None, num_nodes: int = 0) -> None:
        """Use one query of the tenant and, for changed features, one of every node answered; all or nothing."""
        counted = nodes if self.node_cap is not None and nodes is not None and len(nodes) else None
        while not self._try(tenant, scope, counted, num_nodes):
            async with self._refills[tenant]:
                if self._tenants[tenant] < 1:
                    await asyncio.to_thread(self._refill, tenant)
            if counted is not None:
                async with self._refills["\0nodes"]:
                    await asyncio.to_thread(self._refill_nodes, scope, counted, num_nodes)
        self._prefetch(tenant)

    def _try(self, tenant: str, scope: str, nodes: Int | None, num_nodes: int) -> bool:
        with self._memory:
            if self._tenants[tenant] < 1:
                return False
            if nodes is not None:
                held = self._nodes.setdefault(scope, np.zeros(num_nodes, np.int64))
                if (held[nodes] < 1).any():
                    return False
                held[nodes] -= 1
            self._tenants[tenant] -= 1
            return True

    def undo(self, tenant: str, scope: str = "", nodes: Int | None = None) -> None:
        """Put one query back because no answer left the server."""
        with self._memory:
            self._tenants[tenant] += 1
            if self.node_cap is not None and nodes is not None and len(nodes) and scope in self._nodes:
                self._nodes[scope][nodes] += 1

    def _refill(self, tenant: str) -> None:
        wanted, now = self._wanted.get(tenant, (self._block, -math.inf)), time.monotonic()
        amount = min(2 * wanted[0], _GROWTH * self._block) if now - wanted[1] < 1.0 else self._block
        self._wanted[tenant] = (amount, now)
        granted = self._ledger.lease(f"tenant:{tenant}", amount, self.worker, self._tenants[tenant])
        with self._memory:
            self._tenants[tenant] += granted
            self._blocks[tenant] = max(granted, 1)

    def _refill_nodes(self, scope: str, nodes: Int, num_nodes: int) -> None:
        assert self.node_cap is not None
        with self._memory:
            held = self._nodes.setdefault(scope, np.zeros(num_nodes, np.int64))
            short = nodes[held[nodes] < 1]
        if not len(short):
            return
        granted = self._ledger.lease_nodes(scope, short.tolist(), self._node_block, self.node_cap)
        with self._memory:
            held[short] += np.asarray(granted)

    def _prefetch(self, tenant: str) -> None:
        """Fetch the next block in the background when the present one runs low."""
        block = self._blocks.get(tenant, self._block)
        if block < 4 or self._tenants[tenant] * 4 > block or tenant in self._ahead:
            return
        task = asyncio.get_running_loop().create_task(self._fetch_ahead(tenant))
        self._ahead[tenant] = task
        task.add_done_callback(lambda _: self._ahead.pop(tenant, None))

    async def _fetch_ahead(self, tenant: str) -> None:
        async with self._refills[tenant]:
            with contextlib.suppress(QuotaExceeded, LedgerUnavailable):  # the next request meets the same error itself
                await asyncio.to_thread(self._refill, tenant)

    def held(self, tenant: str) -> int:
        """Unused queries of this process's block."""
        return self._tenants[tenant]

    async def close(self) -> None:
        """Return what is left of the tenants' blocks."""
        for task in list(self._ahead.values()):
            await task
        with self._memory:
            rest, self._tenants = dict(self._tenants), defaultdict(int)
        for tenant, amount in rest.items():
            with contextlib.suppress(LedgerUnavailable):
                await asyncio.to_thread(self._ledger.give_back, f"tenant:{tenant}", amount, self.worker)
