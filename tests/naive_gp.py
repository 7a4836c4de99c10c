"""GraphPrivatizer Alg. 1-4 exactly as printed, one node and one neighbour at a time. The oracle of the fast code."""

from __future__ import annotations

import math

import numpy as np

from edgeveil.graph.graph import Graph


def mixed_features(x: np.ndarray, graph: Graph, alpha: float) -> np.ndarray:
    """Eq. 3."""
    out = np.empty_like(x)
    for u in range(graph.num_nodes):
        near = graph.neighbours(u)
        mean = x[near].mean(axis=0) if len(near) else np.zeros(x.shape[1])
        out[u] = (1 - alpha) * x[u] + alpha * mean
    return out


def alike(a: np.ndarray, b: np.ndarray, metric: str) -> float:
    """Eq. 4, or 1/(1 + distance)."""
    if metric == "euclidean":
        return 1 / (1 + float(np.linalg.norm(a - b)))
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length else 0.0


def candidates(
    graph: Graph, x: np.ndarray, v: int, u: int, *, strategy: str, alpha: float, delta: float, metric: str
) -> list[int]:
    """S(u) as seen from v."""
    xa = mixed_features(x, graph, alpha)
    scored = [(alike(xa[u], xa[w], metric), int(w)) for w in graph.neighbours(u) if w != v]
    if strategy == "most-similar":
        scored = [max(scored, key=lambda s: (round(s[0], 9), -s[1]))] if scored else []
    return sorted(w for s, w in scored if s >= delta - 1e-9)


def probabilities(epsilon: float, u: int, others: list[int]) -> dict[int, float]:
    """Eq. 5 and 6."""
    whole = math.exp(epsilon) + len(others)
    return {u: math.exp(epsilon) / whole} | dict.fromkeys(others, 1 / whole)


def perturb(graph: Graph, x: np.ndarray, epsilon: float, rng: np.random.Generator, **how: object) -> list[set[int]]:
    """Alg. 1 for every node."""
    out = []
    for v in range(graph.num_nodes):
        noisy = set()
        for u in graph.neighbours(v):
            chances = probabilities(epsilon, int(u), candidates(graph, x, v, int(u), **how))  # type: ignore[arg-type]
            noisy.add(int(rng.choice(list(chances), p=list(chances.values()))))
        out.append(noisy)
    return out
