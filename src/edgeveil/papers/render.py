"""Reproduced tables as text: columns that vary, theirs, ours, the correct variant beside it, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from edgeveil.papers.agreement import Comparison
from edgeveil.papers.reproduce import Judged, TableResult

__all__ = ["cell_rows", "headline", "markdown", "text"]

IDENTITY = ("dataset", "model", "mechanism", "epsilon", "degree", "belief", "alpha", "delta", "attack", "metric")


def cell_rows(result: TableResult) -> list[dict[str, Any]]:
    """One plain dictionary per cell: identity, theirs, ours per variant, difference, z, verdict, remarks."""
    if not result.model:
        return [_row(judged) for judged in result.cells]
    return [_row(judged) | {"our_model": " ".join(_models(judged))} for judged in result.cells]


def _models(judged: Judged) -> list[str]:
    return sorted({term.run.model for recipe in judged.cell.recipes.values() for term in recipe.terms})


def _row(judged: Judged) -> dict[str, Any]:
    p = judged.cell.published
    row: dict[str, Any] = {name: getattr(p, name) for name in IDENTITY}
    row |= {"unit": p.unit, "theirs": p.mean, "theirs_std": p.std, "theirs_runs": p.runs}
    for variant in ("published", "correct"):
        c = judged.comparisons.get(variant)
        for name in ("ours", "ours_std", "runs", "difference", "z", "agrees"):
            value = None if c is None else getattr(c, name)
            row[f"{variant}_{name}"] = round(value, 5) if isinstance(value, float) else value
    return row | {"cannot_run": judged.why, "not_counted": judged.cell.aside}


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if unit in ("pct", "auc100") else f"{value:.3f}"


def _figure(c: Comparison | None, unit: str) -> str:
    return "" if c is None else f"{_number(c.ours, unit)} ± {_number(c.ours_std, unit)}"


def _verdict(c: Comparison | None, aside: str) -> str:
    if c is None or c.agrees is None:
        return ""
    return ("yes" if c.agrees else "no") + (" (not counted)" if aside else "")


def _columns(result: TableResult) -> list[str]:
    cells = [j.cell.published for j in result.cells]
    varying = [name for name in IDENTITY if len({getattr(p, name) for p in cells}) > 1]
    return varying or ["metric"]


def _lines(result: TableResult) -> tuple[list[str], list[list[str]]]:
    names = _columns(result)
    head = [*names, "printed", "ours", "z", "agrees", "correct variant", "agrees"]
    lines = []
    for judged in result.cells:
        p, aside = judged.cell.published, judged.cell.aside
        first, second = judged.comparisons.get("published"), judged.comparisons.get("correct")
        theirs = _number(p.mean, p.unit) + ("" if p.std is None else f" ± {_number(p.std, p.unit)}")
        z = "" if first is None or first.z is None else f"{first.z:+.1f}"
        ours = _figure(first, p.unit) or f"not run: {judged.why}"[:60]
        start = [str(getattr(p, name)) for name in names]
        lines.append(
            [*start, theirs, ours, z, _verdict(first, aside), _figure(second, p.unit), _verdict(second, aside)]
        )
    if result.model:  # no verdicts
        head[len(names) + 1] = f"with {result.model}"
        shown = [place for place, word in enumerate(head) if word != "agrees"]
        head, lines = [head[i] for i in shown], [[line[i] for i in shown] for line in lines]
    return head, lines


def text(result: TableResult) -> str:
    """Aligned plain text."""
    head, lines = _lines(result)
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    out = [
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in [head, *lines]
    ]
    return "\n".join(
        [out[0], "-" * min(sum(widths) + 2 * len(widths), 120), *out[1:], "", *_remarks(result), headline(result)]
    )


def markdown(result: TableResult) -> str:
    """A Markdown table with remarks below."""
    head, lines = _lines(result)
    body = ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines]]
    return "\n".join([*body, "", *(f"- {remark}" for remark in _remarks(result))])


def _remarks(result: TableResult) -> list[str]:
    reasons = Counter(j.why for j in result.cells if j.why)
    aside = Counter(j.cell.aside for j in result.cells if j.cell.aside and j.comparisons)
    kept = sum(result.model not in _models(j) for j in result.cells if not j.why) if result.model else 0
    return [
        *([f"{kept} cells are of methods that bring their own model and keep it"] if kept else []),
        *(f"{count} cells not run: {why}" for why, count in reasons.items()),
        *(f"{count} cells not counted: {why}" for why, count in aside.items()),
    ]


def headline(result: TableResult) -> str:
    """The share of agreeing cells in one line."""
    parts = []
    labels: Mapping[str, str] = {"published": "as published", "correct": "correct variant"}
    for variant, label in labels.items():
        agree, judged = result.agreement(variant)
        if judged:
            parts.append(f"{label}: {agree} of {judged} cells agree ({agree / judged:.0%})")
    if result.model:
        parts = [f"{result.model} in place of the paper's models, so no cell is judged"]
    runs = f"{result.seeds} seed{'s' if result.seeds > 1 else ''}, {result.mode}"
    return f"{result.paper.name}:{result.table} ({runs}): {'; '.join(parts) or 'no cell could be judged'}"
