"""Write docs/defences.md and its figure from benchmarks/defences.jsonl: python benchmarks/defences_page.py"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, studentized_range, ttest_rel

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "defences.jsonl", HERE.parent / "docs" / "defences.md"
INTRO = HERE / "defences_intro.md"
FIGURE = HERE.parent / "docs" / "images" / "defence-ranks.svg"
OURS, PEERS = ("veil-counts", "veil-rr"), ("edgerand", "lapgraph", "lpgnet", "gap", "blink")
FREE, ALL = ("mlp", "feature-graph"), ("none", "mlp", "feature-graph")
LEVEL = 0.05
ENOUGH = 10  # blocks below which ranks are not drawn
Cells = dict[tuple[str, str, float | None], dict[int, float]]  # graph, method, epsilon -> figure of every seed


def cells(rows: Sequence[dict[str, Any]]) -> Cells:
    """Utilities, each run once whatever number of attacks it has."""
    found: Cells = defaultdict(dict)
    for row in rows:
        epsilon = row["epsilon"] if row["defence"] not in ALL else None
        found[row["dataset"], row["defence"], epsilon][row["seed"]] = row["utility"]
    return found


def figure(values: dict[int, float] | None) -> str:
    """Mean and standard deviation in percent, with the number of seeds."""
    if not values:
        return "–"
    x = 100 * np.array(list(values.values()))
    return f"{x.mean():.1f} ± {x.std(ddof=1):.1f} ({len(x)})" if len(x) > 1 else f"{x.mean():.1f} (1)"


def table(found: Cells, graph: str) -> Iterator[str]:
    """One graph: methods down, epsilon across."""
    epsilons = sorted({e for g, _, e in found if g == graph and e is not None})
    yield f"| {graph} | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |"
    yield "|---" * (len(epsilons) + 1) + "|"
    for method in ALL:
        yield f"| {method} | " + " | ".join([figure(found.get((graph, method, None)))] * len(epsilons)) + " |"
    for method in (*PEERS, *OURS):
        yield f"| {method} | " + " | ".join(figure(found.get((graph, method, e))) for e in epsilons) + " |"


def paired(a: dict[int, float], b: dict[int, float]) -> tuple[float, float, int]:
    """Mean gain of a over b on shared seeds, two-sided p of the paired t-test (nan below 3), number of pairs."""
    seeds = sorted(a.keys() & b.keys())
    gain = np.array([a[s] - b[s] for s in seeds])
    if len(seeds) < 3:
        return float(gain.mean()) if len(gain) else math.nan, math.nan, len(seeds)
    if not gain.std():
        return float(gain.mean()), 1.0 if not gain.mean() else 0.0, len(seeds)
    return float(gain.mean()), float(ttest_rel([a[s] for s in seeds], [b[s] for s in seeds]).pvalue), len(seeds)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's corrected p-values; nan stays nan and does not count."""
    known = [i for i, value in enumerate(p) if not math.isnan(value)]
    out, worst = [math.nan] * len(p), 0.0
    for place, i in enumerate(sorted(known, key=lambda i: p[i])):
        worst = max(worst, min(1.0, (len(known) - place) * p[i]))
        out[i] = worst
    return out


def verdicts(found: Cells) -> Iterator[str]:
    """Ours against every peer and edge-free release, per graph and epsilon, corrected over all of them."""
    tests = []
    for graph, mine, epsilon in found:
        if mine in OURS:
            tests += [(graph, epsilon, mine, o, paired(found[graph, mine, epsilon], found[graph, o, None if o in FREE else epsilon])) for o in (*PEERS, *FREE) if (graph, o, None if o in FREE else epsilon) in found]  # fmt: skip
    corrected = holm([t[-1][1] for t in tests])
    for graph in dict.fromkeys(t[0] for t in tests):
        yield f"### {graph}\n"
        for epsilon in sorted({t[1] for t in tests if t[0] == graph}):
            for mine in OURS:
                own = [(t, c) for t, c in zip(tests, corrected, strict=True) if t[:3] == (graph, epsilon, mine)]
                if own:
                    yield f"- ε = {epsilon:g}, {mine}: {sentence(own)}"
        yield ""


def sentence(own: Sequence[tuple[Any, float]]) -> str:
    """Who is beaten, who beats it, and what is inside the noise."""
    groups: dict[str, list[str]] = defaultdict(list)
    for (*_, other, (gain, _, _)), p in own:
        sure = not math.isnan(p) and p < LEVEL
        unsure = "too few seeds to say against" if math.isnan(p) else "inside the noise against"
        key = ("better than" if gain > 0 else "worse than") if sure else unsure
        groups[key].append(f"{other} ({100 * gain:+.1f})")
    return "; ".join(f"**{key}** {', '.join(names)}" for key, names in sorted(groups.items())) + "."


def leakage(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The strongest attack's leakage per method and epsilon, first seed."""
    worst: dict[tuple[str, str], dict[float | None, float]] = defaultdict(dict)
    for row in rows:
        if row["attack"] and row["leakage"] is not None:
            at = row["epsilon"] if row["defence"] not in ALL else None
            cell = worst[row["dataset"], row["defence"]]
            cell[at] = max(cell.get(at, 0.0), row["leakage"])
    epsilons = sorted({e for cell in worst.values() for e in cell if e is not None})
    yield "| graph | method | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |"
    yield "|---" * (len(epsilons) + 2) + "|"
    for (graph, method), cell in worst.items():
        shown = [cell.get(e, cell.get(None)) for e in epsilons]
        yield f"| {graph} | {method} | " + " | ".join("–" if v is None else f"{100 * v:.1f}" for v in shown) + " |"


def ranks(found: Cells) -> tuple[list[str], np.ndarray, int]:
    """Average rank of every method over blocks (graph, epsilon, seed) in which all of them ran."""
    methods, blocks = [*FREE, *PEERS, *OURS], []
    keys = {(g, e, s) for (g, _, e), values in found.items() if e is not None for s in values}
    for graph, epsilon, seed in sorted(keys):
        row = [found.get((graph, m, None if m in FREE else epsilon), {}).get(seed) for m in methods]
        if None not in row:
            blocks.append(rankdata([-float(v) for v in row if v is not None]))
    return methods, np.mean(blocks, axis=0) if blocks else np.full(len(methods), np.nan), len(blocks)


def draw(methods: Sequence[str], mean: np.ndarray, blocks: int) -> str:
    """Average ranks on a line, smaller is better, with the critical difference of Nemenyi's test."""
    k = len(methods)
    wide = studentized_range.ppf(1 - LEVEL, k, np.inf) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * blocks))
    at = lambda r: 40 + 520 * (r - 1) / (k - 1)  # noqa: E731
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 {90 + 22 * k}" font-family="sans-serif" font-size="13">'
    ]
    parts.append('<rect width="100%" height="100%" fill="white"/>')
    parts.append(
        f'<path d="M{at(1):.0f} 30H{at(1 + wide):.0f}" stroke="black" stroke-width="3"/><text x="{at(1):.0f}" y="20">critical difference {wide:.2f}</text>'
    )
    parts.append(f'<path d="M{at(1):.0f} 50H{at(k):.0f}" stroke="black"/>')
    parts += [f'<text x="{at(r) - 4:.0f}" y="46">{r}</text>' for r in range(1, k + 1)]
    for place, i in enumerate(np.argsort(mean)):
        y = 74 + 22 * place
        colour = "#0b6e4f" if methods[i] in OURS else "#444"
        parts.append(
            f'<path d="M{at(mean[i]):.1f} 50V{y - 4}" stroke="{colour}"/><text x="{at(mean[i]) + 4:.1f}" y="{y}" fill="{colour}">{methods[i]} {mean[i]:.2f}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Write the page and the figure."""
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    found = cells(rows)
    graphs = list(dict.fromkeys(g for g, _, _ in found))
    methods, mean, blocks = ranks(found)
    parts = [INTRO.read_text(), "## Test accuracy in percent\n"]
    parts.append("Mean ± standard deviation over (seeds); every seed draws its own split, 20 labels per class.\n")
    for graph in graphs:
        parts += [*table(found, graph), ""]
    if blocks >= ENOUGH:
        FIGURE.write_text(draw(methods, mean, blocks))
        parts.append(f"## Ranks\n\nOver {blocks} blocks (graph, ε, seed) in which every method ran; 1 is best.\n")
        parts.append("![Average ranks with the critical difference](images/defence-ranks.svg)\n")
    parts.append("## Verdict per graph\n")
    parts.append(
        "Paired t-tests over shared seeds, gains in points, corrected by Holm over all comparisons of this page at "
        f"{100 * LEVEL:g} %. With fewer than three seeds nothing is called better or worse.\n"
    )
    parts += [*verdicts(found), "## Leakage\n"]
    parts.append(
        "Percent of the true edges among 500 attacked nodes that the stronger of grouped LinkTeller (100 queries) and "
        "LSA2-post finds; first seed. Compare with `mlp`: what similarity of features alone gives away.\n"
    )
    parts += [*leakage(rows), ""]
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
