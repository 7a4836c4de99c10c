"""Write docs/defences.md and its figure from benchmarks/defences.jsonl: python benchmarks/defences_page.py"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, ttest_rel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from rank_figure import critical_difference, draw  # noqa: E402

from edgeveil.defences.veil.choice import Veil, hears_pairs, share_of_edges  # noqa: E402
from edgeveil.graph.catalog import dataset  # noqa: E402

ROWS, PAGE = HERE / "defences.jsonl", HERE.parent / "docs" / "defences.md"
INTRO = HERE / "defences_intro.md"
FIGURE = HERE.parent / "docs" / "images" / "defence-ranks.svg"
OURS, PEERS = ("veil-counts", "veil-rr"), ("edgerand", "lapgraph", "lpgnet", "gap", "progap", "blink")
FREE, ALL = ("mlp", "feature-graph"), ("none", "mlp", "feature-graph")
MADE_ON = ("cora", "citeseer", "chameleon")  # graphs that the threshold of `veil` was set on
TRAINED_ON = {"twitch-ru": "twitch-es", "twitch-de": "twitch-es"}
LEVEL = 0.05
LEAST_SEEDS = 3
ENOUGH = 6  # blocks below which ranks are not drawn
Values = dict[int, float]  # figure of every seed
Cells = dict[tuple[str, str, float | None], Values]  # graph, method, epsilon
Row = dict[str, Any]


def cells(rows: Sequence[Row]) -> Cells:
    """Utilities, each run once whatever number of attacks it has."""
    found: Cells = defaultdict(dict)
    for row in rows:
        epsilon = row["epsilon"] if row["defence"] not in ALL else None
        found[row["dataset"], row["defence"], epsilon][row["seed"]] = row["utility"]
    return dict(found)


def values(found: Cells, graph: str, method: str, epsilon: float) -> Values:
    """A method's figures at an epsilon; those that take none have the same at all."""
    return found.get((graph, method, None if method in ALL else epsilon), {})


def epsilons(found: Cells, graph: str) -> list[float]:
    return sorted({e for g, _, e in found if g == graph and e is not None})


def figure(own: Values) -> str:
    """Mean and standard deviation in percent, with the number of seeds."""
    if not own:
        return "–"
    x = 100 * np.array(list(own.values()))
    return f"{x.mean():.1f} ± {x.std(ddof=1):.1f} ({len(x)})" if len(x) > 1 else f"{x.mean():.1f} (1)"


def table(found: Cells, graph: str) -> Iterator[str]:
    """One graph: methods down, epsilon across."""
    across = epsilons(found, graph)
    yield f"| {graph}{' (rare F1)' if graph in TRAINED_ON else ''} | " + " | ".join(f"ε = {e:g}" for e in across) + " |"
    yield "|---" * (len(across) + 1) + "|"
    for method in (*ALL, *PEERS, *OURS):
        yield f"| {method} | " + " | ".join(figure(values(found, graph, method, e)) for e in across) + " |"
    yield ""


def paired(a: Values, b: Values) -> tuple[float, float, int]:
    """Mean gain of a over b on shared seeds, two-sided p of the paired t-test (nan below 3), number of pairs."""
    seeds = sorted(a.keys() & b.keys())
    gain = np.array([a[s] - b[s] for s in seeds])
    if len(seeds) < LEAST_SEEDS:
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


def judged(found: Cells, graphs: Sequence[str]) -> dict[tuple[str, float, str, str], tuple[float, str]]:
    """Gain and word for (graph, epsilon, ours, other); each comparison is corrected over the graphs."""
    out = {}
    for epsilon in sorted({e for _, _, e in found if e is not None}):
        for mine in OURS:
            for other in (*PEERS, *FREE):
                pairs = [(g, paired(values(found, g, mine, epsilon), values(found, g, other, epsilon))) for g in graphs]
                pairs = [(g, test) for g, test in pairs if test[2]]
                for (g, (gain, _, _)), p in zip(pairs, holm([t[1] for _, t in pairs]), strict=True):
                    out[g, epsilon, mine, other] = gain, word(gain, p)
    return out


def word(gain: float, p: float) -> str:
    if math.isnan(p):
        return "too few seeds against"
    return "inside the noise against" if p >= LEVEL else "better than" if gain > 0 else "worse than"


def verdicts(found: Cells, graphs: Sequence[str]) -> Iterator[str]:
    """Who is beaten, who beats ours, and what is inside the noise."""
    tests = judged(found, graphs)
    for graph in graphs:
        yield f"### {graph}\n"
        for epsilon in epsilons(found, graph):
            for mine in OURS:
                groups: dict[str, list[str]] = defaultdict(list)
                for other in (*PEERS, *FREE):
                    if (graph, epsilon, mine, other) in tests:
                        gain, said = tests[graph, epsilon, mine, other]
                        groups[said].append(f"{other} ({100 * gain:+.1f})")
                if groups:
                    said = "; ".join(f"**{key}** {', '.join(names)}" for key, names in sorted(groups.items()))
                    yield f"- ε = {epsilon:g}, {mine}: {said}."
        yield ""


def chosen(graph: str, epsilon: float) -> tuple[float, str]:
    """Expected share of edges among the noisy pairs of the graph that trains, and what `veil` takes for it."""
    facts, veil = dataset(TRAINED_ON.get(graph, graph)), Veil(epsilon=epsilon)
    left = float(veil.split[1])
    pairs = hears_pairs(facts.nodes, facts.edges, left)
    return share_of_edges(facts.nodes, facts.edges, left), "veil-rr" if pairs else "veil-counts"


def best(found: Cells, graph: str, epsilon: float, among: Sequence[str], seeds: set[int]) -> str | None:
    """The method with the highest mean on these seeds."""
    known = {m: v for m in among if seeds <= (v := values(found, graph, m, epsilon)).keys()}
    return max(known, key=lambda m: sum(known[m][s] for s in seeds)) if known else None


def summary(found: Cells, graphs: Sequence[str]) -> Iterator[str]:
    """What `veil` takes, beside the best peer and the best that reads no edge."""
    tests = judged(found, graphs)
    yield "| graph | ε | `veil` takes | test | best peer | gain | best without edges | gain |"
    yield "|---|---|---|---|---|---|---|---|"
    for graph in graphs:
        for epsilon in epsilons(found, graph):
            mine = chosen(graph, epsilon)[1]
            own = values(found, graph, mine, epsilon)
            if not own:
                continue
            line = [graph, f"{epsilon:g}", mine, figure(own)]
            for among in (PEERS, FREE):
                other = best(found, graph, epsilon, among, set(own))
                gain, said = tests[graph, epsilon, mine, other] if other else (math.nan, "")
                line += [str(other), f"{100 * gain:+.1f}, {said.split(' than')[0].split(' against')[0]}"]
            yield "| " + " | ".join(line) + " |"
    yield ""


def choice(found: Cells, graphs: Sequence[str]) -> Iterator[str]:
    """Whether the rule of `veil` took the better of the two, on graphs that made it and on others."""
    yield "| graph | rule made on it | ε | edges among noisy pairs | `veil` takes | gain over the other ± s.e. (seeds) | |"
    yield "|---|---|---|---|---|---|---|"
    tally: dict[str, list[float]] = defaultdict(list)
    for graph in graphs:
        for epsilon in epsilons(found, graph):
            share, mine = chosen(graph, epsilon)
            other = next(m for m in OURS if m != mine)
            a, b = values(found, graph, mine, epsilon), values(found, graph, other, epsilon)
            gain = 100 * np.array([a[s] - b[s] for s in sorted(a.keys() & b.keys())])
            if not len(gain):
                continue
            said, error = _said(gain)
            if graph not in MADE_ON:
                tally[said].append(float(gain.mean()))
            line = [graph, "yes" if graph in MADE_ON else "no", f"{epsilon:g}", f"{100 * share:.1f} %", mine]
            yield (
                "| "
                + " | ".join(
                    [*line, f"{gain.mean():+.1f}{'' if math.isnan(error) else f' ± {error:.1f}'} ({len(gain)})", said]
                )
                + " |"
            )
    yield ""
    if tally:
        lost = [min(g, 0.0) for gains in tally.values() for g in gains]
        parts = ", ".join(f"{len(g)} {said}" for said, g in sorted(tally.items()))
        yield (
            f"On graphs that did not make the rule: {parts}; taking the other method where it was better would have "
            f"gained {-float(np.mean(lost)):.1f} points on average, {-min(lost):.1f} at most.\n"
        )


def _said(gain: NDArray[np.float64]) -> tuple[str, float]:
    """Right or wrong beyond two standard errors, with at least three seeds."""
    error = float(gain.std(ddof=1) / math.sqrt(len(gain))) if len(gain) > 1 else math.nan
    if not gain.any():
        return "the same", 0.0
    if len(gain) < LEAST_SEEDS or abs(gain.mean()) <= 2 * error:
        return "inside the noise", error
    return ("right" if gain.mean() > 0 else "wrong"), error


def leakage(rows: Sequence[Row], graphs: Sequence[str]) -> Iterator[str]:
    """The strongest attack's leakage per method and epsilon, first seed."""
    worst: dict[tuple[str, str, float | None], tuple[float, str]] = {}
    for row in rows:
        if row["attack"] and row["leakage"] is not None:
            key = row["dataset"], row["defence"], row["epsilon"] if row["defence"] not in ALL else None
            worst[key] = max(worst.get(key, (-1.0, "")), (row["leakage"], row["attack"]))
    for graph in graphs:
        across = sorted({e for g, _, e in worst if g == graph and e is not None})
        if not across:
            continue
        yield f"| {graph} | " + " | ".join(f"ε = {e:g}" for e in across) + " |"
        yield "|---" * (len(across) + 1) + "|"
        for method in (*ALL, *PEERS, *OURS):
            shown = [worst.get((graph, method, None if method in ALL else e)) for e in across]
            yield f"| {method} | " + " | ".join("–" if v is None else f"{100 * v[0]:.1f} {v[1]}" for v in shown) + " |"
        yield ""


def ranks(found: Cells) -> tuple[list[str], NDArray[np.float64], int]:
    """Average rank of every method over blocks (graph, epsilon) in which all of them ran; means over shared seeds."""
    methods, blocks = [*FREE, *PEERS, *OURS], []
    for graph, epsilon in sorted({(g, e) for g, _, e in found if e is not None}):
        own = [values(found, graph, m, epsilon) for m in methods]
        seeds = set.intersection(*(set(v) for v in own))
        if seeds:
            blocks.append(rankdata([-np.mean([v[s] for s in seeds]) for v in own]))
    return methods, np.mean(blocks, axis=0) if blocks else np.full(len(methods), np.nan), len(blocks)


def page(rows: Sequence[Row]) -> tuple[str, str | None]:
    """The page, and its figure if enough is measured."""
    found = cells(rows)
    graphs = list(dict.fromkeys(g for g, _, _ in found))
    methods, mean, blocks = ranks(found)
    drawn = None
    parts = [INTRO.read_text(encoding="utf-8"), "## In short\n"]
    parts.append(
        "What `veil` takes, at the whole ε, beside the best of six peers and the best that reads no edge. Gains in points "
        "on the same seeds, with the verdict explained below.\n"
    )
    parts += [*summary(found, graphs), "## Test accuracy in percent\n"]
    parts.append("Mean ± standard deviation (seeds); every seed draws its own split, 20 labels per class.\n")
    for graph in graphs:
        parts += table(found, graph)
    if blocks >= ENOUGH:
        apart = critical_difference(len(methods), blocks, LEVEL)
        drawn = draw(methods, mean, apart, OURS)
        parts.append(
            f"## Ranks\n\nOver {blocks} blocks (graph, ε) in which every method ran, means over seeds; 1 is best. Blocks "
            "of one graph are not independent, so the critical difference is on the small side. Grey bars join what it "
            "does not tell apart.\n"
        )
        parts.append("![Average ranks with the critical difference](images/defence-ranks.svg)\n")
    parts.append("## Verdict per graph\n")
    parts.append(
        "Paired t-tests over shared seeds, gains in points; each pair of methods at each ε is corrected by Holm over the "
        f"graphs, at {100 * LEVEL:g} %. With fewer than {LEAST_SEEDS} seeds nothing is called better or worse.\n"
    )
    parts += [*verdicts(found, graphs), "## Does `veil` choose well?\n", *choice(found, graphs), "## Leakage\n"]
    parts.append(
        "Percent of the true edges among 500 attacked nodes that the strongest attack finds which fits the release (it is "
        "named), when it names as many pairs as there are edges; first seed. Compare with `feature-graph`: what features "
        "alone give away.\n"
    )
    parts += leakage(rows, graphs)
    return "\n".join(parts).rstrip() + "\n", drawn


def main() -> None:
    """Write the page and the figure."""
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    text, drawn = page(rows)
    PAGE.write_text(text, encoding="utf-8")
    if drawn is not None:
        FIGURE.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
