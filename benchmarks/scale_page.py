"""Write the figures of docs/scale.md and docs/images/scale.svg from benchmarks/scale.jsonl: python benchmarks/scale_page.py

Nothing is measured here. `python benchmarks/run.py scale --sizes=1e6,1e7,1e8` measures and keeps the rows.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, FIGURE = HERE.parent / "docs" / "scale.md", HERE.parent / "docs" / "images" / "scale.svg"
START, END = "<!-- measured: python benchmarks/scale_page.py -->\n", "<!-- end of measured -->\n"
Rows = list[dict[str, Any]]
LATER = 10**9


def power(edges: int) -> str:
    """10⁷ for 10000000."""
    return "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(round(math.log10(edges))))


def table(rows: Rows) -> list[str]:
    """Processor and wall seconds of every stage by size, the exponent of the last step, and the next size on paper."""
    mine = [row for row in rows if row["engine"] == "duckdb" and row["stage"] not in ("failed", "open")]
    sizes = sorted({row["edges"] for row in mine})
    head = [f"{power(size)} edges" for size in sizes]
    lines = [
        f"| stage (DuckDB) | {' | '.join(head)} | exponent | {power(LATER)} on paper |",
        "|---|" + "---|" * (len(sizes) + 2),
    ]
    latest = max(str(row.get("run", "")) for row in mine)
    for stage in dict.fromkeys(row["stage"] for row in mine):
        found = {row["edges"]: row for row in mine if row["stage"] == stage}
        cells = [_seconds(found.get(size), latest) for size in sizes]
        slope, later = _slope(found)
        lines.append(f"| {stage} | {' | '.join(cells)} | {slope} | {later} |")
    whole = {size: [row for row in mine if row["edges"] == size and row["stage"] != "generate"] for size in sizes}
    if {str(row.get("run", "")) for part in whole.values() for row in part} == {latest}:
        sums = {size: {"cpu_s": sum(row["cpu_s"] for row in part)} for size, part in whole.items()}
        slope, later = _slope(sums)
        totals = " | ".join(f"{sums[size]['cpu_s']:.1f} s" for size in sizes)
        lines.append(f"| all but generate | {totals} | {slope} | {later} |")
    peaks = [max(row["peak_gb"] for row in mine if row["edges"] == size) for size in sizes]
    lines.append("| peak resident memory | " + " | ".join(f"{peak:.2f} GB" for peak in peaks) + " | | |")
    return lines


def _seconds(row: dict[str, Any] | None, latest: str) -> str:
    """Processor seconds, and wall seconds where the run was not paused; a star where another run measured it."""
    if row is None:
        return "–"
    wall = "" if row["wall_s"] is None else f" ({row['wall_s']:.1f} s)"
    return f"{row['cpu_s']:.1f} s{wall}{_star(row, latest)}"


def _star(row: dict[str, Any], latest: str) -> str:
    return "" if str(row.get("run", "")) == latest else "\\*"


def _slope(found: dict[int, dict[str, Any]]) -> tuple[str, str]:
    long = [size for size in sorted(found) if found[size]["cpu_s"] >= 0.1]
    if len(long) < 2:
        return "–", "–"
    a, b = long[-2:]
    if found[a].get("run") != found[b].get("run"):
        return "–", "–"
    slope = math.log(found[b]["cpu_s"] / found[a]["cpu_s"]) / math.log(b / a)
    return f"{slope:.2f}", f"{found[b]['cpu_s'] * (LATER / b) ** slope / 60:.0f} min"


def engines(rows: Rows) -> list[str]:
    """DuckDB beside cluster engines at every size that both ran."""
    lines = ["| query | edges | engine | processor s | wall s |", "|---|---|---|---|---|"]
    others = {(row["edges"], row["stage"]) for row in rows if row["engine"].startswith(("spark", "ray"))}
    latest = max(str(row.get("run", "")) for row in rows if row["engine"] == "duckdb")
    for edges, stage in sorted(others):
        pair = [r for r in rows if r["edges"] == edges and r["stage"] == stage]
        if len(pair) > 1 and stage not in ("open", "end"):
            lines += [
                f"| {stage} | {power(edges)} | {r['engine']} | {_cpu(r)} | {r['wall_s']:.1f}{_star(r, latest)} |"
                for r in sorted(pair, key=lambda r: str(r["engine"]))
            ]
    return lines if len(lines) > 2 else []


def _cpu(row: dict[str, Any]) -> str:
    return "in other processes" if row["engine"].startswith("ray") else f"{row['cpu_s']:.1f}"


def others(rows: Rows) -> list[str]:
    """What one would do otherwise, and training."""
    lines = []
    died = {row["engine"] for row in rows if row["stage"] == "died"}
    for row in rows:
        if "bytes_per_edge" in row and row["engine"] not in died:
            lines.append(
                f"- {row['engine']} in memory ({row['stage']}): {row['bytes_per_edge']:.0f} bytes an edge at "
                f"{row['edges']:,} edges; not run until it died."
            )
        if row["stage"] == "died":
            ran = [r for r in rows if r["engine"] == row["engine"] and "bytes_per_edge" in r]
            lines.append(
                f"- {row['engine']} in memory ({', '.join(r['stage'] for r in ran)}), with {row['limit_gb']:g} GB: "
                + "".join(f"{r['edges']:,} edges run ({r['bytes_per_edge']:.0f} bytes an edge), " for r in ran)
                + f"{row['edges']:,} die (`{row['said'].partition(':')[0]}`)."
            )
        if "share" in row:
            lines.append(
                f"- A full-batch GCN epoch ({row['nodes']:,} nodes, {row['edges']:,} edges, threads: {row['threads']}) takes "
                f"{row['epoch_s']:.2f} s and must move at least {row['bytes'] / 1e9:.1f} GB; copying at "
                f"{row['copy_bytes_per_s'] / 1e9:.1f} GB/s in the same run, that is {row['share']:.0%} of it."
            )
    trained = [row for row in rows if row["engine"] == "training" and "accuracy" in row]
    if trained:
        said = "; ".join(
            f"{row['stage']} {row['accuracy']:.3f}"
            + (f" ({row['nodes_in_memory']:,} nodes in memory)" if "nodes_in_memory" in row else "")
            for row in trained
        )
        lines.append(
            f"- Accuracy of the GCN with {trained[0]['nodes']:,} nodes and {trained[0]['edges']:,} edges (one seed): {said}."
        )
    return lines


def draw(rows: Rows) -> None:
    """Processor time and memory against edges."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "edgeveil", "svg.fonttype": "none", "font.size": 9})
    from matplotlib.figure import Figure

    mine = [row for row in rows if row["engine"] == "duckdb" and row["stage"] not in ("failed", "open")]
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for stage in dict.fromkeys(row["stage"] for row in mine):
        points = sorted((row["edges"], row["cpu_s"]) for row in mine if row["stage"] == stage)
        left.loglog(*zip(*points, strict=True), "o-", ms=3, label=stage)
    left.set(xlabel="edges", ylabel="processor seconds")
    left.legend(fontsize=6, frameon=False)
    sizes = sorted({row["edges"] for row in mine})
    right.semilogx(sizes, [max(r["peak_gb"] for r in mine if r["edges"] == s) for s in sizes], "ko-", ms=3)
    right.axhline(3, color="grey", lw=0.8, ls="--")
    right.set(xlabel="edges", ylabel="peak resident memory, GB", ylim=(0, 3.4))
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    rows = [json.loads(line) for line in (HERE / "scale.jsonl").read_text().splitlines()]
    draw(rows)
    lines = ["![Time and memory against edges](images/scale.svg)", "", *table(rows), ""]
    compared = engines(rows)
    lines += [*compared, ""] if compared else []
    lines += [*others(rows), ""]
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + START + "\n" + "\n".join(lines) + "\n" + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
