"""The verdict in plain words: what leaks, what helps, what to do, and how far the evidence carries."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgeveil.audits.audit import MIN_EDGES
from edgeveil.audits.cells import Cell, label
from edgeveil.report.audit_data import AuditData
from edgeveil.report.figures import baselines, percent
from edgeveil.runs.rows import why_left_out

__all__ = ["best_defence", "sweet_spot", "verdict"]


def sweet_spot(cell: Cell, bare: Cell | None, mlp: Cell | None) -> bool:
    """Better than the MLP in utility and better than the undefended model in leakage (LPGNet section 5.3).

    A release whose epsilon is not for one undirected edge is not in the running.
    """
    if bare is None or mlp is None or cell.defence in ("none", "mlp") or not cell.comparable:
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
    if data.settings.get("existing"):
        return [*(_existing(cell, data) for cell in cells), *_caveats(data, cells)]
    bare, mlp = baselines(cells)
    people = f"{data.settings.get('nodes', data.graph.get('nodes', 0)):,}"
    lines = []
    if bare is not None:
        lines.append(f"Without a defence, your {bare.model.upper()} {_leak(bare, people)}")
    best = best_defence(cells)
    if best is not None and bare is not None and mlp is not None:
        share = best.utility / bare.utility if bare.utility else math.nan
        with_delta = f" and δ = {best.delta:g}" if best.delta else ""
        floor = f"features alone, without any edge, already give {percent(mlp.leakage)}"
        lines.append(
            f"{label(best.defence, None)} at ε = {best.epsilon:g}{with_delta} keeps {percent(share)} of the "
            f"{bare.model.upper()}'s utility and lets the same attackers find {percent(best.leakage)} of the edges "
            f"({floor})."
        )
    elif bare is not None and mlp is not None:
        lines.append(_nothing_helps(cells, bare, mlp))
    refuted = list(dict.fromkeys(label(c.defence, None) for c in cells if c.status == "refuted"))
    if refuted:
        lines.append(f"{', '.join(refuted)} claims a privacy guarantee that does not hold: do not rely on its ε.")
    others = {label(c.defence, None): c.unit for c in cells if not c.comparable}
    lines += [f"{name} is left out of the comparison: {why_left_out(unit)}." for name, unit in others.items()]
    lines += _caveats(data, cells)
    return lines


def _leak(cell: Cell, people: str) -> str:
    if cell.queries:
        does = f"asks {cell.queries:,.0f} {'query' if cell.queries == 1 else 'queries'}"
    else:  # exact influence stands for one query per node; the others compare features
        does = f"asks {people} queries" if cell.attack.startswith("linkteller") else "asks nothing, compares features"
    return (
        f"gives away {percent(cell.leakage)} of the edges among {people} nodes to someone who {does} and names as many "
        f"pairs as there are edges (attack: {cell.attack})."
    )


def _existing(cell: Cell, data: AuditData) -> str:
    """One model that was there already: nothing to compare it with."""
    name = "This model" if cell.defence == "unknown" else f"This release ({cell.label})"
    promise = "Its guarantee also bounds attacks that were not tried." if cell.status == "sound" else (
        "Its claimed guarantee is refuted." if cell.status == "refuted"
        else "It promises nothing: other attacks may find more."
    )  # fmt: skip
    if not cell.comparable:
        promise = f"Its guarantee is for {cell.unit}: it bounds no attack on whether an edge is there."
    return f"{name} {_leak(cell, format(data.settings['nodes'], ','))} {promise}"


def _nothing_helps(cells: Sequence[Cell], bare: Cell, mlp: Cell) -> str:
    if mlp.utility >= bare.utility:
        return (
            f"The MLP, which never reads an edge, is as useful ({mlp.utility:.3f} against {bare.utility:.3f}): "
            "do not use the graph."
        )
    if all(c.defence in ("none", "mlp") or c.status != "sound" or not c.comparable for c in cells):
        return "No defence with a sound guarantee for one undirected edge was tried."
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
    if runs < 3 and not data.settings.get("existing"):
        lines.append(
            f"Evidence is thin: {runs} run{'s' if runs != 1 else ''} per release. Repeat with --runs 5 before deciding."
        )
    edges = max((row.get("n_edges") or 0 for row in data.rows), default=0)
    if 0 < edges < MIN_EDGES:
        lines.append(f"Evidence is thin: only {edges} true edges among the attacked nodes. Attack more with --nodes.")
    if data.failures:
        lines.append(f"{len(data.failures)} part(s) of the audit failed and are missing from the figures.")
    return lines
