"""LinkTeller: exact derivative against queries, whole graphs, and signed groups. Ratios of one run, one thread.

    python benchmarks/bench_linkteller.py [--quick]

Times are CPU seconds of this process, best of several. The published procedure is re-created on dense float32 features
with two full passes per node; a few nodes are measured and multiplied by 500 / nodes, and so are our own passes.
Writes benchmarks/results/linkteller.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

from edgeveil.attacks.run_attack import attack
from edgeveil.defences.defend import defend
from edgeveil.graph.datasets import load
from edgeveil.graph.graph import Graph
from edgeveil.metrics import at_belief, protocol, ranking
from edgeveil.models.train import TrainSpec
from edgeveil.release.release import Release

OUT = Path(__file__).parent / "results" / "linkteller.json"
Row = dict[str, Any]


def cpu(work: Callable[[], object], repeats: int = 3) -> float:
    """Least CPU seconds of a call."""
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def published_pass(release: Release) -> Callable[[int], None]:
    """One node of the published procedure: two full passes in float32 on dense features, nothing reused."""
    model: Any = release.predictor.model  # type: ignore[attr-defined]
    matrix = release.predictor._structure.matrix(model.spec.norm).tensor(torch.float32)  # type: ignore[attr-defined]
    x = torch.tensor(release.matrix.toarray(), dtype=torch.float32)
    weights = [(layer.weight.detach(), layer.bias.detach()) for layer in model.layers]

    def forward(h: torch.Tensor) -> torch.Tensor:
        for at, (weight, bias) in enumerate(weights):
            h = torch.sparse.mm(matrix, h @ weight) + bias
            h = torch.relu(h) if at + 1 < len(weights) else h
        return h

    def one(node: int) -> None:
        with torch.no_grad():
            moved = x.clone()
            moved[node] *= 1 + 1e-4
            ((forward(moved) - forward(x)) / 1e-4).norm(dim=1)

    return one


def speed(release: Release, nodes: np.ndarray, sample: int) -> Row:
    """Exact influence of all nodes against both ways of asking for it."""
    exact = cpu(lambda: attack(release, "linkteller", nodes=nodes, mode="exact"), 5)
    one = published_pass(release)
    rows = release.matrix.rows(nodes[:sample])
    published = cpu(lambda: [one(int(v)) for v in nodes[:sample]], 2) * len(nodes) / sample
    own = cpu(lambda: [release.predict(rows[k : k + 1] * (1 + 1e-4), [v]) for k, v in enumerate(nodes[:sample])], 2) * (
        len(nodes) / sample
    )
    return {
        "nodes": len(nodes), "nodes_measured": sample, "seconds_exact": exact, "seconds_published": published,
        "seconds_own_passes": own, "ratio_published": published / exact, "ratio_own_passes": own / exact,
    }  # fmt: skip


def whole_graph(name: str, epochs: int) -> Row:
    """All pairs of a graph within two hops, in units of one forward pass."""
    graph = load(name)
    release = defend(graph, "none", model="gcn", seed=0, preset="linkteller", train=TrainSpec(epochs=epochs))
    one_pass = cpu(lambda: release.predict(), 5)
    exact = cpu(lambda: attack(release, "linkteller", mode="exact"), 3)
    result = attack(release, "linkteller", mode="exact")
    truth = graph.has_edges(*result.pairs)
    rest = result.rest(graph.num_edges, int(truth.sum()))
    return {
        "dataset": graph.name, "pairs": result.num_pairs, "listed": len(result.scores), "seconds_pass": one_pass,
        "seconds_exact": exact, "passes": exact / one_pass, "auc": ranking(result.scores, truth, rest)["auc"],
    }  # fmt: skip


def figures(result: Any, graph: Graph) -> Row:
    """AUC and precision at the true density."""
    truth = graph.has_edges(*result.pairs)
    precision = at_belief(result.scores, truth, float(truth.mean()))["precision"]
    return {"queries": result.queries, "auc": ranking(result.scores, truth)["auc"], "precision": precision}


def grouped(release: Release, graph: Graph, nodes: np.ndarray, budgets: tuple[int, ...]) -> Row:
    """Quality against the number of queries; the full attack is the exact one, which equals the query attack."""
    full = figures(attack(release, "linkteller", nodes=nodes, mode="exact"), graph)
    full["queries"] = len(nodes) + 1
    few = [figures(attack(release, "linkteller-grouped", nodes=nodes, queries=q - 1), graph) for q in budgets]
    return {"dataset": graph.name, "full": full, "grouped": few}


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    epochs = TrainSpec(epochs=20) if quick else None
    ru, cora = load("twitch-ru"), load("cora")
    release = defend(
        load("twitch-es"), "none", model="gcn", seed=0, inference_graph=ru, preset="linkteller", train=epochs
    )
    nodes = protocol.subset(ru, seed=42)
    out: Row = {
        "quick": quick,
        "twitch-ru": ru.name,
        "is_twin": ru.is_twin,
        "speed": speed(release, nodes, 2 if quick else 6),
    }
    s = out["speed"]
    print(f"exact, 500 nodes of twitch-ru, width 256: {s['seconds_exact']:.3f} s CPU")
    print(f"  {s['ratio_published']:.0f}x the published procedure, {s['ratio_own_passes']:.0f}x 500 of our own passes")
    out["whole_graph"] = w = whole_graph("pubmed", 20 if quick else 200)
    print(f"whole-graph exact on pubmed: {w['seconds_exact']:.2f} s CPU = {w['passes']:.0f} forward passes")
    on_cora = defend(cora, "none", model="gcn", seed=0, preset="linkteller")
    tables = [grouped(on_cora, cora, protocol.subset(cora, seed=42), (50,) if quick else (15, 25, 50, 100))]
    tables.append(grouped(release, ru, nodes, (100,) if quick else (25, 50, 75, 100, 150)))
    out["grouped"] = tables
    for table in tables:
        for row in (table["full"], *table["grouped"]):
            print(
                f"  {table['dataset']}: {row['queries']:4d} queries, AUC {row['auc']:.4f}, precision {row['precision']:.4f}"
            )
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
