"""GP-t against a per-node loop of Alg. 1-4, and KProp against bare sparse products; ratios of one run, one thread.

    python benchmarks/bench_graphprivatizer.py [--quick]

The loop does what the algorithms say, node by node and neighbour by neighbour, with sparse rows and one array operation
per query for similar nodes. It is timed on a sample of nodes and scaled to the graph. `ratio` is against the algorithms
as printed (a query per list entry); `ratio_once` against a loop that remembers each node's similar neighbours.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

import edgeveil as ev
from edgeveil.defences.graphprivatizer.graphprivatizer import GraphPrivatizer
from edgeveil.defences.graphprivatizer.similarity import aggregated
from edgeveil.errors import DatasetUnavailable
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import Scaling
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.kernels.spmm import spmm
from edgeveil.models.network import kprop
from edgeveil.models.structure import Structure
from edgeveil.privacy.multibit import multi_bit
from edgeveil.privacy.noise import noise_for

RESULTS = Path(__file__).parent / "results"


def loop(graph: Graph, x: FeatureMatrix, gp: GraphPrivatizer, nodes: Any) -> tuple[float, float, float]:
    """Alg. 1-4 on some nodes, on sparse rows: seconds per node to aggregate (Eq. 3), to query one node's similar
    neighbours (Alg. 4, one array operation per call), and per list entry to respond (Eq. 6).
    """
    assert x.shift is not None
    rng = np.random.default_rng(0)
    values, shift, features = x.values, float(x.shift[0]), x.shape[1]
    mixed = aggregated(x, graph.adjacency, gp.alpha).values.tocsr()
    epsilon = float(gp.epsilon or 0.0)

    def similar(u: int, v: int) -> list[int]:
        near = graph.neighbours(u)
        own, rows = mixed[u], mixed[near]
        total, sums = float(own.sum()), np.asarray(rows.sum(axis=1)).ravel()
        dots = np.asarray((rows @ own.T).todense()).ravel() - shift * (total + sums) + features * shift**2
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel() - 2 * shift * sums + features * shift**2
        length = float(own.multiply(own).sum()) - 2 * shift * total + features * shift**2
        return [int(w) for w, s in zip(near, dots / np.sqrt(squares * length), strict=True) if w != v and s >= gp.delta]

    started = time.perf_counter()
    for u in nodes:
        _ = (1 - gp.alpha) * values[int(u)] + gp.alpha * values[graph.neighbours(int(u))].mean(axis=0)
    aggregate = (time.perf_counter() - started) / len(nodes)
    query = respond = 0.0
    entries = 0
    for v in nodes:
        noisy: set[int] = set()
        for u in graph.neighbours(int(v)):
            at = time.perf_counter()
            others = similar(int(u), int(v))
            query += time.perf_counter() - at
            at = time.perf_counter()
            keep = rng.random() < math.exp(epsilon) / (math.exp(epsilon) + len(others))
            noisy.add(int(u) if keep or not others else others[rng.integers(len(others))])
            respond += time.perf_counter() - at
            entries += 1
    return aggregate, query / entries, respond / entries


def clock(work: Any, repeats: int) -> float:
    """Least wall time of some repeats."""
    best = math.inf
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def bench_perturbation(graph: Graph, sample: int) -> dict[str, float]:
    """Seconds of both, over the whole graph."""
    gp = GraphPrivatizer(epsilon=1.0, strategy="threshold", alpha=0.5, delta=0.0)
    x = multi_bit(Scaling.fit("minmax", graph.x).apply(graph.x), 3.0, noise_for(0))
    fast = clock(lambda: gp.lists(graph, x, noise_for(1)), 3)
    whole = clock(lambda: gp.perturb(graph, seed=0), 2)
    nodes = np.random.default_rng(0).choice(np.flatnonzero(graph.degrees), sample, replace=False)
    aggregate, query, respond = loop(graph, x, gp, nodes)
    n, entries = graph.num_nodes, 2 * graph.num_edges
    slow = n * aggregate + entries * (query + respond)
    once = n * (aggregate + query) + entries * respond
    return {
        "fast_seconds": fast, "perturb_seconds": whole, "loop_seconds": slow, "loop_once_seconds": once,
        "sampled_nodes": sample, "ratio": slow / fast, "ratio_once": once / fast,
    }  # fmt: skip


def bench_kprop(graph: Graph, steps: int, width: int, repeats: int) -> dict[str, float]:
    """KProp of a dense block against `steps` bare sparse products of the same width."""
    structure = Structure(graph.adjacency)
    matrix = structure.matrix("sym")
    x = torch.rand(graph.num_nodes, width)
    matrix.tensor(torch.float32)

    def bare() -> None:
        y = x
        for _ in range(steps):
            y = spmm(matrix, y)

    plain = clock(bare, repeats)
    ours = clock(lambda: kprop(x, structure, steps), repeats)
    noisy = as_operand(multi_bit(Scaling.fit("minmax", graph.x).apply(graph.x), 3.0, noise_for(0)), "float32")
    weight = torch.rand(graph.num_features, width)
    deferred = clock(lambda: kprop(noisy, structure, steps).matmul(weight), repeats)  # type: ignore[union-attr]
    return {"bare_seconds": plain, "kprop_seconds": ours, "ratio": ours / plain, "deferred_ratio": deferred / plain}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small graph and a small sample")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    graph = ev.load("cora-twin" if quick else _facebook())
    perturbation = bench_perturbation(graph, 50 if quick else 150)
    propagation = bench_kprop(graph, 4, 64, 3 if quick else 7)
    print(f"{graph!r}")
    print(f"GP-t, all lists: {perturbation['fast_seconds']:.2f} s; per-node loop {perturbation['loop_seconds']:.0f} s "
          f"(scaled from {perturbation['sampled_nodes']} nodes): ratio {perturbation['ratio']:.0f}; "
          f"a loop that remembers each node's similar neighbours: {perturbation['ratio_once']:.0f}")  # fmt: skip
    print(f"KProp, 4 steps: {propagation['ratio']:.2f} times 4 bare sparse products of the same width; "
          f"from noisy features through the first weights {propagation['deferred_ratio']:.2f} times")  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    found = {"graph": graph.name, "quick": quick, "perturbation": perturbation, "kprop": propagation}
    (RESULTS / "graphprivatizer.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _facebook() -> str:
    """The real graph where it is at hand, else its twin of the same size."""
    try:
        ev.load("facebook")
    except DatasetUnavailable:
        return "facebook-twin"
    return "facebook"


if __name__ == "__main__":
    main()
