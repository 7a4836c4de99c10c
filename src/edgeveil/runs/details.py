"""What an owner wants to see of one run and rows cannot hold: curves, exposure per node, which edges are found."""

from __future__ import annotations

import base64
import itertools
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.attack import ATTACKS
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Split
from edgeveil.metrics.edge_draw import EdgeDraw
from edgeveil.metrics.ties import group
from edgeveil.metrics.utility import predicted
from edgeveil.release.release import Release
from edgeveil.runs.run_config import AttackConfig
from edgeveil.runs.score import Attacked, Given, Service, attack_service, figures_of

__all__ = [
    "budget_curve",
    "degree_bins",
    "labelled_nodes",
    "leak_details",
    "packed_answers",
    "reliability",
    "roc_curve",
    "unpacked",
    "utility_by_degree",
]

Int = NDArray[np.int64]
EXPOSURE_BINS = ("none", "under half", "half or more", "all")
SAID = (1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9)  # probabilities between bins
BUDGETS = (10, 25, 50, 100, 200)
WHOLE_BUDGETS = (10, None)  # None: what certainty needs
SMALL = 5000  # nodes


def leak_details(attacked: Sequence[Attacked], truth: Graph) -> dict[str, Any]:
    """The strongest attack on a set of nodes: ROC curve, nodes by exposure and by degree, edges as it ranks them."""
    ranked = [(_leakage(part), part) for part in attacked if part.nodes is not None]
    known = [(value, part) for value, part in ranked if not math.isnan(value)]
    if not known:
        return {"strongest": "", "roc": {}, "by_degree": [], "exposure": {}, "found": []}
    best = max(known, key=lambda pair: pair[0])[1]
    return _describe(best, truth) | {"reliability": reliability(attacked)}


def reliability(attacked: Sequence[Attacked]) -> list[dict[str, Any]]:
    """For attacks whose scores are probabilities: what they say of pairs, and how many of these are edges."""
    out = []
    for part in attacked:
        if part.nodes is None or not ATTACKS.get(part.config.name).calibrated:
            continue
        scores, edges, w = part.result.scores, part.truth, part.weights
        place = np.searchsorted(SAID, scores, side="right")
        bins = [
            {"said": _mean(scores, m, w), "share": _mean(edges, m, w), "pairs": int(m.sum())}
            for m in (place == k for k in range(len(SAID) + 1))
            if m.any()
        ]
        out.append({"attack": part.config.name, "bins": bins})
    return out


def _mean(values: NDArray[Any], part: NDArray[np.bool_], weights: NDArray[np.float64] | None) -> float:
    return float(np.average(values[part], weights=None if weights is None else weights[part]))


def _leakage(attacked: Attacked) -> float:
    return next(iter(figures_of(attacked).values()))["leakage"]


def _describe(best: Attacked, truth: Graph) -> dict[str, Any]:
    result, edges, nodes = best.result, best.truth, best.nodes
    assert nodes is not None
    order = result.top(len(result.scores))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    hit = edges & best.named
    w = best.weights
    total = np.bincount(result.pairs[:, edges].ravel(), minlength=truth.num_nodes)
    lost = np.bincount(result.pairs[:, hit].ravel(), minlength=truth.num_nodes)
    inside = nodes[total[nodes] > 0]
    picked = order[edges[order]]
    return {
        "strongest": best.config.name,
        "roc": roc_curve(result.scores, edges, rest=best.rest, weights=w),
        "by_degree": [
            {"bin": name, "nodes": int(m.sum()), "recall": _recall(inside[m], result.pairs[:, edges], hit[edges],
             None if w is None else w[edges])}
            for name, m in degree_bins(truth, inside).items()
        ],
        "exposure": _exposure(inside, lost[inside] / total[inside]),
        "found": [
            {"u": int(result.pairs[0, i]), "v": int(result.pairs[1, i]), "rank": int(rank[i]),
             "score": float(result.scores[i]), "found": bool(hit[i])}
            for i in picked
        ],
    }  # fmt: skip


def _recall(nodes: Int, edges: Int, hit: NDArray[np.bool_], weights: NDArray[np.float64] | None) -> float:
    """Share of the edges at some nodes that are found; one between two of them counts at both."""
    times = np.isin(edges, nodes).sum(axis=0) * (1.0 if weights is None else weights)
    return float((times @ hit) / times.sum())


def _exposure(nodes: Int, share: NDArray[np.float64]) -> dict[str, Any]:
    counts = [
        (share == 0).sum(),
        ((share > 0) & (share < 0.5)).sum(),
        ((share >= 0.5) & (share < 1)).sum(),
        (share == 1).sum(),
    ]
    return {
        "bins": list(EXPOSURE_BINS),
        "nodes": [int(c) for c in counts],
        "shares": {str(v): float(s) for v, s in zip(nodes, share, strict=True)},
    }


def degree_bins(graph: Graph, nodes: Int) -> dict[str, NDArray[np.bool_]]:
    """Which of `nodes` fall into each of up to four degree classes, cut at the quartiles of the whole graph."""
    degrees, everyone = graph.degrees[nodes], graph.degrees
    cuts = sorted({int(q) for q in np.quantile(everyone, [0.25, 0.5, 0.75])} - {int(everyone.max())})
    edges = [int(everyone.min()) - 1, *cuts, int(everyone.max())]
    bins = {}
    for low, high in itertools.pairwise(edges):
        mask = (degrees > low) & (degrees <= high)
        if mask.any():
            bins[str(high) if high == low + 1 else f"{low + 1}–{high}"] = mask
    return bins


def roc_curve(
    scores: Any, edges: Any, points: int = 60, rest: tuple[float, float] | None = None, weights: Any = None
) -> dict[str, Any]:
    """True-positive rates at logarithmically spaced false-positive rates, ties in expectation."""
    groups = group(scores, edges, rest, weights)
    rates = np.logspace(-5, 0, points)
    return {"fpr": [float(r) for r in rates], "tpr": [groups.tpr_at_fpr(float(r)) for r in rates],
            "auc": groups.auc(), "tpr_at_fpr_001": groups.tpr_at_fpr(0.001)}  # fmt: skip


def utility_by_degree(release: Release, truth: Graph) -> list[dict[str, Any]]:
    """Share of right answers among the test nodes of each degree class."""
    if truth.y is None or truth.multilabel:
        return []
    test = truth.masks.test if truth.masks is not None else np.ones(truth.num_nodes, dtype=bool)
    chosen = np.flatnonzero(test & (truth.y >= 0))
    right = predicted(release.predict(), multilabel=False)[chosen] == truth.y[chosen]
    bins = degree_bins(truth, chosen) if len(chosen) else {}
    return [{"bin": name, "nodes": int(m.sum()), "utility": float(right[m].mean())} for name, m in bins.items()]


def packed_answers(release: Release, truth: Graph, part: str = "test") -> str | None:
    """The classes named for every labelled node of a part, in the order of the ids: what comparisons by node need."""
    if truth.y is None:
        return None
    nodes = labelled_nodes(truth, part)
    said = predicted(release.predict(), multilabel=truth.multilabel)[nodes]
    plain = np.packbits(said.astype(bool), axis=1) if truth.multilabel else said.astype("<u2")
    return base64.b64encode(zlib.compress(plain.tobytes())).decode()


def unpacked(answers: str, labels: int | None = None) -> Int:
    """Inverse of `packed_answers`; `labels` is the number of labels per node where there are several."""
    plain = zlib.decompress(base64.b64decode(answers))
    if labels is None:
        return np.frombuffer(plain, "<u2").astype(np.int64)
    bits = np.frombuffer(plain, np.uint8).reshape(-1, -(-labels // 8))
    return np.unpackbits(bits, axis=1, count=labels).astype(np.int64)


def labelled_nodes(graph: Graph, part: str = "test", masks: Split | None = None) -> Int:
    """Nodes of a part of the split that have labels; without masks every labelled node is a test node."""
    masks = graph.masks if masks is None else masks
    inside = np.full(graph.num_nodes, part == "test") if masks is None else np.asarray(getattr(masks, part), bool)
    if graph.y is not None and not graph.multilabel:
        inside = inside & (graph.y >= 0)
    found: Int = np.flatnonzero(inside)
    return found


def budget_curve(
    service: Service, truth: Graph, nodes: Int, seed: int, draw: EdgeDraw | None = None
) -> list[dict[str, Any]]:
    """Edges found against the number of queries: attacks that save some, then one query per node.

    Attacks that ask about the whole graph, whichever nodes matter, are tried where that takes seconds.
    """
    common: dict[str, Any] = {"protocol": "given", "beliefs": ("k",), "seed": seed}
    tried: list[tuple[str, Mapping[str, Any]]] = []
    for entry in (e for e in ATTACKS if e.cls.saves_queries):
        if not entry.cls.whole:
            tried += [(entry.name, {"queries": q}) for q in BUDGETS if q < len(nodes)]
        elif truth.num_nodes <= SMALL:
            tried += [(entry.name, {"mode": "query", "queries": q}) for q in WHOLE_BUDGETS]
    tried += [(e.name, e.cls.each_node) for e in ATTACKS if e.cls.each_node is not None]
    points = []
    configs = tuple(
        AttackConfig(
            name=name, params=dict(params), where_it_fits=ATTACKS.get(name).whole,
            if_it_applies=not ATTACKS.get(name).whole, **common,
        )
        for name, params in tried
    )  # fmt: skip
    for part in attack_service(service, truth, configs, seed, Given(nodes, draw)):
        figures = figures_of(part)["k"]
        name = part.config.name
        points.append({"attack": name, "whole": ATTACKS.get(name).whole, "queries": part.result.queries,
                       "recall": figures["leakage"], "auc": figures["auc"]})  # fmt: skip
    return points
