"""The bill of an edge set: the largest sum that any one of its edges has paid, under whatever names.

Within one name everything adds up: that an edge was missing from one of its graphs is a secret too. Across names the
sum is over the sets that hold the same edge. A *pattern* is a set of names that share at least one edge; the patterns
that occur are all that a bill needs, so that spending never has to read a million hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["BY_ROW", "LARGE", "UNKNOWN", "Bill", "Holding", "bills", "patterns_of"]

UNKNOWN = "unknown"  # nobody told the ledger all of these edges, or they have different kinds of name
LARGE = "large"  # too many edges to keep: every overlap is assumed
BY_ROW = "rows:"  # followed by the number of nodes, which are known by nothing but their row
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Bill:
    """Sums in units; `unbounded` names the edge set that no number bounds, and why."""

    epsilon: int = 0
    delta: int = 0
    unbounded: str = ""

    def __add__(self, other: Bill) -> Bill:
        return Bill(self.epsilon + other.epsilon, self.delta + other.delta, self.unbounded or other.unbounded)

    def worst(self, other: Bill) -> Bill:
        """The larger of each part."""
        return Bill(max(self.epsilon, other.epsilon), max(self.delta, other.delta), self.unbounded or other.unbounded)


@dataclass(frozen=True)
class Holding:
    """One edge set: what its nodes are known by, its own sums, and the sets its owner says share no edge with it.

    `identity` is ``ids``, ``rows:n`` (row numbers of n nodes), `UNKNOWN` (with ``:ids`` or ``:rows:n`` where some
    edges are held), `LARGE`, or empty before the first charge.
    """

    name: str
    identity: str
    own: Bill
    apart: frozenset[str] = frozenset()

    @property
    def comparable(self) -> bool:
        """Whether the ledger holds all of the edges themselves."""
        return self.identity != LARGE and not self.identity.startswith(UNKNOWN)

    def trusts(self, other: Holding) -> bool:
        """Whether the owner's word that two sets share no edge stands; too large a set is never taken on trust."""
        said = other.name in self.apart or self.name in other.apart
        return said and LARGE not in (self.identity, other.identity)


def bills(holdings: Iterable[Holding], patterns: Iterable[frozenset[str]]) -> dict[str, Bill]:
    """The bill of every edge set.

    Edges that can be compared are compared, whatever anybody says; edges that cannot are assumed to be the same,
    unless the owner said that they are not. Row numbers show that an edge is shared, never that it is not: the same
    people may stand in another order. A set of which only some edges are held is compared by these against the
    owner's word, and otherwise taken as unknown.
    """
    patterns = list(patterns)
    sets = {holding.name: _contradicted(holding, patterns) for holding in holdings}
    by_kind: dict[str, list[frozenset[str]]] = {}
    for pattern in (*patterns, *(frozenset({name}) for name in sets)):
        known = frozenset(name for name in pattern if name in sets and sets[name].comparable)
        if known:
            by_kind.setdefault(sets[next(iter(known))].identity, []).append(known)
    return {name: _bill(sets, holding, by_kind) for name, holding in sets.items()}


def _bill(sets: Mapping[str, Holding], holding: Holding, by_kind: Mapping[str, Sequence[frozenset[str]]]) -> Bill:
    if not holding.identity:  # nothing told, nothing to pay
        return holding.own
    total = Bill() if holding.comparable else holding.own
    for other in sets.values():
        if other.name != holding.name and not other.comparable and not holding.trusts(other):
            total += other.own
    for kind, found in by_kind.items():
        if kind == holding.identity:
            mine = [pattern for pattern in found if holding.name in pattern]
        else:
            mine = [pattern for pattern in found if not any(holding.trusts(sets[name]) for name in pattern)]
        doubted = _reordered(sets, holding, kind)
        total += _peak(sets, [pattern | doubted for pattern in mine] or [doubted])
    return total


def _contradicted(holding: Holding, patterns: Iterable[frozenset[str]]) -> Holding:
    """The owner's word without the sets that were seen to share an edge."""
    seen = frozenset[str]().union(*(pattern for pattern in patterns if holding.name in pattern))
    return replace(holding, apart=holding.apart - seen)


def _reordered(sets: Mapping[str, Holding], holding: Holding, kind: str) -> frozenset[str]:
    """The other sets of this kind that may hold the same edges in another order of rows, unless said to be apart."""
    if not kind.startswith(BY_ROW):
        return frozenset()
    others = (other for other in sets.values() if other.identity == kind and other.name != holding.name)
    return frozenset(other.name for other in others if not holding.trusts(other))


def _sum(sets: Mapping[str, Holding], names: Iterable[str]) -> Bill:
    return sum((sets[name].own for name in names), Bill())


def _peak(sets: Mapping[str, Holding], patterns: Iterable[frozenset[str]]) -> Bill:
    worst = Bill()
    for pattern in patterns:
        worst = worst.worst(_sum(sets, sorted(pattern)))
    return worst


def patterns_of(name: str, values: Hashes, others: Iterable[tuple[str, Hashes]]) -> set[frozenset[str]]:
    """The patterns of a set's edges, exactly: which other sets hold each of them (all arrays sorted)."""
    if not len(values):
        return set()
    kinds, code = [frozenset({name})], np.zeros(len(values), np.int64)
    for other, theirs in others:
        at = np.searchsorted(theirs, values)
        shared = (at < len(theirs)) & (theirs[np.minimum(at, len(theirs) - 1)] == values) if len(theirs) else None
        if shared is None or not shared.any():
            continue
        found, code = np.unique(2 * code + shared, return_inverse=True)
        kinds = [kinds[c // 2] | ({other} if c % 2 else set()) for c in found.tolist()]
    return set(kinds)
