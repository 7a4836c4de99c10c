"""From measured rows to docs/fidelity-lpgnet.md; used by fidelity_lpgnet.py."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.defences.lpgnet.lpgnet_analysis import sweet_spot

Row = dict[str, Any]
TABLES = {"cora": "7", "citeseer": "8", "pubmed": "9", "facebook": "10"}
PRINTED_NAMES = {"cora": "Cora", "citeseer": "Citeseer", "pubmed": "PubMed", "facebook": "Facebook"}
SPREADS = (
    "Standard deviations are those of a sample (divisor n - 1); a single seed has none. Differences of two columns are "
    'paired by seed, with their standard error. The column "where it stands" compares bare means with the MLP\'s utility '
    "and the GCN's leakage: it does not say that a difference is larger than chance.\n"
)
READOUTS = (
    ("mlp", "paper's MLP"),
    ("mlp, tuned on accuracy", "paper's MLP, 7 settings"),
    ("bayes", "Bayes, 7 weights"),
)


class Figures:
    """Measured values by what a row is about and by seed; of rows measured twice the last one counts."""

    def __init__(self, rows: list[Row]) -> None:
        self._values: dict[tuple[Any, ...], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        for row in rows:
            key = _key(row["dataset"], row["model"], float(row["epsilon"]), row.get("variant"), row.get("readout"))
            for name in ("f1", "lpa", "lpa_published", "linkteller"):
                if name in row:
                    self._values[key][name][int(row["seed"])] = float(row[name])

    def get(self, dataset: str, model: str, epsilon: float, metric: str = "f1", **how: str) -> list[float]:
        """All measured values, one per seed."""
        return list(self.by_seed(dataset, model, epsilon, metric, **how).values())

    def by_seed(self, dataset: str, model: str, epsilon: float, metric: str = "f1", **how: str) -> dict[int, float]:
        """The same with their seeds."""
        stacked = model.startswith("LPGNet")
        variant = how.get("variant", "correct") if stacked else None
        readout = how.get("readout", "mlp") if stacked else None
        return self._values.get(_key(dataset, model, epsilon, variant, readout), {}).get(metric, {})


def _place(dataset: str, number: str | None) -> str:
    if dataset.endswith("-twin"):
        return "a synthetic twin: not the paper's graph, compared with nothing"
    return f"Table {number}" if number else "not tabulated in the paper"


def _key(dataset: str, model: str, epsilon: float, variant: Any, readout: Any) -> tuple[Any, ...]:
    return dataset, model, epsilon, variant, readout


class Printed:
    """The paper's figures, if a reference file was given."""

    def __init__(self, path: str | None) -> None:
        self._cells: dict[tuple[str, ...], str] = {}
        if path:
            with Path(path).open(encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    key = (row["table"], row["model"], row["epsilon"], row["attack"], row["dataset"])
                    self._cells.setdefault(key, f"{row['mean']}±{row['std']}" if row["std"] else row["mean"])

    def cell(self, table: str, model: str, epsilon: float, attack: str = "", dataset: str = "") -> str:
        """A printed figure, or an empty string; `dataset` only where one table holds several."""
        wanted = "inf" if math.isinf(epsilon) else f"{epsilon:g}"
        for (t, m, e, a, d), value in self._cells.items():
            if (t, m, e, a) == (table, model, wanted, attack) and (not dataset or d == dataset):
                return value
        return ""


def show(values: list[float], printed: str = "") -> str:
    """Mean, deviation and number of seeds, then the printed figure; a star marks more than two deviations apart."""
    if not values:
        return f"– / {printed}" if printed else "–"
    mean, std = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    text = f"{mean:.3f}" + (f"±{std:.3f}" if len(values) > 1 else "") + f" ({len(values)})"
    if not printed:
        return text
    paper, _, spread = printed.partition("±")
    # Two printed decimals cannot show a deviation below half a unit of the last digit.
    allowed = 2 * max(std, float(spread or 0), 0.005) + 0.005
    return f"{text} / {printed}{' *' if abs(mean - float(paper)) > allowed else ''}"


def markdown(head: list[str], body: list[list[str]]) -> str:
    """One table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in body]) + "\n"


def utility_table(found: Figures, printed: Printed, dataset: str, epsilons: list[float]) -> str:
    """Beside Tables 7-10."""
    table = TABLES.get(dataset, "")
    models = ("LPGNet-1", "LPGNet-2")
    body = []
    for epsilon in epsilons:
        where = "2" if math.isinf(epsilon) else table
        name = PRINTED_NAMES.get(dataset, "?") if math.isinf(epsilon) else ""
        cells = [show(found.get(dataset, m, epsilon), printed.cell(where, m, epsilon, "", name)) for m in models]
        extra = [show(found.get(dataset, m, epsilon, variant="published")) for m in models]
        body.append(
            ["∞" if math.isinf(epsilon) else f"{epsilon:g}", *cells, *(extra if any(e != "–" for e in extra) else [])]
        )
    width = max(len(cells) for cells in body)
    body = [cells + ["–"] * (width - len(cells)) for cells in body]
    base = [f"{m} {show(found.get(dataset, m, math.inf), printed.cell(table, m, 1.0))}" for m in ("MLP", "GCN")]
    head = ["ε", *models, "LPGNet-1 published", "LPGNet-2 published"][:width]
    return f"Without edges or noise: {'; '.join(base)}.\n\n" + markdown(head, body)


def leakage_table(found: Figures, printed: Printed, dataset: str, epsilons: list[float]) -> str:
    """Balanced AUC of LPA (and of LinkTeller where it is not blind), Table 18."""
    name = PRINTED_NAMES.get(dataset, "?")
    body = []
    for model, grid in (
        ("MLP", [math.inf]),
        ("GCN", [math.inf]),
        *((m, epsilons) for m in ("LPGNet-1", "LPGNet-2")),
    ):
        for epsilon in grid:
            lpa = found.get(dataset, model, epsilon, "lpa")
            if not lpa:
                continue
            teller = found.get(dataset, model, epsilon, "linkteller")
            row = [model, "∞" if math.isinf(epsilon) else f"{epsilon:g}"]
            as_printed = found.get(dataset, model, epsilon, "lpa_published")
            row += [show(lpa), show(as_printed, printed.cell("18", model, epsilon, "LPA", name))]
            row.append(show(teller, printed.cell("18", model, epsilon, "LinkTeller", name)))
            mlp, gcn = found.get(dataset, "MLP", math.inf), found.get(dataset, "GCN", math.inf, "linkteller")
            row.append(spot(found, dataset, model, epsilon, leak(lpa, teller), mlp, gcn))
            body.append(row)
    return markdown(["model", "ε", "LPA", "LPA, published procedure", "LinkTeller", "where it stands (by means)"], body)


def leak(*areas: list[float]) -> float:
    """The better attack, whichever way round its scores are read."""
    return max(max(float(np.mean(a)), 1 - float(np.mean(a))) for a in areas)


def spot(
    found: Figures, dataset: str, model: str, epsilon: float, leakage: float, mlp: list[float], gcn: list[float]
) -> str:
    """Sweet-spot classification by means; empty for the baselines themselves."""
    if model in ("MLP", "GCN") or not mlp or not gcn:
        return ""
    utility = float(np.mean(found.get(dataset, model, epsilon)))
    return sweet_spot(utility, leakage, mlp_utility=float(np.mean(mlp)), gcn_leakage=float(np.mean(gcn)))


def readout_table(found: Figures, datasets: list[str], epsilons: list[float]) -> str:
    """The three ways to read the same noisy counts; seeds are compared pairwise."""
    body = []
    for dataset in datasets:
        for model in ("LPGNet-1", "LPGNet-2"):
            for epsilon in epsilons:
                cells = [found.by_seed(dataset, model, epsilon, readout=key) for key, _ in READOUTS]
                if cells[0] and cells[2]:
                    gains = [gain(cells[2], cells[0]), gain(cells[2], cells[1])]
                    shown = [show(list(cell.values())) for cell in cells]
                    body.append([dataset, model, f"{epsilon:g}", *shown, *gains])
    head = ["graph", "model", "ε", *(name for _, name in READOUTS), "Bayes − MLP", "Bayes − MLP of 7 settings"]
    return markdown(head, body)


def gain(better: dict[int, float], worse: dict[int, float]) -> str:
    """Mean difference over the seeds both have, and its standard error."""
    gap = np.array([better[seed] - worse[seed] for seed in better if seed in worse])
    if not len(gap):
        return "–"
    return f"{gap.mean():+.3f}" + (f" ± {np.std(gap, ddof=1) / math.sqrt(len(gap)):.3f}" if len(gap) > 1 else "")


def analysis_tables(row: Row) -> str:
    """Homophily, cosines and noisy edges of one graph."""
    homophily = row["homophily"]
    head = ["clusters from", *(str(k) for k in range(len(next(iter(homophily.values())))))]
    body = [[name, *(f"{v:.2f}" for v in values)] for name, values in homophily.items()]
    text = "Mean share of a node's neighbours in its own cluster (Fig. 3):\n\n" + markdown(head, body)
    epsilons = list(row["cosines"])
    within = [f"{a:.2f} / {b:.2f}" for a, b in row["cosines"].values()]
    noisy = [f"{100 * row['noisy_edges'][e]:.0f} %" if e in row["noisy_edges"] else "0 %" for e in epsilons]
    body = [
        ["cosine of LPGNet-1's vectors within / between classes", *within],
        ["edges of DPGCN's graph that are noise", *noisy],
    ]
    return text + "\n" + markdown(["ε", *(e.removesuffix(".0").replace("inf", "∞") for e in epsilons)], body)


def page(rows: list[Row], reference: str | None) -> str:
    """The whole page."""
    found, printed = Figures(rows), Printed(reference)
    looked = {row["dataset"]: row for row in rows if row["model"] == "analysis"}
    datasets = list(dict.fromkeys(r["dataset"] for r in rows))
    epsilons = sorted({float(r["epsilon"]) for r in rows})
    settings = sorted({r["settings"] for r in rows if "settings" in r})
    parts = [(Path(__file__).parent / "fidelity_lpgnet_intro.md").read_text(encoding="utf-8")]
    parts.append("MLP settings of these runs: " + "; ".join(settings) + ".\n")
    parts.append(SPREADS)
    lists = sorted({(d, len(found.get(d, "LPGNet-1", e))) for d in datasets for e in epsilons})
    least = ", ".join(f"{d} {max(n for other, n in lists if other == d)}" for d in datasets)
    parts.append(f"Seeds measured (at most; every cell shows its own number): {least}. The paper has 30.\n")
    for dataset in datasets:
        number = TABLES.get(dataset)
        mine = [e for e in epsilons if found.get(dataset, "LPGNet-1", e)]
        if mine:
            parts.append(f"## {dataset} ({_place(dataset, number)})\n")
            parts.append(utility_table(found, printed, dataset, mine))
            parts.append(leakage_table(found, printed, dataset, mine))
            if dataset in looked:
                parts.append(analysis_tables(looked[dataset]))
    finite = [e for e in epsilons if not math.isinf(e)]
    parts.append("## Reading the same counts by Bayes' rule\n")
    parts.append(readout_table(found, datasets, finite))
    return "\n".join(parts)
