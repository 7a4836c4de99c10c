"""What the reader's sliders decide: the engine's rule as data, so that the page's script and Python choose alike.

The figures that a choice depends on are judged here once (`sweet`, `low`, `score`); what is left to the sliders is a
filter and an order. `choose` is that rule in Python, `choose` in page.js the same in the page; a test compares them on
every position.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from edgeveil.audits.cells import Cell
from edgeveil.report.audit_data import AuditData
from edgeveil.report.figures import percent
from edgeveil.report.judged import TWO_SIGMA, baselines, picked_level, recommended_score, sweet_spot
from edgeveil.report.verdict import why_nothing

__all__ = ["choose", "rule"]

Rule = Mapping[str, Any]
ANY = "any"


def rule(data: AuditData, cells: Sequence[Cell]) -> dict[str, Any]:
    """Releases with what is shown about them, the positions of both sliders, and the words."""
    bare, _ = baselines(cells)
    level = picked_level(data, cells)
    score = recommended_score(cells)
    releases = [_release(cell, bare, level, score(cell) if sweet_spot(cell, bare) else None) for cell in cells]
    candidates = [c for c in cells if c.candidate and not math.isnan(c.utility)]
    useful = [100 * c.utility for c in candidates]
    steps = range(math.floor(min(useful)), math.ceil(max(useful)) + 2) if useful else ()
    return {
        "releases": releases,
        "utilities": [[None, ANY], *([i / 100, f"{i / 100:.2f}"] for i in steps)],
        "epsilons": [*([e, f"{e:g}"] for e in sorted({c.epsilon or 0.0 for c in candidates})), [None, ANY]],
        "sigma": TWO_SIGMA,
        "nothing": "" if any(r["score"] is not None for r in releases) else why_nothing(cells),
    }


def _release(cell: Cell, bare: Cell | None, level: float, score: float | None) -> dict[str, Any]:
    low, high = cell.utility_interval()
    shown = cell.utility_interval(level)[0]
    least, most = cell.leakage_interval()
    utility = f"{cell.utility:.3f}" + ("" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]")
    leaks = percent(cell.leakage, 1) + ("" if math.isnan(least) else f" [{100 * least:.1f}, {100 * most:.1f}]")
    kept = percent(cell.utility / bare.utility) if bare is not None and bare.utility else "–"
    model = "undefended model" if bare is None else bare.model.upper()
    delta = f", δ = {cell.delta:g}" if cell.delta else ""
    return {
        "label": cell.label, "defence": cell.defence, "epsilon": _known(cell.epsilon), "score": score,
        "utility": _known(cell.utility), "low": _known(shown), "leakage": _known(cell.leakage),
        "error": _known(cell.leakage_error),
        "tip": [
            f"utility {utility}" if not math.isnan(cell.utility) else "utility not measured",
            f"edges found {leaks} by {cell.attack or 'no attack'}",
            f"guarantee {cell.promise}{delta}; ε allows {percent(cell.allowed, 1)}",
        ],
        "words": f"keeps {kept} of the {model}'s utility, {utility}, and lets the strongest attack tried find "
        f"{percent(cell.leakage)} of the edges; its ε lets no attack find more than {percent(cell.allowed, 1)}",
        "reaches": f"{cell.label} comes closest: {cell.utility:.3f}, of which {shown:.3f} is shown",
    }  # fmt: skip


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def choose(rule: Rule, utility: int, epsilon: int) -> tuple[str | None, str]:
    """The recommended release and the sentence, at these positions of the two sliders."""
    (floor, floor_text), (cap, cap_text) = rule["utilities"][utility], rule["epsilons"][epsilon]
    sweet = [r for r in rule["releases"] if r["score"] is not None]
    if not sweet:
        return None, f"No release is recommended. {rule['nothing']}"
    tight = [r for r in sweet if cap is None or r["epsilon"] <= cap]
    if not tight:
        return None, f"No release is recommended: none that is shown to help has ε at most {cap_text}."
    good = [r for r in tight if floor is None or (r["low"] is not None and r["low"] >= floor)]
    if not good:
        near = max(tight, key=lambda r: -1.0 if r["low"] is None else r["low"])
        within = "" if cap is None else f" with ε at most {cap_text}"
        return None, (
            f"No release is recommended: none{within} is shown to reach a utility of {floor_text}. {near['reaches']}."
        )
    ranked = sorted(good, key=lambda r: -r["score"])
    equal = [r for r in ranked if _equal(r, ranked[0], rule["sigma"])]
    best = max(equal, key=lambda r: (r["utility"], -r["epsilon"]))
    others = [r["label"] for r in ranked if r is not best]
    after = f" After it: {', '.join(others)}." if others else ""
    return best["label"], f"{best['label']} {best['words']}.{after}"


def _equal(one: Rule, other: Rule, sigma: float) -> bool:
    """Leakages within the noise; unknown errors separate nothing."""
    if one["error"] is None or other["error"] is None:
        return True
    return bool(not abs(one["leakage"] - other["leakage"]) > sigma * math.hypot(one["error"], other["error"]))
