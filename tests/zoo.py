"""Small graphs and the list of every registered method, shared by the contract tests."""

from __future__ import annotations

import numpy as np

from edgeveil.graph.graph import Graph

PLAIN = ("none", "mlp", "feature-graph", "lpgnn")  # take no epsilon


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


def three_classes() -> Graph:
    """120 nodes in three classes with homophily, features that help, and a split."""
    rng = np.random.default_rng(7)
    n = 120
    y = np.arange(n) % 3
    u, v = np.triu_indices(n, 1)
    keep = rng.random(len(u)) < np.where(y[u] == y[v], 0.12, 0.02)
    x = (rng.random((n, 18)) < 0.1 + 0.3 * (np.arange(18) % 3 == y[:, None])).astype(np.float32)
    part = rng.permutation(n)
    masks = {
        name: np.isin(np.arange(n), part[a:b]) for name, a, b in (("train", 0, 60), ("val", 60, 80), ("test", 80, n))
    }
    return Graph.from_edges(
        np.stack([u[keep], v[keep]]), x=x, y=y, name="toy", train_mask=masks["train"], val_mask=masks["val"],
        test_mask=masks["test"],
    )  # fmt: skip
