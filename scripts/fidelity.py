"""Write docs/fidelity.md from a store of finished runs: python scripts/fidelity.py STORE [TABLE[=MODE[/SEEDS]] ...]

Nothing is run. Every named table (default: all with at least one finished cell in quick mode) is judged with what the
store holds; the cells go to docs/fidelity/<table>.csv, the summary between the markers of the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from edgeveil.graph.datasets import load
from edgeveil.graph.graph import Graph
from edgeveil.papers.books import BOOKS
from edgeveil.papers.recipes import Mode
from edgeveil.papers.render import cell_rows
from edgeveil.papers.reproduce import Judged, TableResult, reproduce
from edgeveil.runs.row_files import write_table
from edgeveil.runs.store import Store
from edgeveil.runs.tasks import Outcome, Task

PAGE = Path(__file__).parents[1] / "docs" / "fidelity.md"
FLAGS = {"quick": " --quick", "default": "", "full": " --full"}


class Nothing:
    """An executor that runs nothing."""

    workers = 1

    def run(self, function: str, tasks: Sequence[Task], graphs: Mapping[str, Graph]) -> Iterator[Outcome]:
        """No outcome at all."""
        return iter(())


def judged(result: TableResult) -> list[Judged]:
    """Cells with at least one comparison."""
    return [cell for cell in result.cells if cell.comparisons]


def line(result: TableResult) -> str:
    """One line of the summary."""
    name = f"{result.paper.name}:{result.table}"
    runs = {c.runs for j in judged(result) for c in j.comparisons.values()}
    total = len(list(result.paper.cells(result.table, "full")))
    shares = []
    for variant in ("published", "correct"):
        agree, count = result.agreement(variant)
        shares.append(f"{agree} of {count} ({agree / count:.0%})" if count else "")
    samples = f"{min(runs)}–{max(runs)}" if len(runs) > 1 else str(*runs)
    chosen = "" if result.seeds == result.paper.seeds(result.table, result.mode) else f" --seeds {result.seeds}"
    command = f"`edgeveil reproduce '{name}'{FLAGS[result.mode]}{chosen}`"
    return f"| {name} | {total} | {len(judged(result))} | {samples} | {shares[0]} | {shares[1]} | {command} |"


def summary(results: list[TableResult]) -> str:
    """The table of tables, and one figure per paper."""
    head = "| table | printed | measured here | samples each | agree, as published | agree, correct variant | command |"
    lines = [head, "| --- | ---: | ---: | ---: | --- | --- | --- |", *map(line, results), ""]
    for name, book in BOOKS.items():
        parts = [r.agreement() for r in results if r.paper.name == name]
        agree, count = sum(a for a, _ in parts), sum(c for _, c in parts)
        if count:
            lines.append(f"- **{book.title}**: {agree} of {count} counted figures agree ({agree / count:.0%}).")
    return "\n".join(lines)


def disagreeing(results: list[TableResult]) -> str:
    """Every counted figure outside the tolerance, as published."""
    lines = ["| table | figure | printed | ours | z |", "| --- | --- | ---: | ---: | ---: |"]
    for result in results:
        for row in cell_rows(result):
            if row["published_agrees"] is not False or row["not_counted"]:
                continue
            words = [row[k] for k in ("dataset", "model", "degree", "belief", "attack", "metric") if row[k]]
            if row["mechanism"] not in ("", "none"):
                words.insert(2, f"{row['mechanism']} {row['epsilon']}")
            digits = 3 if row["unit"] == "fraction" else 1
            printed = f"{row['theirs']:.{digits}f}" + (
                "" if row["theirs_std"] is None else f" ± {row['theirs_std']:.{digits}f}"
            )
            ours = f"{row['published_ours']:.{digits}f} ± {row['published_ours_std']:.{digits}f}"
            z = "" if row["published_z"] is None else f"{row['published_z']:+.1f}"
            lines.append(f"| {result.paper.name}:{result.table} | {', '.join(words)} | {printed} | {ours} | {z} |")
    return "\n".join(lines)


def pages() -> str:
    """Links to the pages of single papers and topics, by their own headings."""
    lines = []
    for path in sorted(PAGE.parent.glob("fidelity-*.md")):
        first = next((x for x in path.read_text(encoding="utf-8").splitlines() if x.startswith("# ")), path.stem)
        lines.append(f"- [{first.removeprefix('# ')}]({path.name})")
    return "\n".join(lines) or "None yet."


def main(store: Path, wanted: list[str]) -> None:
    """Judge, write the cells, fill in the page."""
    modes: dict[str, tuple[Mode, int | None]] = {}
    for word in wanted or [f"{book.name}:{table}" for book in BOOKS.values() for table in book.tables()]:
        name, _, mode = word.partition("=")
        mode, _, seeds = mode.partition("/")
        modes[name] = mode or "quick", int(seeds) if seeds else None  # type: ignore[assignment]
    results = []
    with Store(store, create=False) as kept:
        for name, (mode, seeds) in modes.items():
            result = reproduce(name, kept, Nothing(), cache(load), mode=mode, seeds=seeds, any_code=True)
            if judged(result):
                results.append(result)
                write_table(
                    cell_rows(result),
                    PAGE.parent / "fidelity" / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.csv",
                )
    text = PAGE.read_text(encoding="utf-8")
    for marker, new in (("summary", summary(results)), ("outside", disagreeing(results)), ("pages", pages())):
        block = f"<!-- {marker} -->\n{new}\n<!-- end {marker} -->"
        text = re.sub(f"<!-- {marker} -->.*?<!-- end {marker} -->", lambda _, b=block: b, text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")
    print(summary(results))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])
