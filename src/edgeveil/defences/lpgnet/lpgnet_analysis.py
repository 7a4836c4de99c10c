"""Why LPGNet works where it does: homophily, noisy edges, similar degree vectors, sweet spots (LPGNet 3 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError, MissingExtra
from edgeveil.graph.cluster_degrees import check_clusters
from edgeveil.graph.graph import Graph
from edgeveil.metrics.utility import homophily

__all__ = [
    "Cosines",
    "SweetSpot",
    "cluster_cosines",
    "homophily_by_cluster",
    "noisy_edge_share",
    "plot_homophily",
    "sweet_spot",
]

Float = NDArray[np.float64]
SweetSpot = Literal["sweet spot", "no better than an MLP", "leaks like a GCN", "neither useful nor private"]


def homophily_by_cluster(graph: Graph, labels: Any, num_clusters: int) -> Float:
    """`edgeveil.metrics.utility.homophily` of a graph, after checking that every node has a cluster."""
    return homophily(graph.adjacency, check_clusters(labels, graph.num_nodes, num_clusters), num_clusters)


def noisy_edge_share(graph: Graph, noisy: Graph) -> float:
    """Share of the noisy graph's edges that are not true (LPGNet Table 1 for DPGCN); 0 for a graph without edges."""
    if graph.num_nodes != noisy.num_nodes:
        raise InputError(f"the graphs have {graph.num_nodes} and {noisy.num_nodes} nodes; they must share their nodes")
    if not noisy.num_edges:
        return 0.0
    return float(1.0 - np.isin(noisy.edge_ranks, graph.edge_ranks, assume_unique=True).mean())


class Cosines(NamedTuple):
    """Mean cosine similarity of pairs of degree vectors: inside each cluster, inside any, and across clusters."""

    per_cluster: Float
    within: float
    between: float


def cluster_cosines(vectors: Any, labels: Any) -> Cosines:
    """Exact means over all pairs in O(nC): sums of unit vectors instead of n² pairs. Zero vectors have no direction."""
    x = np.asarray(vectors, np.float64)
    clusters = np.asarray(labels)
    if x.ndim != 2 or clusters.shape != (len(x),):
        raise InputError(f"one label per vector is needed, got vectors {x.shape} and labels {clusters.shape}")
    length = np.linalg.norm(x, axis=1)
    x, clusters = x[length > 0] / length[length > 0, None], clusters[length > 0]
    count = np.bincount(clusters)
    sums = np.stack([x[clusters == c].sum(axis=0) for c in range(len(count))]) if len(x) else np.zeros((0, 1))
    inside = (sums**2).sum(axis=1) - count  # twice the sum over the pairs of one cluster
    pairs = count * (count - 1)
    total = float((sums.sum(axis=0) ** 2).sum()) - len(x)
    across = len(x) * (len(x) - 1) - int(pairs.sum())
    per_cluster = np.divide(inside, pairs, out=np.full(len(count), np.nan), where=pairs > 0)
    within = float(inside.sum() / pairs.sum()) if pairs.sum() else float("nan")
    return Cosines(per_cluster, within, (total - float(inside.sum())) / across if across else float("nan"))


def sweet_spot(utility: float, leakage: float, *, mlp_utility: float, gcn_leakage: float) -> SweetSpot:
    """LPGNet section 2.3: a defence is worth having where it beats the MLP in utility *and* leaks less than the GCN.

    The four figures are compared as they are: given means over seeds, a sweet spot may still be chance.
    """
    for name, value in (("utility", utility), ("leakage", leakage), ("mlp", mlp_utility), ("gcn", gcn_leakage)):
        if not np.isfinite(value):
            raise InputError(f"the {name} figure must be a number, got {value}")
    useful, private = utility > mlp_utility, leakage < gcn_leakage
    if useful and private:
        return "sweet spot"
    if private:
        return "no better than an MLP"
    return "leaks like a GCN" if useful else "neither useful nor private"


def plot_homophily(series: Mapping[str, Float], path: str | Path, title: str = "") -> Path:
    """Draw homophily plots (LPGNet Fig. 3), one line per named source of clusters (truth, MLP, LPGNet, GCN)."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("drawing homophily plots", "report") from error
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for name, values in series.items():
        axes.plot(np.arange(len(values)), values, marker="o", label=name)
    axes.set(xlabel="cluster", ylabel="mean share of neighbours in the same cluster", ylim=(0, 1.02), title=title)
    axes.set_xticks(range(max((len(values) for values in series.values()), default=0)))
    axes.legend(frameon=False)
    figure.savefig(path)
    return Path(path)
