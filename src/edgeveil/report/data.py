"""Everything a report shows, as plain data: rows in the contract's schema plus the curves that rows cannot hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgeveil.errors import StorageError
from edgeveil.privacy.guarantee import ONE_EDGE
from edgeveil.runs.rows import comparable

__all__ = ["AuditData", "Cell", "label", "leakage", "read_audit", "summarise", "write_audit"]

Row = Mapping[str, Any]
FORMAT = 1
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


@dataclass(repr=False)
class AuditData:
    """One audit. Lists of plain dictionaries, so that it can be stored as JSON and drawn again later."""

    graph: dict[str, Any]
    rows: list[dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)
    guarantees: dict[str, str] = field(default_factory=dict)  # label -> statement
    roc: list[dict[str, Any]] = field(default_factory=list)  # label, attack, fpr[], tpr[]
    budget_curves: list[dict[str, Any]] = field(default_factory=list)  # label, queries, auc, precision
    by_degree: list[dict[str, Any]] = field(default_factory=list)  # label, bin, nodes, recall, utility
    exposure: list[dict[str, Any]] = field(default_factory=list)  # label, share of a node's edges found -> nodes
    verified: list[dict[str, Any]] = field(default_factory=list)  # defence, claimed, lower bound, verdict, precision
    heatmaps: list[dict[str, Any]] = field(default_factory=list)  # title, alpha[], delta[], values[][]
    homophily: list[dict[str, Any]] = field(default_factory=list)  # class, share
    citations: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what attacks and releases remarked

    def __repr__(self) -> str:
        return f"AuditData({self.graph['name']!r}: {len(summarise(self.rows))} releases, {len(self.rows):,} rows)"


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
    """Share of the true edges found when the attacker names as many pairs as there are edges."""
    value = row.get("recall")
    return math.nan if value is None else float(value)


def _mean(values: list[Any]) -> float:
    known = [float(v) for v in values if v is not None and not math.isnan(float(v))]
    return sum(known) / len(known) if known else math.nan


def summarise(rows: list[dict[str, Any]]) -> list[Cell]:
    """One cell per defence and epsilon, at belief k on the unconstrained subset, with the attack that finds most."""
    groups: dict[tuple[str, float | None, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("belief") in ("k", None) and row.get("degree") in ("unconstrained", None):
            groups.setdefault((row["defence"], row.get("epsilon"), row["model"]), []).append(row)
    return [_cell(*key, members) for key, members in groups.items()]


def _cell(defence: str, epsilon: float | None, model: str, members: list[dict[str, Any]]) -> Cell:
    by_attack: dict[str, list[dict[str, Any]]] = {}
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


def write_audit(data: AuditData, path: Path) -> None:
    """Store an audit as JSON beside its report."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"format": FORMAT, **asdict(data)}), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def read_audit(path: Path) -> AuditData:
    """Read what `write_audit` wrote."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.pop("format") != FORMAT:
            raise StorageError(f"{path} is an audit of another format; run the audit again with this version")
        return AuditData(**raw)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} is not a readable audit: {error}") from error
