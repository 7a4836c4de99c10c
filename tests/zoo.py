"""Small graphs and the list of every registered method, shared by the contract tests."""

from __future__ import annotations

import numpy as np

from edgeveil.graph.graph import Graph

PLAIN = ("none", "mlp", "lpgnn")  # take no epsilon


def toy(n: int = 60, seed: int = 0, classes: int = 3, features: int = 24) -> Graph:
    """A homophilous graph with informative binary features and masks."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    u, v = np.triu_indices(n, 1)
    keep = rng.random(len(u)) < np.where(y[u] == y[v], 0.2, 0.03)
    x = (rng.random((n, features)) < 0.1 + 0.3 * (np.arange(features) % classes == y[:, None])).astype(np.float32)
    order = rng.permutation(n)
    masks = {}
    for part, (a, b) in {"train": (0, n // 2), "val": (n // 2, 3 * n // 4), "test": (3 * n // 4, n)}.items():
        masks[f"{part}_mask"] = np.isin(np.arange(n), order[a:b])
    return Graph.from_edges(np.stack([u[keep], v[keep]]), x=x, y=y, name="toy", **masks)
