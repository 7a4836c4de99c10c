"""The verdict in plain words: what leaks, what helps, what to do, and how far the evidence carries."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgeveil.attacks.attack import ATTACKS, assumed_by
from edgeveil.audits.audit import MIN_EDGES
from edgeveil.audits.cells import Cell, label
from edgeveil.audits.gains import MIN_TEST
from edgeveil.report.audit_data import AuditData
from edgeveil.report.figures import percent
from edgeveil.report.judged import Baselines, baselines, best_defence, equal_leakage, sweet_spot
from edgeveil.runs.rows import why_left_out

__all__ = ["verdict", "why_nothing"]


def verdict(data: AuditData, cells: Sequence[Cell]) -> list[str]:
    """Sentences for the top of the report, most important first."""
    if data.settings.get("existing"):
        return [*(_existing(cell, data) for cell in cells), *_caveats(data, cells)]
    bare, _ = baselines(cells)
    people = f"{data.settings.get('nodes', data.graph.get('nodes', 0)):,}"
    lines = []
    if bare is not None:
        lines.append(f"Without a defence, your {bare.model.upper()} {_leak(bare, people)}{_reference(data)}")
    best = best_defence(cells)
    if best is not None and bare is not None:
        lines += _recommended(best, bare, cells, data)
    elif bare is not None:
        lines.append(why_nothing(cells))
    refuted = list(dict.fromkeys(label(c.defence, None) for c in cells if c.status == "refuted"))
    if refuted:
        lines.append(f"{', '.join(refuted)} claims a privacy guarantee that does not hold: do not rely on its ε.")
    others = {label(c.defence, None): c.unit for c in cells if not c.comparable}
    lines += [f"{name} is left out of the comparison: {why_left_out(unit)}." for name, unit in others.items()]
    lines += _caveats(data, cells)
    return lines


def _reference(data: AuditData) -> str:
    """What the leakage must be compared with."""
    known = Baselines(data)
    parts = [] if math.isnan(known.chance) else [f"guessing finds {100 * known.chance:.2g} %"]
    if not math.isnan(known.features_alone):
        parts.append(f"comparing features alone {percent(known.features_alone)}")
    if known.without > known.features_alone:
        parts.append(f"the same attackers without any edge {percent(known.without)}")
    return f" For comparison: {', '.join(parts)}." if parts else ""


def _recommended(best: Cell, bare: Cell, cells: Sequence[Cell], data: AuditData) -> list[str]:
    gain, known = best.gain, Baselines(data)
    assert gain is not None
    share = best.utility / bare.utility if bare.utility else math.nan
    with_delta = f" and δ = {best.delta:g}" if best.delta else ""
    majority = "" if math.isnan(known.majority) else f"; naming the largest class gives {known.majority:.3f}"
    lines = [
        f"{label(best.defence, None)} at ε = {best.epsilon:g}{with_delta} keeps {percent(share)} of the "
        f"{bare.model.upper()}'s utility and lets the same attackers find {percent(best.leakage)} of the edges. It is "
        f"{100 * gain.value:.1f} points better than {label(gain.against, None)} [{100 * gain.low:.1f}, "
        f"{100 * gain.high:.1f}], beyond the noise of {gain.runs} runs on {gain.nodes:,} test nodes{majority}."
    ]
    rivals = [c for c in cells if c != best and sweet_spot(c, bare) and equal_leakage(c, best)]
    tighter = min((c for c in rivals if (c.epsilon or 0) < (best.epsilon or 0)), key=lambda c: c.epsilon or 0,
                  default=None)  # fmt: skip
    if tighter is not None:
        lines.append(
            f"{tighter.label} leaks as much to these attacks, within the noise, and is less useful "
            f"({tighter.utility:.3f} against {best.utility:.3f}). Its guarantee separates them: at 1 % false alarms no "
            f"attack finds more than {percent(tighter.allowed, 1)} of the edges, against {percent(best.allowed, 1)}."
        )
    else:
        lines.append(
            f"Its ε lets no attack at all, tried or not, find more than {percent(best.allowed, 1)} of the edges at 1 % "
            "false alarms."
        )
    return lines


def _watches(attack: str) -> bool:
    return attack in ATTACKS and ATTACKS.get(attack).watches


def _leak(cell: Cell, people: str) -> str:
    if cell.queries:
        does = f"asks {cell.queries:,.0f} {'query' if cell.queries == 1 else 'queries'}"
    else:  # exact influence stands for one query per node; the others ask nothing
        does = f"asks {people} queries" if _watches(cell.attack) else assumed_by(cell.attack)
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
    return f"{name} {_leak(cell, format(data.settings['nodes'], ','))}{_reference(data)} {promise}"


def why_nothing(cells: Sequence[Cell]) -> str:
    """Why nothing is recommended; never more than was measured."""
    candidates = [c for c in cells if c.candidate]
    if not candidates:
        return "No defence with a sound guarantee for one undirected edge was measured: no release is recommended."
    known = [c.gain for c in candidates if c.gain is not None]
    if any(g.helps for g in known):
        return (
            "Some sound defences are more useful than anything without edges, but none leaks measurably less than the "
            "undefended model: no release is recommended."
        )
    if not known:
        return (
            "Nothing here says how sure the figures are (no MLP, or rows without answers per node): no release is "
            "recommended. Run the audit with the MLP among its defences."
        )
    if min(g.nodes for g in known) < MIN_TEST:
        return (
            f"Too few test nodes ({min(g.nodes for g in known)}, at least {MIN_TEST} are needed) to say whether the "
            "graph helps: no release is recommended."
        )
    if all(math.isnan(g.low) for g in known):
        return "One run cannot tell a gain from noise: no release is recommended. Allow more with --minutes or --runs."
    top = max(known, key=lambda g: g.value)
    return (
        f"There is no evidence that the graph helps under a sound defence: the best of them, "
        f"{label(top.defence, top.epsilon)}, differs from {label(top.against, None)} by {100 * top.value:+.1f} points "
        f"[{100 * top.low:.1f}, {100 * top.high:.1f}]. Release {label(top.against, None)}, which reads no edge, "
        "or spend a larger ε."
    )


def _caveats(data: AuditData, cells: Sequence[Cell]) -> list[str]:
    lines = []
    if data.graph.get("is_twin"):
        lines.append(
            "This is a synthetic twin of a real graph: read the ranking of the defences, not the exact figures."
        )
    if any(row.get("utility_metric") == "macro_f1" for row in data.rows):
        lines.append("The classes are imbalanced, so utility is macro-F1: every class counts the same.")
    runs = max((c.runs for c in cells), default=0)
    few = [c.gain.nodes for c in cells if c.gain is not None and c.gain.nodes < MIN_TEST]
    if runs < 3 and not few and not data.settings.get("existing"):
        lines.append(
            f"Evidence is thin: {runs} run{'s' if runs != 1 else ''} per release. Repeat with --runs 5 before deciding."
        )
    if data.settings.get("randomised"):
        lines.append(
            "The model answers the same question differently each time (randomised, or in training mode): an attacker "
            "averages, so these figures are too low. Switch it to evaluation mode and audit again."
        )
    if data.settings.get("stopped"):
        lines.append(data.settings["stopped"])
    edges = max((row.get("n_edges") or 0 for row in data.rows), default=0)
    if 0 < edges < MIN_EDGES:
        everyone = max((row.get("n_nodes") or 0 for row in data.rows), default=0) >= data.graph.get("nodes", math.inf)
        more = "The graph has no more." if everyone else "Attack more with --nodes."
        lines.append(f"Evidence is thin: only {edges} true edges among the attacked nodes. {more}")
    if data.failures:
        lines.append(f"{len(data.failures)} part(s) of the audit failed and are missing from the figures.")
    return lines
