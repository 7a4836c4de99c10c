"""Utility without defences on the real graphs, beside the printed figures; writes docs/fidelity-utility.md.

    python benchmarks/fidelity_utility.py [--seeds 10] [--only planetoid|twitch] [--page-only]

Planetoid: LPGNet's models on the public split (Table 2, rounded there to two digits). Twitch: LinkTeller's models trained
on all of twitch-es, F1 of the class that is rarer in the other country (Table XII). Finished runs are kept in
benchmarks/results/fidelity_utility.jsonl and not repeated. One process, one thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.graph.datasets import load
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import Scaling
from edgeveil.metrics.utility import utility
from edgeveil.models import Preset, build, fit, predict_logits, preset

ROOT = Path(__file__).parents[1]
STORE = ROOT / "benchmarks" / "results" / "fidelity_utility.jsonl"
NOTES = ROOT / "benchmarks" / "fidelity_utility_notes.md"
PAGE = ROOT / "docs" / "fidelity-utility.md"
COUNTRIES = ("ru", "de", "fr", "engb", "ptbr")

PRINTED: dict[tuple[str, str], float] = {
    ("cora", "gcn"): 0.81, ("citeseer", "gcn"): 0.72, ("pubmed", "gcn"): 0.79,
    ("cora", "mlp"): 0.60, ("citeseer", "mlp"): 0.60, ("pubmed", "mlp"): 0.73,
    ("twitch-ru", "gcn"): 0.319, ("twitch-de", "gcn"): 0.551, ("twitch-fr", "gcn"): 0.404,
    ("twitch-engb", "gcn"): 0.601, ("twitch-ptbr", "gcn"): 0.411,
    ("twitch-ru", "mlp"): 0.290, ("twitch-de", "mlp"): 0.545, ("twitch-fr", "mlp"): 0.373,
    ("twitch-engb", "mlp"): 0.598, ("twitch-ptbr", "mlp"): 0.358,
}  # fmt: skip
Row = dict[str, Any]


@cache
def graph(name: str) -> Graph:
    """A dataset with the public split where there is one."""
    return load(name, split="public" if name in ("cora", "citeseer", "pubmed") else None)


@cache
def features(train: str, name: str, kind: str) -> FeatureMatrix:
    """Features of one graph, scaled as learnt on another."""
    return Scaling.fit(kind, graph(train).x).apply(graph(name).x)


def trained(name: str, settings: Preset, seed: int) -> tuple[Any, float]:
    """A model trained on `name`, and the seconds it took."""
    g = graph(name)
    model = build(settings.model, g.num_features, g.num_classes, seed)
    masks = g.masks
    train = np.ones(g.num_nodes, dtype=bool) if masks is None or name.startswith("twitch") else masks.train
    val = None if masks is None or name.startswith("twitch") else masks.val
    history = fit(
        model, features(name, name, settings.scaling), model.prepare(g.adjacency), g.y, train, val, settings.train, seed=seed
    )  # fmt: skip
    return model, history.seconds


def planetoid(name: str, kind: str, seed: int) -> Iterator[Row]:
    """Test micro-F1 (equal to accuracy with one label per node)."""
    settings, g = preset("lpgnet-tuned", name, kind), graph(name)
    model, seconds = trained(name, settings, seed)
    logits = predict_logits(model, features(name, name, settings.scaling), g.adjacency)
    score = utility(logits, g.y, g.masks.test)["micro_f1"]
    yield {"dataset": name, "model": kind, "seed": seed, "metric": "micro_f1", "value": score, "seconds": seconds}


def twitch(kind: str, seed: int) -> Iterator[Row]:
    """Rare-class F1 in all five countries of one model trained on twitch-es."""
    settings = preset("linkteller", "twitch-es", kind)
    model, seconds = trained("twitch-es", settings, seed)
    for country in COUNTRIES:
        g = graph(f"twitch-{country}")
        logits = predict_logits(model, features("twitch-es", g.name, settings.scaling), g.adjacency)
        score = utility(logits, g.y)["rare_f1"]
        yield {"dataset": g.name, "model": kind, "seed": seed, "metric": "rare_f1", "value": score, "seconds": seconds}


def stored() -> list[Row]:
    """Finished rows."""
    if not STORE.exists():
        return []
    return [json.loads(line) for line in STORE.read_text(encoding="utf-8").splitlines()]


def run(seeds: int, only: str | None) -> None:
    """Do what is missing, seed by seed."""
    STORE.parent.mkdir(exist_ok=True)
    done = {(r["dataset"], r["model"], r["seed"]) for r in stored()}
    for seed, kind in itertools.product(range(seeds), ("mlp", "gcn")):
        work: list[tuple[str, Callable[[], Iterator[Row]]]] = []
        if only in (None, "planetoid"):
            work += [(name, partial(planetoid, name, kind, seed)) for name in ("cora", "citeseer", "pubmed")]
        if only in (None, "twitch"):
            work.append(("twitch-ptbr", partial(twitch, kind, seed)))
        for key, task in work:
            if (key, kind, seed) in done:
                continue
            rows = list(task())
            with STORE.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            print(*(f"{r['dataset']} {r['model']} {r['seed']}: {r['value']:.3f}" for r in rows), flush=True)


def table(rows: list[Row]) -> list[str]:
    """One line per figure: printed, ours, difference in our standard deviations."""
    lines = [
        "| dataset | model | metric | printed | ours | sd | seeds | difference | in sd |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (dataset, model), printed in PRINTED.items():
        values = np.array([r["value"] for r in rows if (r["dataset"], r["model"]) == (dataset, model)])
        if not len(values):
            continue
        digits = 3 if dataset.startswith("twitch") else 2
        sd = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
        gap = float(values.mean()) - printed
        metric = "rare F1" if dataset.startswith("twitch") else "micro-F1"
        lines.append(
            f"| {dataset} | {model} | {metric} | {printed:.{digits}f} | {values.mean():.3f} | {sd:.3f} | {len(values)} "
            f"| {gap:+.3f} | {gap / sd:+.1f} |"
        )
    return lines


def page(seeds: int) -> None:
    """Write the page from the stored rows."""
    rows = [r for r in stored() if r["seed"] < seeds]
    text = [
        "# Utility without defences: ours against the printed figures",
        "",
        f"Generated by `python benchmarks/fidelity_utility.py --seeds {seeds}`; mean and sample standard deviation over",
        "seeds of initialisation and dropout. Cora, Citeseer and PubMed: LPGNet Table 2, printed to two digits, public split,",
        "settings of `preset(\"lpgnet-tuned\", ...)`. Twitch: LinkTeller Table XII, one model trained on all of twitch-es and used in",
        "the other countries, settings of `preset(\"linkteller\", ...)`. Back to [fidelity](fidelity.md).",
        "",
        *table(rows),
        "",
        NOTES.read_text(encoding="utf-8"),
    ]  # fmt: skip
    PAGE.write_text("\n".join(text), encoding="utf-8")
    print(PAGE.relative_to(ROOT))


def main(argv: list[str] | None = None) -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", choices=("planetoid", "twitch"))
    parser.add_argument("--page-only", action="store_true")
    args = parser.parse_args(argv)
    if not args.page_only:
        run(args.seeds, args.only)
    page(args.seeds)


if __name__ == "__main__":
    main()
