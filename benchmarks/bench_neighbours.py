"""Which library finds nodes with like features: faiss against hnswlib and PyNNDescent, each with its usual settings.

    python benchmarks/bench_neighbours.py [--quick] [--nodes N ...]

Rows of made features (a few hundred groups in 64 directions), one thread. For each library: processor seconds to
index all rows and to ask for the 15 nearest of each, and the share of the true nearest ones among 500 rows that it
finds. `faiss` is what `feature_neighbours` calls beyond 20,000 nodes. The other two are no dependencies: a library that is
not installed is left out and said to be.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.graph.feature_neighbours import DIMENSIONS, approximate_neighbours

RESULTS = Path(__file__).parent / "results"
COUNT, CHECKED, GROUPS = 15, 500, 300
Rows = NDArray[np.float32]


def rows(n: int) -> Rows:
    """Unit rows around so many centres, as wide apart inside a group as features of one class are."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(GROUPS, DIMENSIONS))
    out = centres[rng.integers(0, GROUPS, n)] + rng.normal(size=(n, DIMENSIONS))
    return (out / np.linalg.norm(out, axis=1, keepdims=True)).astype(np.float32)


def faiss(x: Rows) -> NDArray[Any]:
    """Our own call."""
    return approximate_neighbours(x, COUNT, 0)[0]


def hnswlib(x: Rows) -> NDArray[Any]:
    """A navigable small world with the settings of its documentation."""
    index = importlib.import_module("hnswlib").Index(space="ip", dim=x.shape[1])
    index.set_num_threads(1)
    index.init_index(max_elements=len(x), ef_construction=200, M=16, random_seed=0)
    index.add_items(x)
    index.set_ef(64)
    return np.asarray(index.knn_query(x, k=COUNT + 1)[0])


def pynndescent(x: Rows) -> NDArray[Any]:
    """Descent among neighbours of neighbours; its compilation is not counted."""
    made = importlib.import_module("pynndescent").NNDescent
    return np.asarray(made(x, metric="cosine", n_neighbors=COUNT + 1, random_state=0, n_jobs=1).neighbor_graph[0])


LIBRARIES: dict[str, Callable[[Rows], NDArray[Any]]] = {"faiss": faiss, "hnswlib": hnswlib, "pynndescent": pynndescent}


def recall(x: Rows, near: NDArray[Any]) -> float:
    """Share of the true nearest rows that were found, a row itself left out."""
    asked = np.random.default_rng(1).choice(len(x), CHECKED, replace=False)
    cosine = x[asked] @ x.T
    cosine[np.arange(CHECKED), asked] = -np.inf
    true = np.argpartition(-cosine, COUNT - 1, axis=1)[:, :COUNT]
    return float(np.mean([len(np.intersect1d(t, near[a])) / COUNT for t, a in zip(true, asked, strict=True)]))


def measure(name: str, x: Rows) -> dict[str, Any]:
    """One library on one set of rows."""
    LIBRARIES[name](x[:2000])
    started = time.process_time()
    near = LIBRARIES[name](x)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # of the process so far
    return {"nodes": len(x), "library": name, "seconds": round(seconds, 1), "recall": round(recall(x, near), 3), "peak_mb": peak}  # fmt: skip


def main() -> None:
    """Parse and go."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20,000 rows only")
    parser.add_argument("--nodes", type=int, nargs="+", default=[50_000, 200_000, 1_000_000])
    parser.add_argument("--library", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    args = parser.parse_args()
    found: list[dict[str, Any]] = []
    for n in [20_000] if args.quick else args.nodes:
        x = rows(n)
        for name in args.library:
            try:
                found.append(measure(name, x))
            except ImportError:
                print(f"{name} is not installed, left out")
                continue
            print(found[-1], flush=True)
    path = RESULTS / "neighbours.json"
    RESULTS.mkdir(exist_ok=True)
    again = {(row["nodes"], row["library"]) for row in found}
    before = json.loads(path.read_text()) if path.exists() and not args.quick else []
    found += [row for row in before if (row["nodes"], row["library"]) not in again]
    found.sort(key=lambda row: (row["nodes"], list(LIBRARIES).index(row["library"])))
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
