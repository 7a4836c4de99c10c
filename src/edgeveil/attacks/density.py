"""How dense does Bob believe the graph is? Four ways to form the belief k (LinkTeller App. E2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError

__all__ = ["Belief", "from_known_edges", "from_link_prediction", "from_node_relations", "from_similar_graph"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Belief:
    """A density belief, how it was formed, and the score threshold it implies (None where there is none)."""

    density: float
    method: str
    threshold: float | None = None


def _index(pairs: Any, wanted: Any) -> Int:
    """Columns of `pairs` that hold the `wanted` pairs (either order); absent ones are left out."""
    a, b = (np.sort(np.asarray(p, np.int64).reshape(2, -1), axis=0) for p in (pairs, wanted))
    base = int(max(a.max(initial=0), b.max(initial=0))) + 1
    keys, asked = a[0] * base + a[1], b[0] * base + b[1]
    order = np.argsort(keys)
    at = order[np.minimum(np.searchsorted(keys, asked, sorter=order), len(keys) - 1)]
    out: Int = at[keys[at] == asked]
    return out


def _share_above(scores: Float, threshold: float, unlisted: int) -> float:
    return float((scores >= threshold).sum() / (len(scores) + unlisted))


def from_known_edges(
    scores: Any, pairs: Any, known_edges: Any, known_non_edges: Any = None, *, miss: float = 0.1, unlisted: int = 0
) -> Belief:
    """(a) Threshold the influence so that known edges and known non-edges are told apart best; k = share above it.

    With edges alone, the threshold lets the share `miss` of them slip. `unlisted`: pairs of a sparse result.
    """
    s = np.asarray(scores, np.float64)
    edges = s[_index(pairs, known_edges)]
    if not len(edges):
        raise InputError("none of the known edges is among the scored pairs; give edges between the attacked nodes")
    others = np.empty(0) if known_non_edges is None else s[_index(pairs, known_non_edges)]
    if not len(others):
        threshold = float(np.quantile(edges, miss, method="lower"))
    else:
        cuts = np.unique(edges)
        hit = (edges[None, :] >= cuts[:, None]).mean(axis=1)
        false = (others[None, :] >= cuts[:, None]).mean(axis=1)
        threshold = float(cuts[np.argmax(hit - false)])
    threshold = max(threshold, float(np.nextafter(0.0, 1.0)))
    return Belief(_share_above(s, threshold, unlisted), "known edges", threshold)


def from_node_relations(scores: Any, pairs: Any, node: Any, neighbours: Any = None, *, unlisted: int = 0) -> Belief:
    """(b) Raise k from 0 until every known relation of one node is inferred.

    Several nodes: give `node` as a mapping from nodes to their neighbours; the median of their beliefs counts.
    """
    s = np.asarray(scores, np.float64)
    known = node if isinstance(node, Mapping) else {node: neighbours}
    cuts = [_weakest(s, pairs, int(one), friends) for one, friends in known.items()]
    if not cuts:
        raise InputError("no node's relations are given; name at least one node and its neighbours")
    threshold = float(np.median(cuts))
    method = "relations of one node" if len(cuts) == 1 else f"relations of {len(cuts)} nodes"
    return Belief(_share_above(s, threshold, unlisted), method, threshold)


def _weakest(scores: Float, pairs: Any, node: int, neighbours: Any) -> float:
    friends = np.atleast_1d(np.asarray(neighbours, np.int64))
    found = scores[_index(pairs, np.stack([np.full_like(friends, node), friends]))]
    if not len(found):
        raise InputError(f"no scored pair joins node {node} with the given neighbours; name neighbours among the nodes")
    return float(found.min())


def from_link_prediction(
    features: Any, known_nodes: Any, known_edges: Any, wanted: Any, *, ridge: float = 1e-3
) -> Belief:
    """(c) Learn who is linked from attributes on a part of the graph that is known, predict the rest.

    `features` [n, d] of all nodes; among `known_nodes` every relation is known and `known_edges` [2, K] are the
    links; `wanted` [2, P] are the pairs of interest. Logistic regression on pair features, k = mean probability.
    """
    x = np.asarray(features, np.float64)
    nodes = np.asarray(known_nodes, np.int64)
    i, j = np.triu_indices(len(nodes), 1)
    pairs = np.stack([nodes[i], nodes[j]])
    truth = np.zeros(pairs.shape[1])
    truth[_index(pairs, known_edges)] = 1.0
    if not 0 < truth.sum() < len(truth):
        raise InputError("the known part must hold both linked and unlinked pairs; give more known nodes")
    design = _pair_features(x, pairs)
    mean, scale = design.mean(axis=0), design.std(axis=0) + 1e-12
    weights = _logistic((design - mean) / scale, truth, ridge)
    ends = np.asarray(wanted, np.int64)
    return Belief(float(_probability((_pair_features(x, ends) - mean) / scale, weights).mean()), "link prediction")


def from_similar_graph(num_nodes: int, num_edges: int, size: int | None = None, *, keep: str = "density") -> Belief:
    """(d) Take over a public graph's density, or (``keep="degree"``) its mean degree on a graph of `size` nodes."""
    if num_nodes < 2 or num_edges < 0:
        raise InputError(f"a graph with {num_nodes} nodes and {num_edges} edges has no density to take over")
    density = 2 * num_edges / (num_nodes * (num_nodes - 1))
    if keep == "degree":
        if size is None or size < 2:
            raise InputError("keep='degree' needs size: the number of nodes of the attacked graph")
        density = min(1.0, 2 * num_edges / num_nodes / (size - 1))
    elif keep != "density":
        raise InputError(f"keep must be 'density' or 'degree', got {keep!r}")
    return Belief(density, "similar graph")


def _pair_features(x: Float, pairs: Int) -> Float:
    """Symmetric attributes of a pair: cosine, inner product, distance, sizes."""
    a, b = x[pairs[0]], x[pairs[1]]
    dot = (a * b).sum(axis=1)
    na, nb = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    cosine = np.divide(dot, na * nb, out=np.zeros_like(dot), where=na * nb > 0)
    return np.stack([cosine, dot, np.linalg.norm(a - b, axis=1), na + nb, na * nb], axis=1)


def _probability(design: Float, weights: Float) -> Float:
    z = np.clip(design @ weights[1:] + weights[0], -500, 500)
    out: Float = 1 / (1 + np.exp(-z))
    return out


def _logistic(design: Float, truth: Float, ridge: float, rounds: int = 50) -> Float:
    """Ridge logistic regression by Newton steps; the intercept is not shrunk, so mean predictions match the truth."""
    full = np.column_stack([np.ones(len(design)), design])
    penalty = np.diag([0.0] + [ridge * len(design)] * design.shape[1])
    weights = np.zeros(full.shape[1])
    weights[0] = np.log(truth.mean() / (1 - truth.mean()))
    for _ in range(rounds):
        p = _probability(design, weights)
        hessian = (full * np.maximum(p * (1 - p), 1e-9)[:, None]).T @ full + penalty
        step = np.linalg.solve(hessian, full.T @ (truth - p) - penalty @ weights)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return weights
