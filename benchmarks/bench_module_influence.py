"""Exact influence of modules from outside: forward-mode derivatives against a query per node. Ratios of one run.

    python benchmarks/bench_module_influence.py [--quick]

Both ask for the influence among the same 500 nodes of one trained module, one thread, CPU seconds of this process. Of
the queries some are measured and multiplied by 501 / measured. `agreement` is the largest difference of the two over
the measured senders (delta 1e-7), as a share of the largest influence. Writes benchmarks/results/module_influence.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

from edgeveil.defences.defend import defend
from edgeveil.graph.datasets import load
from edgeveil.graph.graph import Graph
from edgeveil.graph.splits import apply_split
from edgeveil.models.settings import TrainSpec
from edgeveil.release.release import Release

OUT = Path(__file__).parent / "results" / "module_influence.json"
MODELS = ("pyg:GIN", "pyg:GCN", "pyg:GAT", "pyg:GraphSAGE", "pyg:PNA")
NODES, DELTA, WIDTH = 500, 1e-7, 64


def dense(graph: Graph) -> Graph:
    """The graph with few random mixtures of its features, which have no ties, so that every derivative exists."""
    mix = np.random.default_rng(0).normal(size=(graph.num_features, WIDTH))
    x = graph.x @ mix if sp.issparse(graph.x) else np.asarray(graph.x) @ mix
    return graph._replace(x=np.asarray(x, np.float64))


def by_queries(release: Release, nodes: np.ndarray[Any, Any], measured: int) -> tuple[float, np.ndarray[Any, Any]]:
    """CPU seconds of a full set of queries, and the influence of the first `measured` senders."""
    started = time.process_time()
    base, rows = release.predict(), []
    for node in nodes[:measured]:
        moved = release.predict(release.matrix.rows([node]) * (1 + DELTA), [node])
        rows.append(np.linalg.norm((moved - base)[nodes] / DELTA, axis=1))
    spent = time.process_time() - started
    return spent * (len(nodes) + 1) / (measured + 1), np.array(rows)


def measure(graph: Graph, model: str, measured: int) -> dict[str, Any]:
    """One module on one graph."""
    release = defend(graph, "none", model=model, seed=0, scaling="none", train=TrainSpec(epochs=5))
    nodes = np.random.default_rng(1).choice(graph.num_nodes, NODES, replace=False)
    release.influence(nodes[:2])  # the first derivative of a process imports much of torch
    started = time.process_time()
    exact = release.influence(nodes)
    spent = time.process_time() - started
    asked, rows = by_queries(release, nodes, measured)
    off = np.abs(exact[:measured].toarray() - rows).max() / rows.max()
    return {
        "graph": graph.name, "model": model, "reach": release.layers, "exact_seconds": spent, "query_seconds": asked,
        "ratio": asked / spent, "agreement": float(off),
    }  # fmt: skip


def main() -> None:
    """Print one line per graph and module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rows = []
    for name in ("cora-twin",) if quick else ("cora-twin", "pubmed-twin", "twitch-ru-twin"):
        graph = dense(load(name))
        graph = graph if graph.masks is not None else apply_split(graph, "50:25:25", 0)
        for model in MODELS[:2] if quick else MODELS:
            row = measure(graph, model, 5 if quick else 20)
            rows.append(row)
            print(
                f"{name:15} {model:14} exact {row['exact_seconds']:6.2f} s, queries {row['query_seconds']:7.2f} s, "
                f"ratio {row['ratio']:5.1f}, agreement {row['agreement']:.1e}", flush=True,
            )  # fmt: skip
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
