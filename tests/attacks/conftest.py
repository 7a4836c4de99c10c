"""A GCN written in plain NumPy: an oracle that shares no code with the package's models."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


class NumpyGcn:
    """ReLU GCN of any depth with symmetric normalisation, dense on purpose."""

    def __init__(self, n=60, classes=3, layers=2, density=0.06, features=12, hidden=16, seed=0):
        rng = np.random.default_rng(seed)
        a = np.triu(rng.random((n, n)) < density, 1)
        self.edges = np.array(np.nonzero(a))
        self.a = (a | a.T).astype(float)
        loops = self.a + np.eye(n)
        root = 1 / np.sqrt(loops.sum(1))
        self.p = root[:, None] * loops * root[None]
        self.x = rng.random((n, features)) + 0.1
        sizes = [features, *[hidden] * (layers - 1), classes]
        self.w = [rng.normal(size=s) / np.sqrt(s[0]) for s in itertools.pairwise(sizes)]
        self.b = [0.1 * rng.normal(size=s) for s in sizes[1:]]

    def __call__(self, x, dtype=np.float64):
        h = np.asarray(x, dtype)
        p = self.p.astype(dtype)
        for k, (w, b) in enumerate(zip(self.w, self.b, strict=True)):
            h = p @ (h @ w.astype(dtype)) + b.astype(dtype)
            h = np.maximum(h, 0) if k + 1 < len(self.w) else h
        return h

    def truth(self, pairs):
        return self.a[pairs[0], pairs[1]] > 0

    def hops(self):
        """Shortest-path length of every pair, infinity when unconnected."""
        n = len(self.a)
        out = np.full((n, n), np.inf)
        reach = np.eye(n)
        for k in range(n):
            out[(reach > 0) & np.isinf(out)] = k
            reach = ((reach + reach @ self.a) > 0).astype(float)
        return out


@pytest.fixture
def gcn():
    return NumpyGcn()


@pytest.fixture
def make_gcn():
    return NumpyGcn


@pytest.fixture
def tools():
    return SimpleNamespace(softmax=softmax)
