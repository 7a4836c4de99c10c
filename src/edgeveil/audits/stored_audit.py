"""Looking at a graph that stays in files: its facts, a part of it small enough for an audit, a release of that part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.graph.stored.graph_in_files import StoredGraph
from edgeveil.release.release import Release
from edgeveil.seeds import stream

__all__ = ["part_of_release", "sampled_graph", "stored_inspection", "stored_utility"]

Int = NDArray[np.int64]
STARTS = 20
JUDGED = 20_000
COUNTS_UNREAD = (
    "a part of the graph is attacked: what the release stores about counts concerns neighbours outside it too, so that "
    "attacks on stored counts are left out"
)


def stored_inspection(graph: StoredGraph) -> list[str]:
    """Facts about a graph in files, one per line; for the owner's eyes."""
    nodes, degrees = graph.nodes, graph.degrees()
    pairs = graph.num_nodes * (graph.num_nodes - 1) / 2
    quantiles = {"least": 0.0, "10%": 0.1, "median": 0.5, "90%": 0.9, "99%": 0.99, "most": 1.0}
    shown = ", ".join(f"{name} {np.quantile(degrees, q):g}" for name, q in quantiles.items())
    lines = [
        f"nodes: {graph.num_nodes:,}",
        f"edges: {graph.num_edges:,} in files, density {graph.num_edges / max(pairs, 1):.3g}",
        f"degrees: {shown}; {int((degrees == 0).sum()):,} nodes without edges",
    ]
    if nodes.y is not None:
        counts = np.bincount(nodes.y[nodes.y >= 0], minlength=nodes.num_classes)
        names = nodes.class_names or [str(k) for k in range(nodes.num_classes)]
        shares = (f"{name} {count / max(counts.sum(), 1):.1%}" for name, count in zip(names, counts, strict=True))
        lines.append("classes: " + ", ".join(shares))
    same = graph.homophily()
    if same is not None:
        lines.append(f"homophily: {same:.1%} of the edges stay inside a class")
    if graph.table is not None:
        lines.append(f"features: {graph.table.num_features:,}, read in {graph.table.num_blocks:,} blocks")
    return lines


def sampled_graph(graph: StoredGraph, size: int, seed: int = 0) -> tuple[Int, Graph]:
    """A snowball sample as an ordinary graph: random nodes, their neighbours, theirs, until there are `size`.

    A uniform sample of a large sparse graph holds no edge. Edges that leave the sample are cut.
    """
    rng, wanted = stream(seed, "sampled graph"), min(size, graph.num_nodes)
    found, frontier = np.empty(0, np.int64), np.empty(0, np.int64)
    while len(found) < wanted:
        if not len(frontier):
            frontier = np.setdiff1d(rng.choice(graph.num_nodes, min(STARTS, wanted), replace=False), found)
        else:
            frontier = np.setdiff1d(graph.neighbours(frontier), found)
        frontier = rng.permutation(frontier)[: wanted - len(found)]
        found = np.union1d(found, frontier)
    part = graph.nodes.subgraph(found).with_edges(np.searchsorted(found, graph.edges_within(found)))
    return found, part if graph.table is None else part.with_features(graph.table.rows(found))


def part_of_release(release: Release, nodes: Int) -> Release:
    """The release for some nodes alone, with the statistics stored for the whole graph: answers stay the same."""
    if not release.predictor.rowwise:
        raise InputError(
            f"an answer of this {release.defence} release depends on the features of other nodes, so that no part of "
            "it answers the same; audit it on a graph in memory"
        )
    part: Any = release.predictor.induced(nodes)
    if part.stores_counts:
        part.noise, part.stores_counts = None, False
    names = None if release.node_ids is None else release.node_ids[nodes]
    return replace(
        release, predictor=part, matrix=release.matrix.take(nodes), node_ids=names, evaluation=None,
        notes=(*release.notes, COUNTS_UNREAD),
    )  # fmt: skip


def stored_utility(release: Release, graph: StoredGraph) -> tuple[float, int] | None:
    """Accuracy on at most `JUDGED` labelled test nodes, and how many they are; None if there are none."""
    y, masks = graph.nodes.y, graph.nodes.masks
    if y is None:
        return None
    test = np.flatnonzero((y >= 0) & (True if masks is None else masks.test))[:JUDGED]
    if not len(test):
        return None
    answers = release.predictor.induced(test).logits(release.matrix.take(test)).argmax(axis=1)
    return float((answers == y[test]).mean()), len(test)
