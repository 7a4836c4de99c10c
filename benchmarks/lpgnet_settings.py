"""How far LPGNet on Cora hangs on its hyper-parameters: six points of the paper's grid, published noise, five seeds.

    python benchmarks/lpgnet_settings.py [--extra 2]

Explains differences in docs/fidelity.md; no preset was chosen with it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

import edgeveil as ev
from edgeveil.models import preset

POINTS = (
    (0.01, 256, 2, 0.5), (0.05, 256, 2, 0.1), (0.05, 256, 3, 0.3),
    (0.05, 64, 2, 0.3), (0.005, 16, 2, 0.1), (0.001, 64, 2, 0.1),
)  # fmt: skip


def main() -> None:
    """Print test micro-F1 at epsilon 1 and 4 for every point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--extra", type=int, default=1, help="number of extra MLPs")
    extra = parser.parse_args().extra
    graph, base = ev.load("cora"), preset("lpgnet", "cora", "mlp")
    print("rate, hidden, layers, dropout: epsilon 1, epsilon 4")
    for rate, hidden, layers, dropout in POINTS:
        model = replace(base.model, hidden=hidden, layers=layers, dropout=dropout)
        how = {"layers": extra, "variant": "published", "model": model, "train": replace(base.train, lr=rate)}
        parts = []
        for epsilon in (1.0, 4.0):
            runs = [ev.defend(graph, "lpgnet", epsilon=epsilon, seed=seed, **how) for seed in range(5)]
            found = [run.utility()["micro_f1"] for run in runs]
            parts.append(f"{np.mean(found):.3f} ± {np.std(found, ddof=1):.3f}")
        print(f"{rate:g}, {hidden}, {layers}, {dropout:g}: {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
