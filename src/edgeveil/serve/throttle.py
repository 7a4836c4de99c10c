"""A limit on failed keys, per address, per network and per key id, checked before the ledger is asked."""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from edgeveil.serve.problems import Problem

__all__ = ["Throttle", "client_address"]

_REMEMBERED = 20_000


def client_address(scope: Mapping[str, Any], trusted: frozenset[str]) -> str:
    """The client's address; from a trusted proxy, the last address of X-Forwarded-For that is no trusted proxy."""
    found = str((scope.get("client") or ("",))[0])
    if found not in trusted:
        return found
    given = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
    hops = [hop.strip() for hop in given.decode("latin-1").split(",")]
    return next((hop for hop in reversed(hops) if hop and hop not in trusted), found)


def _network(address: str) -> str:
    """The block of addresses that one client can easily hold: /24, or /56 for IPv6."""
    try:
        size = 24 if ipaddress.ip_address(address).version == 4 else 56
        return str(ipaddress.ip_network(f"{address}/{size}", strict=False))
    except ValueError:
        return address


class Throttle:
    """Buckets of `burst` failures that empty at `rate` per second; a network may fail four times as often.

    A key that once came from an address with success is never shut out there by others who guess at it.
    """

    def __init__(self, burst: int = 20, rate: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._rate, self._clock = burst, rate, clock
        self._levels: dict[str, tuple[float, float]] = {}  # name: (failures, at)
        self._good: dict[tuple[str, str], None] = {}

    def check(self, address: str, key_id: str) -> None:
        """Raise a 429 if one of the buckets is full."""
        waits = [self._wait(name, size) for name, size in self._names(address, key_id)]
        if max(waits) > 0:
            raise Problem(
                429, "too_many_failures", "too many failed keys; try again later", retry_after=math.ceil(max(waits))
            )

    def failed(self, address: str, key_id: str) -> None:
        """Count one failure."""
        now = self._clock()
        for name, _ in self._names(address, key_id):
            level = self._level(name, now) + 1
            self._levels.pop(name, None)
            self._levels[name] = (level, now)
        while len(self._levels) > _REMEMBERED:
            del self._levels[next(iter(self._levels))]

    def succeeded(self, address: str, key_id: str) -> None:
        """Remember that a key belongs to an address."""
        self._good.pop((key_id, address), None)
        self._good[key_id, address] = None
        while len(self._good) > _REMEMBERED:
            del self._good[next(iter(self._good))]

    def _names(self, address: str, key_id: str) -> Iterable[tuple[str, int]]:
        if (key_id, address) in self._good:
            return ((f"own {key_id} {address}", self._burst),)
        names = [(f"address {address}", self._burst), (f"network {_network(address)}", 4 * self._burst)]
        return [*names, (f"key {key_id}", self._burst)] if key_id else names

    def _level(self, name: str, now: float) -> float:
        level, at = self._levels.get(name, (0.0, now))
        return max(0.0, level - self._rate * (now - at))

    def _wait(self, name: str, size: int) -> float:
        over = self._level(name, self._clock()) + 1 - size
        return max(0.0, over / self._rate)
