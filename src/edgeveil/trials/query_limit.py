"""Picking the query limit Q on validation traffic (LinkTeller App. E1): what honest users need against what Bob gets.

The limit bounds queries with changed features. It is chosen on honest traffic alone; the leakage beside it is then
measured, not promised: an attacker with more accounts than expected gets more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError, StorageError
from edgeveil.graph.graph import Graph
from edgeveil.release.release import Release
from edgeveil.runs.measure import measure_target
from edgeveil.runs.run_config import AttackConfig
from edgeveil.runs.score import Given
from edgeveil.serve.config import GuardSettings
from edgeveil.serve.engine import Engine
from edgeveil.trials.guard_trial import Bench, GuardedTarget, Session

__all__ = ["LimitRow", "choose_limit", "demand_of", "leak_at", "limit_table", "read_demand"]

Int = NDArray[np.int64]
OFF = GuardSettings(action="off")


@dataclass(frozen=True)
class LimitRow:
    """One candidate Q: the share of honest queries it serves, and the F1 that attacks still reach."""

    limit: int
    served: float
    linkteller: float
    grouped: float


class _Limited(GuardedTarget):
    """Answers `limit` probes, then nothing new."""

    limit = 0

    def _answer(self, features: Any, nodes: Any, induced: bool) -> Any:
        if features is not None and self.answered >= self.limit:
            self.refused += 1
            return self._read(self._bench.engine.base)
        return super()._answer(features, nodes, induced)


def leak_at(
    release: Release, truth: Graph, nodes: Int, limits: Sequence[int], seed: int = 0
) -> dict[int, tuple[float, float]]:
    """F1 of linkteller and linkteller-grouped when only Q probes are answered, for every Q."""
    engine, out = Engine(release), {}
    for limit in limits:
        target = _Limited(Bench(release, OFF, engine), nodes)
        target.limit = limit
        grouped = GuardedTarget(Bench(release, OFF, engine), nodes)
        out[limit] = (
            _f1(target, truth, nodes, seed, "linkteller", mode="query"),
            _f1(grouped, truth, nodes, seed, "linkteller-grouped", queries=min(limit, len(nodes))),
        )
    return out


def _f1(target: GuardedTarget, truth: Graph, nodes: Int, seed: int, name: str, **params: Any) -> float:
    """F1 of an attack that names as many pairs as there are edges among them."""
    attack = AttackConfig(name=name, params=params, protocol="given", beliefs=("k",), seed=seed)
    row = measure_target(target, truth, (attack,), seed=seed, given=Given(nodes)).rows[0]
    if not row.n_edges or row.f1 is None:
        raise InputError("no true edge among the attacked nodes; choose more nodes")
    return row.f1


def demand_of(sessions: Iterable[Session]) -> Counter[str]:
    """Queries with own features per tenant, in made-up traffic."""
    return Counter({s.tenant: sum(q.features is not None for q in s.queries) for s in sessions})


def read_demand(path: Path) -> Counter[str]:
    """Queries with changed features per tenant, from an audit log."""
    found: Counter[str] = Counter()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # a line cut short by a crash
        if entry.get("event") == "request" and entry.get("route") == "/v1/predict" and entry.get("status") == 200:
            found[str(entry.get("tenant"))] += bool(entry.get("computed"))
    if not found:
        raise InputError(f"{path} holds no answered query; give the audit log of a server with honest traffic")
    return found


def served_share(demand: Mapping[str, int], limit: int) -> float:
    """Share of honest queries that a limit per tenant would have let through."""
    total = sum(demand.values())
    return 1.0 if total == 0 else sum(min(count, limit) for count in demand.values()) / total


def limit_table(demand: Mapping[str, int], leaks: Mapping[int, tuple[float, float]]) -> list[LimitRow]:
    """Both sides of every candidate."""
    return [LimitRow(q, served_share(demand, q), *leaks[q]) for q in sorted(leaks)]


def choose_limit(rows: Sequence[LimitRow], floor: float = 0.99) -> LimitRow:
    """The smallest Q that serves at least `floor` of honest queries."""
    good = [row for row in rows if row.served >= floor]
    if not good:
        raise InputError(
            f"no candidate limit serves {floor:.0%} of the honest queries; try larger limits or a lower floor"
        )
    return min(good, key=lambda row: row.limit)
