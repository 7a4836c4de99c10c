"""Rows of an audit or a sweep, averaged per release: how useful it is, and what its strongest attack finds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgeveil.privacy.guarantee import ONE_EDGE
from edgeveil.runs.rows import comparable

__all__ = ["LEAKAGE_NOTE", "Cell", "label", "leakage", "summarise"]

Row = Mapping[str, Any]
LEAKAGE_NOTE = (
    "These rows were measured by an older version, without leakage; recall at belief k stands in for it, where the "
    "number of named pairs may differ from the number of edges by the rounding of the density."
)
NAMES = {
    "none": "no defence",
    "mlp": "MLP (no graph)",
    "edgerand": "EdgeRand",
    "lapgraph": "LapGraph",
    "graphprivatizer": "GraphPrivatizer",
    "gp-t": "GP-t",
    "gp-m": "GP-m",
    "gp-sound": "GP-sound",
    "gp-edge": "GP-edge",
    "rr": "2-hop RR",
    "lpgnn": "LPGNN",
    "unknown": "this model",
}


@dataclass(frozen=True)
class Cell:
    """One release (defence and epsilon) averaged over its runs, with its strongest attack."""

    defence: str
    epsilon: float | None
    model: str
    status: str
    utility: float
    leakage: float
    attack: str
    auc: float
    average_precision: float
    queries: float
    runs: int
    delta: float | None = None
    unit: str = ONE_EDGE

    @property
    def comparable(self) -> bool:
        """Whether its epsilon may be ranked with others."""
        return comparable({"status": self.status, "unit": self.unit})

    @property
    def promise(self) -> str:
        """Status for a table; a sound promise in another unit says so."""
        return self.status if self.comparable else f"{self.status}, not for one edge"

    @property
    def label(self) -> str:
        """Short name with epsilon, unique in one audit."""
        return label(self.defence, self.epsilon)


def label(defence: str, epsilon: float | None) -> str:
    """``LPGNet-2 ε=4``; the name alone when there is no epsilon."""
    name = NAMES.get(defence, defence.replace("lpgnet", "LPGNet"))
    return name if not epsilon or math.isinf(epsilon) else f"{name} ε={epsilon:g}"


def leakage(row: Row) -> float:
    """Share of the true edges found when the attacker names as many pairs as there are edges.

    Rows of older versions have no such column; their recall at belief k stands in (see `LEAKAGE_NOTE`).
    """
    value = row.get("leakage")
    value = row.get("recall") if value is None else value
    return math.nan if value is None else float(value)


def _mean(values: list[Any]) -> float:
    known = [float(v) for v in values if v is not None and not math.isnan(float(v))]
    return sum(known) / len(known) if known else math.nan


def summarise(rows: Sequence[Row]) -> list[Cell]:
    """One cell per defence and epsilon, at belief k on the unconstrained subset, with the attack that finds most."""
    groups: dict[tuple[str, float | None, str], list[Row]] = {}
    for row in rows:
        if row.get("belief") in ("k", None) and row.get("degree") in ("unconstrained", None):
            groups.setdefault((row["defence"], row.get("epsilon"), row["model"]), []).append(row)
    return [_cell(*key, members) for key, members in groups.items()]


def _cell(defence: str, epsilon: float | None, model: str, members: Sequence[Row]) -> Cell:
    by_attack: dict[str, list[Row]] = {}
    for row in members:
        by_attack.setdefault(row["attack"], []).append(row)
    found = {attack: _mean([leakage(r) for r in part]) for attack, part in by_attack.items()}
    worst = max(found, key=lambda a: -1.0 if math.isnan(found[a]) else found[a])
    part = by_attack[worst]
    return Cell(
        defence=defence,
        epsilon=epsilon,
        model=model,
        status=str(members[0].get("status")),
        utility=_mean([r.get("utility") for r in members]),
        leakage=found[worst],
        attack=worst,
        auc=_mean([r.get("auc") for r in part]),
        average_precision=_mean([r.get("average_precision") for r in part]),
        queries=_mean([r.get("queries") for r in part]),
        runs=len({r.get("seed") for r in members}),
        unit=str(members[0].get("unit") or ONE_EDGE),
        delta=max((r["delta"] for r in members if r.get("delta") is not None), default=None),
    )
