"""docs/fidelity.md and its CSV cells, from the samples kept in the package; the rest is hand-written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path

from edgeveil.papers.books import BOOKS
from edgeveil.papers.causes import cause_of
from edgeveil.papers.judge import judged_table
from edgeveil.papers.listing import Standing, standing
from edgeveil.papers.render import cell_rows
from edgeveil.papers.reproduce import Judged, TableResult
from edgeveil.papers.studies import measured_studies, study_list
from edgeveil.papers.twitch_depth import depth_table
from edgeveil.runs.row_files import write_table

__all__ = ["page", "results", "write_cells"]

FEWEST = 3  # disagreeing figures that make a group worth a line


def results() -> list[TableResult]:
    """Every table with at least one measured figure."""
    every = (judged_table(book.name, table) for book in BOOKS.values() for table in book.tables())
    return [result for result in every if any(j.comparisons for j in result.cells)]


def slug(result: TableResult) -> str:
    """``linkteller:XII(a)`` as linkteller-xii-a."""
    return re.sub("[^a-z0-9]+", "-", f"{result.paper.name}-{result.table}".lower()).strip("-")


def write_cells(folder: Path) -> None:
    """One CSV per table and study; files of those that have no measured figure go."""
    for old in folder.glob("*.csv"):
        old.unlink()
    for result in results():
        write_table(cell_rows(result), folder / f"{slug(result)}.csv")
    for name, rows in measured_studies().items():
        write_table(rows, folder / f"study-{name}.csv")


def page(text: str) -> str:
    """The page with its generated parts renewed."""
    made = {"summary": _summary, "differences": _differences, "depth": depth_table, "studies": study_list}
    for marker, new in ((marker, make()) for marker, make in made.items()):
        head, start, rest = text.partition(f"<!-- {marker} -->\n")
        _, end, tail = rest.partition(f"<!-- end {marker} -->")
        text = f"{head}{start}{new}\n{end}{tail}" if start and end else text
    return text


def _share(agree: int, counted: int) -> str:
    return f"{agree} of {counted} ({agree / counted:.0%})" if counted else ""


def _span(counts: Iterable[int]) -> str:
    found = sorted(counts)
    return "" if not found else str(found[0]) if found[0] == found[-1] else f"{found[0]}–{found[-1]}"


def _summary() -> str:
    lines = []
    for book in BOOKS.values():
        tables = [judged_table(book.name, table) for table in book.tables()]
        lines += [f"### {book.title}", ""]
        lines += ["| table | printed | runnable | measured | agree | correct variant | samples | on twins |"]
        lines += ["| --- | ---: | ---: | ---: | --- | --- | ---: | ---: |"]
        found = [(result, standing(result)) for result in tables]
        lines += [_line(result, s) for result, s in found if s.measured or s.twins]
        rest = [result.table for result, s in found if not (s.measured or s.twins)]
        total = [s for _, s in found]
        agree, counted = sum(s.agree for s in total), sum(s.counted for s in total)
        sums = " | ".join(str(sum(getattr(s, name) for s in total)) for name in ("printed", "runnable", "measured"))
        share = f"**{_share(agree, counted)}**" if counted else ""
        lines += [f"| **all** | {sums} | {share} | | | {sum(s.twins for s in total) or ''} |", ""]
        if rest:
            lines += [f"Not measured: {', '.join(rest)}.", ""]
    return "\n".join(lines).rstrip()


def _line(result: TableResult, s: Standing) -> str:
    name = f"[{result.table}](fidelity/{slug(result)}.csv)"
    shares = f"{_share(s.agree, s.counted)} | {_share(*result.agreement('correct'))}"
    return f"| {name} | {s.printed} | {s.runnable} | {s.measured} | {shares} | {_span(s.seeds)} | {s.twins or ''} |"


def _differences() -> str:
    """Groups of figures of which several disagree, with the mean difference: what is systematic stands out."""
    lines = [
        "| paper | tables | figures | outside | mean difference | cause |",
        "| --- | --- | --- | ---: | ---: | --- |",
    ]
    groups: dict[tuple[str, ...], list[tuple[TableResult, Judged]]] = {}
    for result in results():
        for judged in result.cells:
            c = judged.comparisons.get("published")
            if c is not None and c.agrees is not None and not judged.cell.aside:
                groups.setdefault(_kind(result.paper.name, judged), []).append((result, judged))
    for kind, members in groups.items():
        outside = [(r, j) for r, j in members if j.comparisons["published"].agrees is False]
        if len(outside) >= FEWEST and len(outside) * 5 >= len(members):
            lines.append(_group(kind, len(members), outside))
    return "\n".join(lines)


def _kind(paper: str, judged: Judged) -> tuple[str, ...]:
    p = judged.cell.published
    if paper == "graphprivatizer":  # few figures per model: its graphs and mechanisms are what differs
        return (paper, p.unit, ", ".join([p.dataset, p.mechanism, p.metric.replace("_", " ")]))
    mechanism = "" if p.mechanism in ("none", "lpgnet") else p.mechanism
    words = [p.dataset, p.model, mechanism, p.degree, p.attack, p.metric.replace("_", " ")]
    return (paper, p.unit, ", ".join(filter(None, words)))


def _group(kind: tuple[str, ...], count: int, outside: list[tuple[TableResult, Judged]]) -> str:
    paper, unit, words = kind
    tables = list(dict.fromkeys(result.table for result, _ in outside))
    cause = cause_of(paper, [*tables, *words.split(", ")])
    mean = math.fsum(j.comparisons["published"].difference for _, j in outside) / len(outside)
    shown = f"{mean:+.3f}" if unit == "fraction" else f"{mean:+.1f}"
    return f"| {paper} | {', '.join(tables)} | {words} | {len(outside)} of {count} | {shown} | {cause} |"
