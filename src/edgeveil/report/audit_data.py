"""Everything a report shows, as plain data: rows in the contract's schema plus the curves that rows cannot hold."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgeveil.audits.cells import summarise
from edgeveil.errors import StorageError

__all__ = ["AuditData", "read_audit", "write_audit"]

FORMAT = 1


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
    gains: list[dict[str, Any]] = field(default_factory=list)  # defence, epsilon, gain over edge-free, its interval
    spreads: list[dict[str, Any]] = field(default_factory=list)  # defence, epsilon, utility, parts of its error
    baselines: dict[str, Any] = field(default_factory=dict)  # mlp, mlp_low, mlp_high
    reliability: list[dict[str, Any]] = field(default_factory=list)  # label, attack, bins of said and true shares
    coins: list[dict[str, Any]] = field(default_factory=list)  # defence, epsilon, lower bound by the strongest attack

    def __repr__(self) -> str:
        return f"AuditData({self.graph['name']!r}: {len(summarise(self.rows))} releases, {len(self.rows):,} rows)"


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
