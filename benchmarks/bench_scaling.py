"""Cost per training epoch as the graph grows, and the peak memory of training on flickr-twin; one thread.

    python benchmarks/bench_scaling.py [--quick]

Random graphs with 10^4 to 10^7 edges (10^6 with --quick), mean degree 20, sixteen sparse features in use per node, a GCN
with 16 hidden units, all nodes labelled. Printed: processor milliseconds per epoch, the exponent of a power law fitted to
them and the share of variance that a straight line through the edge counts explains. Memory is that of a fresh process
that loads the stored twin and trains LinkTeller's GCN (256 hidden units) on it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from edgeveil.graph.datasets import load
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.scaling import Scaling
from edgeveil.models import ModelSpec, Structure, TrainSpec, build, fit, preset

RESULTS = Path(__file__).parent / "results"


def random_graph(edges: int, rng: np.random.Generator) -> tuple[sp.csr_matrix, FeatureMatrix, np.ndarray]:
    """About `edges` uniform edges at mean degree 20, 16 of 256 features per node, four classes."""
    n = edges // 10
    u, v = rng.integers(0, n, (2, edges), dtype=np.int32)
    upper = sp.csr_matrix((np.ones(edges, np.float32), (u, v)), shape=(n, n))
    a = upper.maximum(upper.T).tocsr()
    a.setdiag(0)
    a.eliminate_zeros()
    words = rng.integers(0, 256, (n, 16), dtype=np.int32)
    x = sp.csr_matrix((np.ones(16 * n, np.float32), words.ravel(), np.arange(0, 16 * n + 1, 16)), shape=(n, 256))
    x.sum_duplicates()
    return a, FeatureMatrix.wrap(x), rng.integers(0, 4, n)


def epoch_cost(edges: int, epochs: int) -> dict[str, float]:
    """Processor milliseconds per epoch: the least difference between two consecutive ones."""
    a, x, y = random_graph(edges, np.random.default_rng(0))
    model = build(ModelSpec(hidden=16), x.shape[1], 4, seed=0)
    stamps: list[float] = []
    everyone = np.ones(a.shape[0], dtype=bool)
    # Progress would trigger validation; there are no validation nodes, so it only takes the time.
    fit(
        model, x, Structure(a), y, everyone, None, TrainSpec(epochs=epochs), seed=0,
        progress=lambda *_: stamps.append(time.process_time()),
    )  # fmt: skip
    return {"edges": a.nnz // 2, "ms": 1e3 * float(np.diff(stamps).min())}


def linearity(rows: list[dict[str, float]]) -> dict[str, float]:
    """Exponent of ms = c edges^k, and R² of a straight line."""
    edges, ms = np.array([r["edges"] for r in rows]), np.array([r["ms"] for r in rows])
    exponent = float(np.polyfit(np.log(edges), np.log(ms), 1)[0])
    slope, intercept = np.polyfit(edges, ms, 1)
    left = ms - (slope * edges + intercept)
    return {
        "exponent": exponent,
        "r_squared": float(1 - (left**2).sum() / ((ms - ms.mean()) ** 2).sum()),
        "ns_per_edge": float(1e6 * slope),
    }


def train_flickr(folder: Path) -> None:
    """In a fresh process: load, train a few epochs, print the peak memory in GB."""
    x, a = sp.load_npz(folder / "x.npz"), sp.load_npz(folder / "a.npz")
    y = np.load(folder / "y.npy")
    settings = preset("linkteller", "flickr", "gcn")
    scaled = Scaling.fit(settings.scaling, x).apply(x)
    model = build(settings.model, x.shape[1], int(y.max()) + 1, seed=0)
    everyone = np.ones(len(y), dtype=bool)
    fit(model, scaled, Structure(a), y, everyone, None, TrainSpec(lr=settings.train.lr, epochs=5), seed=0)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def memory() -> float:
    """Peak resident GB of training on the whole twin."""
    graph = load("flickr-twin")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sp.save_npz(folder / "x.npz", graph.x, compressed=False)
        sp.save_npz(folder / "a.npz", graph.adjacency, compressed=False)
        np.save(folder / "y.npy", graph.y)
        done = subprocess.run([sys.executable, __file__, "--child", name], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(argv: list[str] | None = None) -> None:
    """Print the fit and the peak, and keep them as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    if args.child:
        train_flickr(args.child)
        return
    sizes = [10**4, 10**5, 10**6] if args.quick else [10**4, 10**5, 10**6, 10**7]
    rows = [epoch_cost(edges, 12 if edges < 10**6 else 5) for edges in sizes]
    for row in rows:
        print(f"{row['edges']:>12,} edges: {row['ms']:10.2f} ms per epoch")
    found: dict[str, Any] = linearity(rows)
    print(f"ms ~ edges^{found['exponent']:.2f}; straight line explains {100 * found['r_squared']:.2f} %")
    found |= {"rows": rows, "quick": args.quick, "flickr_twin_peak_gb": memory()}
    print(
        f"training on flickr-twin: peak {found['flickr_twin_peak_gb']:.2f} GB = {3 / found['flickr_twin_peak_gb']:.1f}x below 3 GB"
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scaling.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
