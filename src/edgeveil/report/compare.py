"""Two audits side by side, before and after a change of model, data or ε: what moved beyond the noise.

The audits are taken as independent, which is cautious where they share nodes. Every interval of a difference leaves an
error of 5 % divided by the number of differences; what has no interval is unknown, never unmoved.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeveil.audits.cells import Cell, label
from edgeveil.audits.gains import ALPHA
from edgeveil.report.audit_data import AuditData
from edgeveil.report.judged import baselines, best_defence, judged, sweet_spot
from edgeveil.report.moves_plot import moves_plot
from edgeveil.report.page import read_part, template, write_page
from edgeveil.report.verdict import why_nothing

__all__ = ["Change", "Comparison", "Move", "compare", "write_comparison"]

SHOWN = (("utility", 1), ("edges found", 5))  # where each begins in a line of the table


@dataclass(frozen=True)
class Change:
    """One figure before and after, with the interval of the difference; NaN bounds are unknown."""

    before: float
    after: float
    low: float
    high: float

    @property
    def moved(self) -> str:
        """``rose``, ``fell``, ``inside the noise`` or ``unknown``."""
        if math.isnan(self.low):
            return "unknown"
        return "rose" if self.low > 0 else "fell" if self.high < 0 else "inside the noise"

    @property
    def beyond(self) -> bool:
        """Whether it moved beyond the noise."""
        return self.moved in ("rose", "fell")

    def points(self) -> str:
        """``-3.1 [-5.2, -1.0]`` in points."""
        bounds = "" if math.isnan(self.low) else f" [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"
        return f"{100 * (self.after - self.before):+.1f}{bounds}"


@dataclass(frozen=True)
class Move:
    """One release that both audits have."""

    before: Cell
    after: Cell
    utility: Change
    leakage: Change

    def sentence(self) -> str:
        """What moved, or why that is not known."""
        said = [
            f"{name} {change.moved} by {change.points().lstrip('+-')} points"
            for name, change in (("utility", self.utility), ("leakage", self.leakage)) if change.beyond
        ]  # fmt: skip
        if self.before.promise != self.after.promise or self.before.delta != self.after.delta:
            said.append(f"its guarantee was {_promise(self.before)} and is {_promise(self.after)}")
        return f"{self.after.label}: {'; '.join(said)}." if said else ""


@dataclass(frozen=True)
class Comparison:
    """Everything that two audits say about each other."""

    before: AuditData
    after: AuditData
    moves: Sequence[Move]
    sentences: Sequence[str]


def compare(before: AuditData, after: AuditData) -> Comparison:
    """Match releases by defence and ε, whatever the model, and judge every difference."""
    one, other = judged(before), judged(after)
    known = {(c.defence, c.epsilon): c for c in one}
    pairs = [(known[c.defence, c.epsilon], c) for c in other if (c.defence, c.epsilon) in known]
    level = ALPHA / max(2 * len(pairs), 1)
    moves = [
        Move(a, b, _utility(a, b, level), _leakage(a, b, level) if _alike(before, after, a, b) else _unknown(a, b))
        for a, b in pairs
    ]
    said = [_recommended(one, other), *filter(None, (m.sentence() for m in moves)), *_quiet(moves)]
    said += _alone(one, other, "before") + _alone(other, one, "after") + _settings(before, after)
    return Comparison(before, after, moves, said)


def _utility(a: Cell, b: Cell, level: float) -> Change:
    half = math.hypot(*(math.nan if c.spread is None else c.utility - c.utility_interval(level)[0] for c in (a, b)))
    return Change(a.utility, b.utility, b.utility - a.utility - half, b.utility - a.utility + half)


def _alike(before: AuditData, after: AuditData, a: Cell, b: Cell) -> bool:
    """Whether the leakages speak of the release: of one model, both strongest attacks must have been tried twice."""
    tried = [{row["attack"] for row in data.rows if row["defence"] == a.defence} for data in (before, after)]
    return a.model != b.model or {a.attack, b.attack} <= (tried[0] & tried[1]) or not (a.attack and b.attack)


def _unknown(a: Cell, b: Cell) -> Change:
    return Change(a.leakage, b.leakage, math.nan, math.nan)


def _leakage(a: Cell, b: Cell, level: float) -> Change:
    """Newcombe's interval for a difference of shares, from the two Clopper-Pearson intervals."""
    (a_low, a_high), (b_low, b_high) = a.leakage_interval(level), b.leakage_interval(level)
    d = b.leakage - a.leakage
    low = d - math.hypot(b.leakage - b_low, a_high - a.leakage)
    return Change(a.leakage, b.leakage, low, d + math.hypot(b_high - b.leakage, a.leakage - a_low))


def _promise(cell: Cell) -> str:
    return f"{cell.promise}, δ = {cell.delta:g}" if cell.delta else cell.promise


def _recommended(one: Sequence[Cell], other: Sequence[Cell]) -> str:
    was, now = best_defence(one), best_defence(other)
    if was is None or now is None:
        first = "Before, no release was recommended" if was is None else f"Before, {was.label} was recommended"
        why = f"none is after the change: {why_nothing(other)}" if now is None else f"after the change {now.label} is."
        return f"{first}; {why}"
    if was.label == now.label:
        return f"Both audits recommend {now.label}."
    still = next((c for c in other if (c.defence, c.epsilon) == (was.defence, was.epsilon)), None)
    if still is None:
        rest = f"the second audit did not try {was.label}"
    elif sweet_spot(still, baselines(other)[0]):
        rest = f"{was.label} is still in the sweet spot, so which of the two comes first may be noise"
    else:
        rest = f"{was.label} is no longer in the sweet spot"
    return f"Before, {was.label} was recommended, after the change {now.label}; {rest}."


def _quiet(moves: Sequence[Move]) -> list[str]:
    still = [m for m in moves if not m.sentence()]
    unknown = [m.after.label for m in moves if "unknown" in (m.utility.moved, m.leakage.moved)]
    lines = [f"Inside the noise, or unknown: {', '.join(m.after.label for m in still)}."] if still else []
    if unknown:
        lines.append(
            f"Not known well enough to compare in full: {', '.join(unknown)}. Two runs or more and attacked edges in "
            "both audits give every figure an interval."
        )
    return lines


def _alone(these: Sequence[Cell], those: Sequence[Cell], when: str) -> list[str]:
    known = {(c.defence, c.epsilon) for c in those}
    names = [label(c.defence, c.epsilon) for c in these if (c.defence, c.epsilon) not in known]
    return [f"Only {when} the change: {', '.join(names)}."] if names else []


def _settings(before: AuditData, after: AuditData) -> list[str]:
    """What else differs, so that nobody takes it for the change."""
    lines = []
    for name in ("name", "nodes", "edges", "features", "classes"):
        if before.graph.get(name) != after.graph.get(name):
            lines.append(f"graph {name} {before.graph.get(name)} → {after.graph.get(name)}")
    were, are = (sorted({row["attack"] for row in data.rows if row["attack"]}) for data in (before, after))
    if were != are:
        lines.append(f"attacks {', '.join(were)} → {', '.join(are)}")
    for name in ("model", "nodes", "source", "versions"):
        was, now = before.settings.get(name), after.settings.get(name)
        if was != now:
            lines.append(f"{'attacked nodes' if name == 'nodes' else name} {was} → {now}")
    return [f"What differs: {'; '.join(lines)}."] if lines else []


def table(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """Titles and cells, one line per release that both audits have."""
    head = ["release", "utility before", "after", "change, points", "", "found before", "after", "change, points", ""]
    body = []
    for m in found.moves:
        used, leaks = m.utility, m.leakage
        body.append([
            m.after.label, _share(used.before), _share(used.after), used.points(), used.moved, _share(leaks.before),
            _share(leaks.after), leaks.points(), leaks.moved,
        ])  # fmt: skip
    return head, body


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def write_comparison(found: Comparison, path: Path) -> Path:
    """One HTML file of the same kind as the report."""
    head, body = table(found)
    releases = [
        {
            "label": m.after.label,
            "defence": m.after.defence,
            "tip": [f"{what} {row[i]} → {row[i + 1]}: {row[i + 2]}, {row[i + 3]}" for what, i in SHOWN],
        }
        for m, row in zip(found.moves, body, strict=True)
    ]
    values: dict[str, Any] = {
        "found": found,
        "head": head,
        "rows": list(zip(found.moves, body, strict=True)),
        "plot": moves_plot(found.moves),
        "rule": json.dumps({"releases": releases}, ensure_ascii=False).replace("<", "\\u003c"),
        "script": read_part("page.js"),
    }
    return write_page(template("comparison.html.j2").render(**values), path)
