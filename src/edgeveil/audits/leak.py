"""What one target gives away to several attacks: rows, curves, and which edges of which nodes are found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.api import attack
from edgeveil.attacks.base import AttackResult
from edgeveil.graph.graph import Graph
from edgeveil.metrics.protocol import BELIEFS, belief_figures
from edgeveil.metrics.ties import group

__all__ = ["Leak", "degree_bins", "measure_leak", "roc_curve"]

Int = NDArray[np.int64]
EXPOSURE_BINS = ("none", "under half", "half or more", "all")


@dataclass
class Leak:
    """The leakage of one target. `found` lists true edges in the order the strongest attack ranks them."""

    figures: list[dict[str, Any]] = field(default_factory=list)  # one per attack and belief
    strongest: str = ""
    roc: dict[str, Any] = field(default_factory=dict)
    by_degree: list[dict[str, Any]] = field(default_factory=list)
    exposure: dict[str, Any] = field(default_factory=dict)
    found: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def measure_leak(
    target: Any,
    truth: Graph,
    nodes: Int,
    attacks: Mapping[str, Mapping[str, Any]],
    *,
    seed: int = 0,
    beliefs: Sequence[str] = tuple(BELIEFS),
    features: Any = None,
) -> Leak:
    """Attack all pairs among `nodes` and compare with the true edges.

    LinkTeller's protocol, except that the density belief is not rounded: at belief k the attacker names exactly as
    many pairs as there are edges, so that precision and recall are one number that can be put into words.
    """
    leak = Leak()
    best: tuple[float, AttackResult, NDArray[np.bool_]] | None = None
    for name, params in attacks.items():
        result = attack(target, name, nodes=nodes, seed=seed, features=features, **params)
        edges = truth.has_edges(result.pairs[0], result.pairs[1])
        rows = belief_figures(result.scores, edges, {b: BELIEFS[b] for b in beliefs}, rounded=False)
        leak.figures += [_figure(name, belief, values, result, edges) for belief, values in rows.items()]
        leak.notes += [n for n in result.notes if n not in leak.notes]
        recall = rows["k"]["recall"]
        if best is None or (not math.isnan(recall) and recall > best[0]):
            best = (recall, result, edges)
    if best is not None and best[2].any():
        _describe(leak, best[1], best[2], truth, nodes)
    return leak


def _figure(
    name: str, belief: str, values: Mapping[str, float], result: AttackResult, edges: NDArray[np.bool_]
) -> dict[str, Any]:
    keys = ("auc", "average_precision", "precision", "recall", "f1", "tpr_at_fpr_001")
    return {
        "attack": name,
        "belief": belief,
        **{key: values[key] for key in keys},
        "queries": result.queries,
        "seconds_attack": result.seconds,
        "n_pairs": result.num_pairs,
        "n_edges": int(edges.sum()),
    }


def _describe(leak: Leak, result: AttackResult, edges: NDArray[np.bool_], truth: Graph, nodes: Int) -> None:
    leak.strongest = result.attack
    leak.roc = roc_curve(result.scores, edges)
    order = result.top(len(result.scores))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    hit = edges & (rank <= int(edges.sum()))
    total = np.bincount(result.pairs[:, edges].ravel(), minlength=truth.num_nodes)
    lost = np.bincount(result.pairs[:, hit].ravel(), minlength=truth.num_nodes)
    inside = nodes[total[nodes] > 0]
    share = lost[inside] / total[inside]
    counts = [
        (share == 0).sum(),
        ((share > 0) & (share < 0.5)).sum(),
        ((share >= 0.5) & (share < 1)).sum(),
        (share == 1).sum(),
    ]
    leak.exposure = {
        "bins": list(EXPOSURE_BINS),
        "nodes": [int(c) for c in counts],
        "shares": {int(v): float(s) for v, s in zip(inside, share, strict=True)},
    }
    leak.by_degree = [
        {"bin": name, "nodes": int(mask.sum()), "recall": float(lost[inside[mask]].sum() / total[inside[mask]].sum())}
        for name, mask in degree_bins(truth, inside).items()
    ]
    picked = order[edges[order]]
    leak.found = [
        {"u": int(result.pairs[0, i]), "v": int(result.pairs[1, i]), "rank": int(rank[i]),
         "score": float(result.scores[i]), "found": bool(hit[i])}
        for i in picked
    ]  # fmt: skip


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


def roc_curve(scores: Any, edges: Any, points: int = 60) -> dict[str, Any]:
    """True-positive rates at logarithmically spaced false-positive rates, ties in expectation."""
    groups = group(scores, edges)
    rates = np.logspace(-5, 0, points)
    return {"fpr": [float(r) for r in rates], "tpr": [groups.tpr_at_fpr(float(r)) for r in rates],
            "auc": groups.auc(), "tpr_at_fpr_001": groups.tpr_at_fpr(0.001)}  # fmt: skip
