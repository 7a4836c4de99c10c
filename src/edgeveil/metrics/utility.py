"""How useful predictions are: accuracy and the papers' F1 scores, by class and by degree; homophily by cluster."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError

__all__ = ["by_degree", "default_metric", "f1_scores", "homophily", "predicted", "rare_class", "utility"]

Float = NDArray[np.float64]


def predicted(logits: Any, *, multilabel: bool) -> NDArray[np.int64]:
    """Classes [n], or 0/1 labels [n, L] at threshold 0 (probability one half)."""
    logits = np.asarray(logits)
    out: NDArray[np.int64] = (logits > 0).astype(np.int64) if multilabel else logits.argmax(axis=1).astype(np.int64)
    return out


def _counts(said: Any, y: Any, classes: int) -> tuple[Float, Float, Float]:
    """True positives, predictions and truths per class."""
    if y.ndim == 2:
        return (said * y).sum(0).astype(float), said.sum(0).astype(float), y.sum(0).astype(float)
    hits = np.bincount(y[said == y], minlength=classes)
    return (
        hits.astype(float),
        np.bincount(said, minlength=classes).astype(float),
        np.bincount(y, minlength=classes).astype(float),
    )


def f1_scores(said: Any, y: Any, classes: int) -> Float:
    """F1 of every class, 0 where a class is neither predicted nor present."""
    hits, guessed, true = _counts(said, y, classes)
    total = guessed + true
    return np.divide(2 * hits, total, out=np.zeros_like(hits), where=total > 0)


def rare_class(y: Any) -> int:
    """The rarer of two classes in these labels (LinkTeller App. F2: rarer in the test graph); ties give class 1."""
    counts = np.bincount(np.asarray(y), minlength=2)
    return int(counts[0] < counts[1]) ^ 1


def _select(logits: Any, y: Any, mask: Any, multilabel: bool) -> tuple[Any, Any]:
    logits, y = np.asarray(logits), np.asarray(y)
    if len(logits) != len(y) or (y.ndim == 2) != multilabel:
        raise InputError(f"logits {logits.shape} and labels {y.shape} do not fit (multilabel={multilabel})")
    keep = np.ones(len(y), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if not multilabel:
        keep = keep & (y >= 0)
    if not keep.any():
        raise InputError("no labelled node to score: the mask is empty; choose another part of the split")
    return logits[keep], y[keep]


def utility(logits: Any, y: Any, mask: Any = None, *, multilabel: bool = False) -> dict[str, Any]:
    """accuracy, micro_f1, macro_f1, per_class_f1 (list), nodes; for two classes also rare_f1 and rare_class.

    Multi-label accuracy is the share of correct cells. Macro-F1 averages classes that are predicted or present, as
    scikit-learn does.
    """
    logits, y = _select(logits, y, mask, multilabel)
    said, classes = predicted(logits, multilabel=multilabel), logits.shape[1]
    hits, guessed, true = _counts(said, y, classes)
    per_class = f1_scores(said, y, classes)
    seen = np.ones(classes, dtype=bool) if multilabel else (guessed + true) > 0
    total = float(guessed.sum() + true.sum())
    out: dict[str, Any] = {
        "accuracy": float((said == y).mean()),
        "micro_f1": float(2 * hits.sum() / total) if total else 0.0,
        "macro_f1": float(per_class[seen].mean()),
        "per_class_f1": [float(v) for v in per_class],
        "nodes": len(y),
    }
    if classes == 2 and not multilabel:
        rare = rare_class(y)
        out |= {"rare_class": rare, "rare_f1": float(per_class[rare])}
    return out


def default_metric(classes: int, *, multilabel: bool = False) -> str:
    """The one figure that stands for utility where none is named: F1 of the rarer of two classes, else micro-F1."""
    return "rare_f1" if classes == 2 and not multilabel else "micro_f1"


def by_degree(
    logits: Any, y: Any, degrees: Any, edges: Sequence[float], mask: Any = None, *, multilabel: bool = False
) -> list[dict[str, Any]]:
    """Utility of the nodes whose degree lies in [edges[i], edges[i+1]) (LinkTeller Fig. 4); empty bins are left out.

    In a two-class problem every bin scores the class that is rare among all the nodes, not within the bin.
    """
    logits, y, degrees = np.asarray(logits), np.asarray(y), np.asarray(degrees)
    keep = np.ones(len(y), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if not multilabel:
        keep = keep & (y >= 0)
    rows = []
    for low, high in itertools.pairwise(edges):
        inside = keep & (degrees >= low) & (degrees < high)
        if not inside.any():
            continue
        row = utility(logits, y, inside, multilabel=multilabel)
        if "rare_class" in row:
            rare = rare_class(y[keep])
            row |= {"rare_class": rare, "rare_f1": row["per_class_f1"][rare]}
        rows.append({"low": float(low), "high": float(high), **row})
    return rows


def homophily(adjacency: Any, clusters: Any, num_clusters: int | None = None) -> Float:
    """AvgHomophily per cluster (LPGNet §4.2, Fig. 3): mean share of a node's neighbours that are in its own cluster.

    Isolated nodes have no such share and are left out; a cluster without any linked node is NaN.
    """
    clusters = np.asarray(clusters, np.int64)
    count = int(num_clusters if num_clusters is not None else clusters.max() + 1)
    lengths = np.diff(adjacency.indptr)
    rows = np.repeat(np.arange(adjacency.shape[0]), lengths)
    same = np.bincount(rows[clusters[rows] == clusters[adjacency.indices]], minlength=adjacency.shape[0])
    linked = lengths > 0
    share = np.divide(same, lengths, out=np.zeros(len(lengths)), where=linked)
    total = np.bincount(clusters[linked], weights=share[linked], minlength=count)
    size = np.bincount(clusters[linked], minlength=count)
    mean: Float = np.divide(total, size, out=np.full(count, np.nan), where=size > 0)
    return mean
