"""What flatroot recovers: exact, by few questions, through coarse answers, from every model and through noise.

    python benchmarks/flatroot.py [PART ...] [--page-only]

Parts: exact, questions, curve, coarse, models, noise. Every measurement is one line of benchmarks/flatroot.jsonl;
a line that is there is not measured again. Writes the tables between the marks in docs/attacks.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from flatroot_page import write_page

import edgeveil as ev
from edgeveil.metrics import at_belief, ranking
from edgeveil.models.presets import preset
from edgeveil.release.target import Target

STORE = Path(__file__).parent / "flatroot.jsonl"
Cell = dict[str, Any]
SMALL = ("cora", "citeseer")
CURVES = {"cora": (10, 20, 30), "citeseer": (5, 10, 20), "twitch-ru": (30, 40, 50), "pubmed": (20, 30, 40)}
LARGE = ("pubmed", "twitch-ru", "facebook", "amazon-photo")
KINDS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("float64 logits", {}, {"mode": "query"}),
    ("logits, 4 decimals", {"decimals": 4}, {}),
    ("logits, 3 decimals", {"decimals": 3}, {}),
    ("logits, 2 decimals", {"decimals": 2}, {}),
    ("float32 logits", {"dtype": "float32"}, {}),
    ("float64 probabilities", {"answer": "probabilities"}, {}),
    ("probabilities, 6 decimals", {"answer": "probabilities", "decimals": 6}, {}),
    ("probabilities, 4 decimals", {"answer": "probabilities", "decimals": 4}, {"queries": 300}),
    ("features at most 1", {}, {"limit": 1.0}),
    ("features at most 0.1", {}, {"limit": 0.1}),
    ("features at most 1, logits, 4 decimals", {"decimals": 4}, {"limit": 1.0, "queries": 300}),
)
MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gcn", {"layers": 1}), ("gcn", {"layers": 3}), ("gcn", {"norm": "aug-rwalk"}), ("gcn", {"norm": "first-order"}),
    ("gcn", {"norm": "bingge"}), ("sage", {}), ("graphconv", {}), ("transformer", {}), ("gat", {}), ("gatv2", {}),
)  # fmt: skip
NOISE = (("edgerand", 8.0), ("edgerand", 6.0), ("edgerand", 5.0), ("lapgraph", 8.0), ("lapgraph", 6.0), ("gp-t", 4.0))


def cells(part: str) -> Iterator[Cell]:
    """The measurements of a part."""
    if part == "exact":
        for data in (*SMALL, *LARGE):
            for seed in range(5 if data in SMALL else 1):
                yield {"part": part, "dataset": data, "seed": seed, "attack": {"mode": "exact"}}
    elif part == "questions":
        for data in SMALL:
            for seed in range(5):
                yield {"part": part, "dataset": data, "seed": seed, "attack": {"mode": "query"}}
        for data in ("pubmed", "twitch-ru", "facebook"):
            yield {"part": part, "dataset": data, "seed": 0, "attack": {"mode": "query"}}
    elif part == "curve":
        for data, budgets in CURVES.items():
            for queries in budgets:
                yield {"part": part, "dataset": data, "seed": 0, "attack": {"queries": queries}}
    elif part == "coarse":
        for name, target, wishes in KINDS:
            yield {"part": part, "dataset": "cora", "seed": 0, "kind": name, "target": target, "attack": wishes}
    elif part == "models":
        for model, shape in MODELS:
            for mode in ("exact", "query"):
                yield {"part": part, "dataset": "cora", "seed": 0, "model": model, "shape": shape, "attack": {"mode": mode}}  # fmt: skip
    elif part == "noise":
        for data in SMALL:
            for defence, epsilon in NOISE:
                for seed in range(3):
                    yield {"part": part, "dataset": data, "seed": seed, "defence": defence, "epsilon": epsilon, "attack": {}}  # fmt: skip


@cache
def released(data: str, defence: str, epsilon: float | None, model: str, shape: str, seed: int) -> Any:
    """A release with the default settings of its dataset, trained once."""
    graph = ev.load(data)
    spec = replace(preset("default", data, model).model, **json.loads(shape))
    extra = {} if epsilon is None else {"epsilon": epsilon}
    return graph, ev.defend(graph, defence, model=spec, seed=seed, **extra)


def measure(cell: Cell) -> Cell:
    """One attack on one release."""
    shape = json.dumps(cell.get("shape", {}))
    graph, release = released(
        cell["dataset"], cell.get("defence", "none"), cell.get("epsilon"), cell.get("model", "gcn"), shape, cell["seed"]
    )
    target = Target.local(release, **cell.get("target", {}))
    started = time.process_time()
    result = ev.attack(target, "flatroot", seed=cell["seed"], **cell["attack"])
    out = {**cell, "queries": result.queries, "seconds": round(time.process_time() - started, 1)}
    truth = graph.has_edges(*result.found) if result.found.size else result.found[0]
    out |= {"found": int(result.found.shape[1]), "true": int(truth.sum()), "edges": graph.num_edges}
    out |= {"certified": result.certified, "undecided": int(result.undecided.shape[1]), "notes": list(result.notes)}
    out["precision"] = scored(result, graph)["precision"]
    if cell["part"] == "noise":
        for name in ("linkteller", "stored-graph", "flatroot"):
            out[name] = scored(ev.attack(release, name, seed=0) if name != "flatroot" else result, graph)
        stored = release.stored_graph
        out["stored"] = int(stored.nnz // 2)
    return out


def scored(result: Any, graph: Any) -> dict[str, float]:
    """Ranking figures against the private graph, over all pairs."""
    edges = graph.has_edges(*result.pairs)
    rest = result.rest(graph.num_edges, int(edges.sum())) if result.unlisted else None
    density = graph.num_edges / result.num_pairs
    found = ranking(result.scores, edges, rest=rest) | at_belief(result.scores, edges, density, rest=rest)
    return {k: round(float(found[k]), 4) for k in ("auc", "average_precision", "precision", "tpr_at_fpr_001")}


def key(cell: Cell) -> str:
    """What a line is about."""
    names = ("part", "dataset", "seed", "attack", "kind", "model", "shape", "defence", "epsilon")
    return json.dumps({k: cell[k] for k in names if k in cell}, sort_keys=True)


def rows() -> list[Cell]:
    """All lines measured so far."""
    return [json.loads(line) for line in STORE.read_text().splitlines()] if STORE.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["exact", "questions", "curve", "coarse", "models", "noise"])
    parser.add_argument("--page-only", action="store_true")
    parser.add_argument("--dataset", help="only this one")
    args = parser.parse_args()
    done = {key(row) for row in rows()}
    todo = [] if args.page_only else [c for part in args.parts for c in cells(part) if key(c) not in done]
    for cell in todo:
        if args.dataset not in (None, cell["dataset"]):
            continue
        row = measure(cell)
        with STORE.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print({k: v for k, v in row.items() if k not in ("notes", "target")}, flush=True)
    write_page(rows())


if __name__ == "__main__":
    main()
