"""The commands that carry an audit's advice out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgeveil.audits.audit import AuditPlan
from edgeveil.audits.cells import Cell
from edgeveil.report.audit_data import AuditData
from edgeveil.report.judged import best_defence

__all__ = ["next_steps"]


def next_steps(data: AuditData, cells: Sequence[Cell]) -> list[str]:
    """Release what is recommended, else the best without edges, and serve it; nothing for an existing model."""
    source = data.settings.get("source")
    rivals = {c.gain.against for c in cells if c.gain is not None}
    known = [c for c in cells if c.edge_free and not math.isnan(c.utility)]
    best = best_defence(cells) or max(known, key=lambda c: (c.defence in rivals, c.utility), default=None)
    if not source or best is None or data.settings.get("existing"):
        return []
    how = f"--defence {best.defence}" + ("" if not best.epsilon else f" --epsilon {best.epsilon:g}")
    model = data.settings.get("model", AuditPlan.model)
    how += "" if best.defence == "mlp" or model == AuditPlan.model else f" --model {model}"
    return [f"edgeveil release {source} {how} --out my-release", "edgeveil serve my-release"]
