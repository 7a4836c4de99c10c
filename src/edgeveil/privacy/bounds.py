"""What edge differential privacy says an attacker can reach at most.

The bounds concern an edge whose presence was decided by a coin, independently of everything else. Real pairs carry
side information (similar features, common neighbours), which may beat these figures without refuting any guarantee;
compare them with attacks on coin-inserted canary pairs only.
"""

from __future__ import annotations

import math

from edgeveil.errors import InputError

__all__ = ["auc_bound", "precision_bound", "precision_bound_tight", "tpr_bound"]


def precision_bound(epsilon: float, density: float) -> float:
    """Theorem 6 of LinkTeller as printed: e^eps * k. It may exceed 1 and then says nothing."""
    _check(epsilon, density)
    return _exp(epsilon) * density


def precision_bound_tight(epsilon: float, density: float, delta: float = 0.0, recall: float = 1.0) -> float:
    """What the proof's Eq. 6 gives before it is loosened: e^eps k / (e^eps k + 1 - k), never above 1.

    With a delta the attacker's recall matters: non-edges are named at a rate of at least e^-eps (recall - delta).
    """
    _check(epsilon, density)
    _check(epsilon, delta)
    _check(epsilon, recall)
    if not density:
        return 0.0
    kept = max(0.0, 1 - delta / recall) if delta else 1.0
    return density / (density + (1 - density) * math.exp(-epsilon) * kept)


def auc_bound(epsilon: float, delta: float = 0.0) -> float:
    """AUC of the test "is this one edge in or out": at most 1 - (1 - delta)^2 / (1 + e^eps); e^eps/(1 + e^eps) if pure.

    The ROC curve lies below min(1, e^eps x + delta, 1 - e^-eps (1 - delta - x)). Above it lies the same figure as for
    delta 0, shrunk by 1 - delta both ways.
    """
    _check(epsilon, delta)
    return 1 - (1 - delta) ** 2 * math.exp(-epsilon) / (1 + math.exp(-epsilon))


def tpr_bound(epsilon: float, fpr: float, delta: float = 0.0) -> float:
    """True-positive rate at a false-positive rate: min(e^eps fpr + delta, 1 - e^-eps (1 - delta - fpr))."""
    _check(epsilon, fpr)
    return min(1.0, _exp(epsilon) * fpr + delta, 1 - math.exp(-epsilon) * (1 - delta - fpr))


def _exp(epsilon: float) -> float:
    return math.exp(epsilon) if epsilon < 700 else math.inf


def _check(epsilon: float, share: float) -> None:
    if not epsilon >= 0:
        raise InputError(f"a bound needs epsilon >= 0, got {epsilon!r}")
    if not 0 <= share <= 1:
        raise InputError(f"a density or rate must lie in [0, 1], got {share!r}")
