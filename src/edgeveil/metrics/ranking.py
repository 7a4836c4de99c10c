"""Privacy figures of one attack: how well its scores order edges before non-edges."""

from __future__ import annotations

import math
from typing import Any

from edgeveil.errors import InputError
from edgeveil.metrics.ties import NAN, TieGroups, group

__all__ = ["FALSE_POSITIVE_RATES", "at_belief", "at_count", "ranking", "top_share"]

FALSE_POSITIVE_RATES = {"tpr_at_fpr_001": 0.001, "tpr_at_fpr_01": 0.01, "tpr_at_fpr_1": 0.1}


def ranking(scores: Any, truth: Any, rest: tuple[float, float] | None = None, weights: Any = None) -> dict[str, float]:
    """Threshold-free figures: ``auc``, ``average_precision``, ``tpr_at_fpr_001`` (FPR 0.001), ``_01``, ``_1``.

    Ties count in expectation (see `edgeveil.metrics.ties`). `rest` = (edges, non-edges) among the pairs a sparse
    result leaves out; they rank last, tied. `weights`: how many pairs each listed one stands for. A figure without
    meaning (no edge, no non-edge) is NaN.
    """
    return of_groups(group(scores, truth, rest, weights))


def of_groups(groups: TieGroups) -> dict[str, float]:
    """The figures of `ranking` from tie groups."""
    figures = {"auc": groups.auc(), "average_precision": groups.average_precision()}
    return figures | {name: groups.tpr_at_fpr(fpr) for name, fpr in FALSE_POSITIVE_RATES.items()}


def at_belief(
    scores: Any, truth: Any, density: float, rest: tuple[float, float] | None = None, weights: Any = None
) -> dict[str, float]:
    """``precision``, ``recall`` and ``f1`` when the top share `density` of all pairs is called an edge.

    Nothing is rounded: a fractional number of predictions takes that fraction of the next pair.
    """
    if not 0 <= density <= 1:
        raise InputError(
            f"a density belief is a share of all pairs, 0 to 1, got {density!r}; cap beliefs such as 4k at 1"
        )
    groups = group(scores, truth, rest, weights)
    return count_figures(groups, density * (groups.positives + groups.negatives))


def at_count(
    scores: Any, truth: Any, k: float, rest: tuple[float, float] | None = None, weights: Any = None
) -> dict[str, float]:
    """``precision``, ``recall`` and ``f1`` when the k best pairs are called edges."""
    return count_figures(group(scores, truth, rest, weights), k)


def count_figures(groups: TieGroups, k: float) -> dict[str, float]:
    """Precision, recall and F1 of the k best pairs; F1 is linear in the hits, so it is an expectation too."""
    if not k >= 0 or math.isinf(k):
        raise InputError(f"the number of predicted pairs must be finite and >= 0, got {k!r}")
    edges = groups.positives
    k = min(float(k), edges + groups.negatives)
    hits = groups.hits(k)
    return {
        "precision": hits / k if k else NAN,
        "recall": hits / edges if edges else NAN,
        "f1": 2 * hits / (k + edges) if k + edges else NAN,
    }


def top_share(scores: Any, flag: Any, k: float) -> float:
    """Share of the k best pairs for which `flag` holds, e.g. "both ends are in one cluster" (LPGNet §5.4.1)."""
    return at_count(scores, flag, k)["precision"]
