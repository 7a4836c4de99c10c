"""Small graphs and the list of every registered method, shared by the contract tests."""

from __future__ import annotations

import numpy as np

from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs, sample_distinct

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


def planted(
    n: int, classes: int, within: float, between: float, features: int, signal: float = 0.3, *, train: int,
    seed: int = 0,
) -> Graph:  # fmt: skip
    """Edges by class alone, and features by class: similar along edges, and no other structure.

    The first `train` nodes train, as many validate, the rest tests.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    i, j = np.triu_indices(n, 1)
    keep = rng.random(len(i)) < np.where(y[i] == y[j], within, between)
    own = np.arange(features) % classes == y[:, None]
    x = (rng.random((n, features)) < 0.05 + signal * own).astype(np.float32)
    part = np.arange(n) // train
    return Graph.from_edges(
        np.stack([i[keep], j[keep]]), x=x, y=y, train_mask=part == 0, val_mask=part == 1, test_mask=part == 2,
    )  # fmt: skip


def bare(n: int, e: int, seed: int = 0) -> Graph:
    """Exactly `e` edges drawn uniformly, and nothing else."""
    empty = Graph.from_edges(np.empty((2, 0), np.int64), num_nodes=n)
    return empty.with_edge_ranks(sample_distinct(num_pairs(n), e, np.random.default_rng(seed)))


def edge_bits(graph: Graph) -> np.ndarray:
    """One truth value per pair, in the order of ranks."""
    out = np.zeros(num_pairs(graph.num_nodes), bool)
    out[graph.edge_ranks] = True
    return out


def scattered(n: int, edges: int, seed: int = 0) -> Graph:
    """About `edges` random edges, five features and three classes that mean nothing, every third node each to learn,
    validate and test."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, n, (2, edges))
    part = np.arange(n) % 3
    return Graph.from_edges(
        raw[:, raw[0] != raw[1]], num_nodes=n, x=rng.random((n, 5)).astype(np.float32), y=rng.integers(0, 3, n),
        train_mask=part == 0, val_mask=part == 1, test_mask=part == 2,
    )  # fmt: skip


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
