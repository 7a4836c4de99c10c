"""What an owner should know about a graph before a model is trained on it. Computed from private edges: not private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from edgeveil.graph.graph import Graph

__all__ = ["Derived", "class_shares", "components", "degree_quantiles", "derived_columns", "edge_homophily", "pagerank"]

SUSPECT = 0.95  # rank correlation from which a feature column counts as a function of the edges
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
Float = NDArray[np.float64]


@dataclass(frozen=True)
class Derived:
    """A feature column that orders the nodes as the edges do: it tells edges whatever the defence."""

    column: str
    like: str  # degree or PageRank
    correlation: float

    def __str__(self) -> str:
        return (
            f"feature {self.column!r} follows the {self.like} (rank correlation {self.correlation:.2f}): if it was "
            "computed from these edges, it tells them and voids every epsilon; drop it"
        )


def class_shares(graph: Graph) -> dict[str, float]:
    """Share of the labelled nodes in every class, by its name; empty for several labels per node or none."""
    if graph.y is None or graph.multilabel:
        return {}
    counts = np.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes)
    names = graph.class_names or tuple(map(str, range(graph.num_classes)))
    return {name: float(count) / max(int(counts.sum()), 1) for name, count in zip(names, counts, strict=True)}


def degree_quantiles(graph: Graph) -> dict[float, float]:
    """Number of neighbours at some quantiles over nodes."""
    return dict(zip(QUANTILES, np.quantile(graph.degrees, QUANTILES).tolist(), strict=True))


def edge_homophily(graph: Graph) -> float | None:
    """Share of the edges between labelled nodes whose ends are of one class."""
    if graph.y is None or graph.multilabel:
        return None
    a, b = graph.y[graph.edge_index]
    known = (a >= 0) & (b >= 0)
    return float((a == b)[known].mean()) if known.any() else None


def components(graph: Graph) -> tuple[int, int]:
    """How many connected components there are, and the nodes of the largest."""
    count, part = connected_components(graph.adjacency, directed=False)
    return int(count), int(np.bincount(part).max())


def pagerank(graph: Graph, damping: float = 0.85, steps: int = 100) -> Float:
    """PageRank by power iteration; nodes without edges spread evenly."""
    n, degrees = graph.num_nodes, graph.degrees
    walk = sp.diags(np.divide(1.0, degrees, out=np.zeros(n), where=degrees > 0)) @ graph.adjacency
    rank = np.full(n, 1.0 / n)
    for _ in range(steps):
        new = (1 - damping) / n + damping * (walk.T @ rank + rank[degrees == 0].sum() / n)
        done = np.abs(new - rank).sum() < 1e-10
        rank = new
        if done:
            break
    return rank


def derived_columns(graph: Graph) -> list[Derived]:
    """Feature columns whose order of nodes is nearly that of the degree or of PageRank, either way round."""
    if graph.x is None or graph.num_edges == 0 or graph.num_nodes < 20:
        return []
    titles = graph.table.outputs if graph.table is not None else [f"column {i + 1}" for i in range(graph.num_features)]
    references = {"degree": _ranks(graph.degrees), "PageRank": _ranks(pagerank(graph))}
    x: Any = graph.x.tocsc() if sp.issparse(graph.x) else np.asarray(graph.x)
    found = []
    for at, title in enumerate(titles):
        column = x[:, [at]].toarray().ravel() if sp.issparse(x) else x[:, at]
        if len(np.unique(column[:1000])) < 3:
            continue
        order = _ranks(column)
        scores = {name: float(order @ ranks) for name, ranks in references.items()}
        like = max(scores, key=lambda name: abs(scores[name]))
        if abs(scores[like]) >= SUSPECT:
            found.append(Derived(title, like, scores[like]))
    return found


def _ranks(values: Any) -> Float:
    """Centred ranks of unit length, so that a product is Spearman's correlation."""
    _, places, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[places]  # ties share their mean rank
    ranks -= ranks.mean()
    length = np.linalg.norm(ranks)
    out: Float = ranks / length if length else ranks
    return out
