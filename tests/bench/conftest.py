"""A small graph and the payload module on the path of this process and its workers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from edgeveil.graph.graph import Graph

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture(scope="session")
def toy() -> Graph:
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
