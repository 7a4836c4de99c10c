"""LPGNet's GCN and DPGCN on Twitch with two and with three layers, against the print: why the recipe has three."""

from __future__ import annotations

import math
from collections.abc import Iterator

from edgeveil.papers.agreement import Comparison, compare_summary
from edgeveil.papers.judge import ROUNDED, judged_table
from edgeveil.papers.samples import cell_key, measured

__all__ = ["TWO_LAYERS", "depth_table"]

TWO_LAYERS = "two-layers"  # kept figures of the recipe before: hidden 256, dropout 0.5, ten seeds
TABLES = ("12", "13", "14", "15", "16", "19", "20", "21", "22", "23", "24")
KINDS = {"": "F1", "linkteller": "LinkTeller"}  # LPA on two classes is rounding noise


def depth_table() -> str:
    """Per graph: how many figures agree, and the mean distance from the print, by depth."""
    head = [f"{kind}: {depth} layers" for kind in KINDS.values() for depth in ("two", "three")]
    lines = [f"| graph | {' | '.join(head)} |", f"| --- |{' --- |' * len(head)}"]
    found: dict[str, dict[tuple[str, int], list[Comparison]]] = {}
    for graph, kind, two, three in _pairs():
        own = found.setdefault(graph, {})
        own.setdefault((kind, 2), []).append(two)
        own.setdefault((kind, 3), []).append(three)
    for graph, own in sorted(found.items()):
        cells = [_said(own.get((kind, depth), [])) for kind in KINDS.values() for depth in (2, 3)]
        lines.append(f"| {graph} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _pairs() -> Iterator[tuple[str, str, Comparison, Comparison]]:
    for table in TABLES:
        for judged in judged_table("lpgnet", table).cells:
            p = judged.cell.published
            kept = measured().cells.get((cell_key(p), TWO_LAYERS))
            three = judged.comparisons.get("published")
            once = p.attack or p.model == "dpgcn" or p.epsilon == "1"  # the GCN's F1 is printed once per epsilon
            if kept is None or three is None or not once or p.attack not in KINDS:
                continue
            two = compare_summary(kept.mean, kept.std, kept.runs, p.mean, p.std, p.unit, ROUNDED)
            yield p.dataset, KINDS[p.attack], two, three


def _said(found: list[Comparison]) -> str:
    if not found:
        return ""
    mean = math.fsum(abs(c.difference) for c in found) / len(found)
    return f"{sum(bool(c.agrees) for c in found)} of {len(found)}, {mean:.3f} off"
