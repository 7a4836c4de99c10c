"""What the strongest attack proves about a release: coins decide planted edges, one training, guesses, a bound.

Coins take homophily away: nothing but the release can tell how they fell. So the bound is about the release alone, it
holds with the stated confidence, and it says how much of epsilon an attacker of today can use.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from edgeveil.audits.audit import AuditPlan
from edgeveil.audits.verify_model import verify_through
from edgeveil.errors import EdgeveilError
from edgeveil.graph.graph import Graph
from edgeveil.runs.records import Record
from edgeveil.runs.rows import comparable

__all__ = ["COINS", "coin_bounds"]

COINS = 1000
FEWEST = 50
CONFIDENCE = 0.95


def coin_bounds(
    plan: AuditPlan, graph: Graph, records: Sequence[Record], coins: int, seconds: float | None = None
) -> list[dict[str, Any]]:
    """One entry per release with a sound finite epsilon for one edge; `seconds` bounds the work, None does not.

    What does not fit into the time is listed with ``lower`` None. The largest epsilon comes first: there is most to
    prove.
    """
    many = min(coins, graph.num_nodes // 3)
    if many < FEWEST:
        return []
    started, out = time.monotonic(), []
    for row, took in sorted(_claims(records), key=lambda c: -c[0]["epsilon"]):
        left = None if seconds is None else seconds - (time.monotonic() - started)
        entry: dict[str, Any] = {"defence": row["defence"], "epsilon": row["epsilon"], "coins": many, "lower": None}
        if left is None or 2 * took < left:
            entry |= _bound(plan, graph, row, many)
        out.append(entry)
    return out


def _claims(records: Sequence[Record]) -> list[tuple[Mapping[str, Any], float]]:
    """First row of every release whose epsilon can be bounded, with what its training took."""
    found: dict[tuple[str, float], tuple[Mapping[str, Any], float]] = {}
    for record in records:
        row, epsilon = record.rows[0], record.config.get("epsilon")
        if row.get("status") == "sound" and comparable(row) and row.get("epsilon") and epsilon == row["epsilon"]:
            found.setdefault((row["defence"], epsilon), (row, float(row.get("seconds_train") or 0.0)))
    return list(found.values())


def _bound(plan: AuditPlan, graph: Graph, row: Mapping[str, Any], coins: int) -> dict[str, Any]:
    share = 0.9 if row["epsilon"] >= 6 else 0.6 if row["epsilon"] >= 3 else 0.3  # weak claims: only sure guesses
    try:
        found = verify_through(
            graph, row["defence"], epsilon=row["epsilon"], model=plan.model, attack_name=None, canaries=coins,
            guesses=int(share * coins), confidence=CONFIDENCE, seed=plan.seed, params=plan.params,
        )  # fmt: skip
    except EdgeveilError as error:
        return {"failed": str(error)}
    finding = found.findings[0]
    return {"lower": finding.lower_bound, "ceiling": finding.ceiling, "detail": finding.detail, "attack": finding.test}
