"""The verdict in plain words: what leaks, what helps, what to do, and how far the evidence carries."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgeveil.report.data import AuditData, Cell, label
from edgeveil.report.figures import baselines, percent

__all__ = ["best_defence", "sweet_spot", "verdict"]


def sweet_spot(cell: Cell, bare: Cell | None, mlp: Cell | None) -> bool:
    """Better than the MLP in utility and better than the undefended model in leakage (LPGNet section 5.3)."""
    if bare is None or mlp is None or cell.defence in ("none", "mlp"):
        return False
    return cell.utility > mlp.utility and cell.leakage < bare.leakage


def best_defence(cells: Sequence[Cell]) -> Cell | None:
    """The sound release in the sweet spot that hides most of what is not already given away by features."""
    bare, mlp = baselines(cells)
    good = [c for c in cells if c.status == "sound" and sweet_spot(c, bare, mlp)]
    if not good or bare is None or mlp is None:
        return None
    gain = bare.utility - mlp.utility
    loss = bare.leakage - mlp.leakage

    def score(cell: Cell) -> float:
        kept = (cell.utility - mlp.utility) / gain if gain > 0 else 0.0
        hidden = (bare.leakage - cell.leakage) / loss if loss > 0 else 0.0
        return min(kept, 1.0) + min(hidden, 1.0)

    return max(good, key=score)


def verdict(data: AuditData, cells: Sequence[Cell]) -> list[str]:
    """Sentences for the top of the report, most important first."""
    bare, mlp = baselines(cells)
    people = f"{data.settings.get('nodes', data.graph.get('nodes', 0)):,}"
    lines = []
    if bare is not None:
        lines.append(_leak(bare, people, data))
    best = best_defence(cells)
    if best is not None and bare is not None and mlp is not None:
        share = best.utility / bare.utility if bare.utility else math.nan
        floor = f"features alone, without any edge, already give {percent(mlp.leakage)}"
        lines.append(
            f"{label(best.defence, None)} at ε = {best.epsilon:g} keeps {percent(share)} of its utility and lets the "
            f"same attackers find {percent(best.leakage)} of the edges ({floor})."
        )
    elif bare is not None and mlp is not None:
        lines.append(_nothing_helps(cells, bare, mlp))
    refuted = list(dict.fromkeys(label(c.defence, None) for c in cells if c.status == "refuted"))
    if refuted:
        lines.append(f"{', '.join(refuted)} claims a privacy guarantee that does not hold: do not rely on its ε.")
    lines += _caveats(data, cells)
    return lines


def _leak(bare: Cell, people: str, data: AuditData) -> str:
    queries = f"{bare.queries:,.0f} queries" if bare.queries else f"{people} queries"
    return (
        f"Without a defence, your {bare.model.upper()} gives away {percent(bare.leakage)} of the edges among {people} "
        f"nodes to someone who asks {queries} and names as many pairs as there are edges (attack: {bare.attack})."
    )


def _nothing_helps(cells: Sequence[Cell], bare: Cell, mlp: Cell) -> str:
    if mlp.utility >= bare.utility:
        return (
            f"The MLP, which never reads an edge, is as useful ({mlp.utility:.3f} against {bare.utility:.3f}): "
            "do not use the graph."
        )
    if all(c.defence in ("none", "mlp") or c.status != "sound" for c in cells):
        return "No defence with a sound guarantee was tried."
    return (
        "No sound defence tried here is both more useful than the MLP and more private than the undefended model: "
        "do not use the graph at these ε, or spend a larger one."
    )


def _caveats(data: AuditData, cells: Sequence[Cell]) -> list[str]:
    lines = []
    if data.graph.get("is_twin"):
        lines.append(
            "This is a synthetic twin of a real graph: read the ranking of the defences, not the exact figures."
        )
    runs = max((c.runs for c in cells), default=0)
    if runs < 3:
        lines.append(
            f"Evidence is thin: {runs} run{'s' if runs != 1 else ''} per release. Repeat with --runs 5 before deciding."
        )
    if data.failures:
        lines.append(f"{len(data.failures)} part(s) of the audit failed and are missing from the figures.")
    return lines
