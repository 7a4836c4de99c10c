"""Rows of an audit or a sweep, averaged per release: how useful it is, and what its strongest attack finds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgeveil.audits.gains import ALPHA, Gain, Spread
from edgeveil.defences.defence import face
from edgeveil.privacy.audit_bounds import clopper_pearson
from edgeveil.privacy.bounds import tpr_bound
from edgeveil.privacy.guarantee import ONE_EDGE
from edgeveil.runs.rows import comparable

__all__ = ["FALSE_ALARMS", "LEAKAGE_NOTE", "Cell", "label", "leakage", "summarise"]

Row = Mapping[str, Any]
LEAKAGE_NOTE = (
    "These rows were measured by an older version, without leakage; recall at belief k stands in for it, where the "
    "number of named pairs may differ from the number of edges by the rounding of the density."
)
FALSE_ALARMS = 0.01
UNKNOWN = "unknown"  # what rows call a model of which nothing is known


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
    edges: int = 0  # true edges among the attacked pairs, all attacked runs together
    weighted_error: float | None = None  # of the leakage, where pairs were weighted
    attacked: int = 1  # runs
    gain: Gain | None = None  # over what can be had without edges, with its noise
    spread: Spread | None = None  # the noise of its utility

    @property
    def edge_free(self) -> bool:
        """Whether no edge was read: a baseline, not a defence."""
        return self.status == "sound" and self.epsilon == 0

    @property
    def candidate(self) -> bool:
        """Whether it could be recommended: a sound, finite epsilon for one undirected edge."""
        finite = self.epsilon is not None and 0 < self.epsilon < math.inf
        return self.status == "sound" and self.comparable and finite

    @property
    def allowed(self) -> float:
        """Share of the edges that the guarantee lets an attacker find at 1 % false alarms, whatever the attack.

        For an edge that a coin decided (see `privacy.bounds`); 1 where nothing is promised for one edge.
        """
        if self.status != "sound" or not self.comparable or self.epsilon is None:
            return 1.0
        return tpr_bound(self.epsilon, FALSE_ALARMS, self.delta or 0.0)

    @property
    def leakage_error(self) -> float:
        """Standard error of the leakage over the true edges that were attacked; NaN where their number is unknown."""
        if self.weighted_error is not None:
            return self.weighted_error
        return math.sqrt(self.leakage * (1 - self.leakage) / self.edges) if self.edges else math.nan

    def leakage_interval(self, level: float = ALPHA) -> tuple[float, float]:
        """Clopper-Pearson over the true edges of one run: runs may attack the same edges, so they add none."""
        edges = round(self.edges / max(self.attacked, 1))
        if not edges or math.isnan(self.leakage):
            return math.nan, math.nan
        found = self.leakage * edges
        low, _ = clopper_pearson(math.floor(found + 1e-9), edges, level / 2)
        _, high = clopper_pearson(math.ceil(found - 1e-9), edges, level / 2)
        return low, high

    def utility_interval(self, level: float = ALPHA) -> tuple[float, float]:
        """NaN where one run, few test nodes or missing answers leave it unknown."""
        return (math.nan, math.nan) if self.spread is None else self.spread.interval(level)

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
    name = "this model" if defence == UNKNOWN else face(defence)[0]
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


def _error(errors: list[Any]) -> float | None:
    """Of the mean over runs, whose samples are drawn anew; None where pairs were not weighted."""
    known = [float(e) for e in errors if e is not None]
    return math.hypot(*known) / len(known) if known and len(known) == len(errors) else None


def summarise(rows: Sequence[Row]) -> list[Cell]:
    """One cell per defence and epsilon, at belief k on the unconstrained subset, with the attack that finds most."""
    groups: dict[tuple[str, float | None, str], list[Row]] = {}
    for row in rows:
        if row.get("belief") in ("k", None) and row.get("degree") in ("unconstrained", None):
            groups.setdefault((row["defence"], row.get("epsilon"), row["model"]), []).append(row)
    return [_cell(*key, members) for key, members in groups.items()]


def _cell(defence: str, epsilon: float | None, model: str, members: Sequence[Row]) -> Cell:
    by_attack: dict[str, list[Row]] = {}
    for row in members:  # runs that were added to judge the utility have no attack
        if row["attack"] is not None or not any(r["attack"] for r in members):
            by_attack.setdefault(row["attack"] or "", []).append(row)
    found = {attack: _mean([leakage(r) for r in part]) for attack, part in by_attack.items()}
    worst = max(found, key=lambda a: -1.0 if math.isnan(found[a]) else found[a])
    part = by_attack[worst]
    return Cell(
        defence=defence,
        epsilon=epsilon,
        model=model,
        status=str(members[0].get("status")),
        utility=_mean(list({r.get("seed"): r.get("utility") for r in members}.values())),
        leakage=found[worst],
        attack=worst,
        auc=_mean([r.get("auc") for r in part]),
        average_precision=_mean([r.get("average_precision") for r in part]),
        queries=_mean([r.get("queries") for r in part]),
        runs=len({r.get("seed") for r in members}),
        unit=str(members[0].get("unit") or ONE_EDGE),
        edges=sum(int(r.get("n_edges") or 0) for r in part),
        weighted_error=_error([r.get("leakage_error") for r in part]),
        attacked=len({r.get("seed") for r in part}),
        delta=max((r["delta"] for r in members if r.get("delta") is not None), default=None),
    )
