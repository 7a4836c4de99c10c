"""Noise and graph mechanisms against plain ways of doing the same, in one run and one thread.

    python benchmarks/bench_mechanisms.py [--quick]

Times are processor seconds, so another job on the machine does not change a ratio. --quick leaves out the two large
graphs (10^7 edges; flickr-twin under EdgeRand at epsilon 3).
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.defences.edgerand import EdgeRand
from edgeveil.defences.lapgraph import LapGraph
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs
from edgeveil.privacy.canaries import synthetic_graph
from edgeveil.privacy.noise import SecureNoise

TWITCH_RU = (4_385, 37_304)
LARGE = (1_000_000, 10_000_000)


def cpu(work: Callable[[], Any], repeats: int = 1) -> float:
    """Best processor time of a few calls."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def dense_lapgraph(graph: Graph, epsilon: float, rng: np.random.Generator) -> Graph:
    """Algorithm 4 with a full matrix."""
    matrix = np.triu(graph.adjacency.toarray().astype(np.float64), 1)
    cells = np.triu_indices(graph.num_nodes, 1)
    matrix[cells] += rng.laplace(0.0, 1 / (0.99 * epsilon), len(cells[0]))
    top = round(graph.num_edges + rng.laplace(0.0, 1 / (0.01 * epsilon)))
    best = np.argpartition(matrix[cells], len(cells[0]) - top)[len(cells[0]) - top :]
    return Graph.from_edges(np.stack([cells[0][best], cells[1][best]]), num_nodes=graph.num_nodes)


def lean_dense_lapgraph(graph: Graph, epsilon: float, rng: np.random.Generator) -> Graph:
    """The leanest version that still draws every cell: one vector of all pairs."""
    cells = rng.laplace(0.0, 1 / (0.99 * epsilon), num_pairs(graph.num_nodes))
    cells[graph.edge_ranks] += 1
    top = round(graph.num_edges + rng.laplace(0.0, 1 / (0.01 * epsilon)))
    return graph.with_edge_ranks(np.sort(np.argpartition(cells, len(cells) - top)[len(cells) - top :]))


def bench_dense() -> dict[str, float]:
    """LapGraph at the size of twitch-ru against the two dense versions."""
    graph, mechanism = synthetic_graph(*TWITCH_RU), LapGraph(epsilon=5.0)
    rng = np.random.default_rng(0)
    _ = graph.edge_ranks, graph.adjacency
    ours = cpu(lambda: mechanism.perturb(graph, seed=0), 5)
    dense = cpu(lambda: dense_lapgraph(graph, 5.0, rng), 2)
    lean = cpu(lambda: lean_dense_lapgraph(graph, 5.0, rng), 2)
    print(f"LapGraph, twitch-ru size: {ours * 1e3:.1f} ms; dense {dense:.2f} s; one vector of all pairs {lean:.2f} s")
    print(f"  ratio to dense {dense / ours:.0f}x (wanted >= 100x), to the vector {lean / ours:.0f}x")
    return {"ours_s": ours, "dense_ratio": dense / ours, "lean_dense_ratio": lean / ours}


def bench_large() -> dict[str, float]:
    """LapGraph with 10^7 edges, the resulting Graph included, against one sort of as many numbers; memory; growth."""
    times = {}
    for edges in (LARGE[1] // 10, LARGE[1]):
        graph = synthetic_graph(LARGE[0] * edges // LARGE[1], edges)
        times[edges] = cpu(lambda g=graph: LapGraph(epsilon=4.0).perturb(g, seed=0), 2)
    numbers = np.random.default_rng(0).random(LARGE[1])
    sort = cpu(lambda: np.sort(numbers), 3)
    tracemalloc.start()
    LapGraph(epsilon=4.0).perturb(graph, seed=0)
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    exponent = math.log(times[LARGE[1]] / times[LARGE[1] // 10]) / math.log(10)
    ratio = times[LARGE[1]] / sort
    print(f"LapGraph, 10^6 nodes and 10^7 edges: {times[LARGE[1]]:.2f} s, {extra / 1e9:.2f} GB extra (wanted < 2 GB)")
    print(f"  ratio to np.sort of 10^7 float64 ({sort:.3f} s): {ratio:.1f}x (wanted <= 25x)")
    print(f"  growth exponent from 10^6 to 10^7 edges: {exponent:.2f} (wanted <= 1.1)")
    return {"seconds": times[LARGE[1]], "sort_ratio": ratio, "extra_bytes": extra, "growth_exponent": exponent}


def bench_edgerand() -> dict[str, float]:
    """EdgeRand against drawing as many random int64 and making them distinct."""
    graph = synthetic_graph(20_000, 100_000)
    sizes: list[int] = []
    ours = cpu(lambda: sizes.append(EdgeRand(epsilon=4.0).perturb(graph, seed=0).num_edges), 3)
    rng = np.random.default_rng(0)
    unique = cpu(lambda: np.unique(rng.integers(0, num_pairs(20_000), sizes[0])), 2)
    by_sort = cpu(lambda: np.sort(rng.integers(0, num_pairs(20_000), sizes[0])), 2)
    print(f"EdgeRand, {sizes[0]:,} output edges: {ours:.2f} s")
    print(f"  ratio to np.unique of as many int64: {ours / unique:.2f}x (wanted <= 10x)")
    print(f"  ratio to np.sort of as many int64: {ours / by_sort:.1f}x")
    return {"edges": sizes[0], "seconds": ours, "unique_ratio": ours / unique, "sort_ratio": ours / by_sort}


def bench_noise() -> dict[str, float]:
    """Time per exact discrete Laplace sample from operating-system entropy."""
    noise, out = SecureNoise(), {}
    for scale in (Fraction(1), Fraction(10, 7), Fraction(10), Fraction(1000), Fraction(1024, 4)):
        out[str(scale)] = cpu(lambda s=scale: noise.discrete_laplace(s, 1_000_000), 2)
    print("exact discrete Laplace, microseconds per sample (wanted <= 2):")
    print("  " + ", ".join(f"scale {scale}: {micro:.2f}" for scale, micro in out.items()))
    return out


def flickr_child() -> None:
    """One process: perturb flickr-twin at epsilon 3 and take one forward pass of a GCN; prints its own figures."""
    import torch

    from edgeveil.graph.datasets import load
    from edgeveil.models.assemble import build
    from edgeveil.models.kernels.triangle_products import TriangleStructure
    from edgeveil.models.spec import ModelSpec

    torch.set_num_threads(1)
    graph = load("flickr-twin")
    started = time.process_time()
    noisy = EdgeRand(epsilon=3.0).perturb(graph, seed=0)
    perturbed = time.process_time() - started
    x = torch.from_numpy(np.array(graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x, np.float32))
    model = build(ModelSpec(name="gcn", hidden=16), graph.num_features, graph.num_classes, seed=0).eval()
    started = time.process_time()
    with torch.no_grad():
        logits = model(x, TriangleStructure(noisy))
    forward = time.process_time() - started
    assert bool(torch.isfinite(logits).all())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"edges": noisy.num_edges, "perturb_s": perturbed, "forward_s": forward, "peak_bytes": peak}))


def bench_flickr() -> dict[str, float]:
    """Peak memory of a whole process."""
    done = subprocess.run([sys.executable, __file__, "--flickr-child"], capture_output=True, text=True, check=True)
    out: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"flickr-twin, EdgeRand at epsilon 3: {out['edges']:,} edges in {out['perturb_s']:.0f} s,")
    print(f"  one GCN forward pass in {out['forward_s']:.0f} s")
    print(f"  peak memory of the process {out['peak_bytes'] / 1e9:.2f} GB (wanted <= 8 GB)")
    return out


def main() -> None:
    """Run all parts and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--flickr-child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.flickr_child:
        return flickr_child()
    parts: dict[str, Callable[[], Any]] = {"dense": bench_dense, "edgerand": bench_edgerand, "noise": bench_noise}
    if not args.quick:
        parts |= {"large": bench_large, "flickr": bench_flickr}
    results = {name: part() for name, part in parts.items()}
    out = Path(__file__).parent / "results" / "mechanisms.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(
        json.dumps({"python": platform.python_version(), "numpy": np.__version__, **results}, indent=1) + "\n"
    )
    return None


if __name__ == "__main__":
    main()
