"""A quick empirical check of every claimed epsilon in an audit, on planted edges, so that homophily cannot help."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgeveil.defences.defence import DEFENCES, Defence
from edgeveil.defences.defend import make_defence
from edgeveil.errors import InputError, TooLarge
from edgeveil.privacy.audit_bounds import clopper_pearson
from edgeveil.privacy.bounds import precision_bound, precision_bound_tight
from edgeveil.privacy.experiments import Auditable, Effort
from edgeveil.privacy.verify import Verification, verify

__all__ = ["verify_plan"]

COIN = 0.5  # the share of planted pairs that become edges
CANARIES, RUNS = 40_000, 20_000
MISS = 0.01


def verify_plan(
    defences: Sequence[str],
    epsilons: Sequence[float],
    seed: int,
    params_of: Callable[[str], Mapping[str, Any]] = lambda _: {},
) -> list[dict[str, Any]]:
    """One entry per defence and epsilon that can be verified: claim, lower bound, precision on planted edges.

    Each is judged by the first of its experiments alone, with seeded noise; `edgeveil verify` looks longer.
    """
    found = []
    for name in defences:
        if not DEFENCES.takes(name, "epsilon"):
            continue
        for epsilon in epsilons:
            if math.isfinite(epsilon):
                found += _verify(name, make_defence(name, epsilon, **params_of(name)), epsilon, seed)
    return found


def _verify(name: str, mechanism: Defence, epsilon: float, seed: int) -> list[dict[str, Any]]:
    if not isinstance(mechanism, Auditable):
        return []
    try:
        effort = Effort(runs=RUNS, canaries=CANARIES, seed=seed, secure=False)
        result = verify(mechanism, effort, confidence=1 - MISS, first=1)
    except (InputError, TooLarge):
        return []
    entry = {
        "defence": name,
        "epsilon": epsilon,
        "claimed": result.claimed,
        "lower": result.lower_bound,
        "ceiling": result.ceiling,
        "verdict": result.verdict,
    }
    return [entry | _precision(result)]


def _precision(result: Verification) -> dict[str, Any]:
    """How many of the pairs said to be edges are, and its bound; nothing where no pair was planted or named."""
    finding = result.findings[0]
    if not finding.named:
        return {}
    return {
        "density": COIN,
        "named": finding.named,
        "precision": finding.named_right / finding.named,
        "interval": clopper_pearson(finding.named_right, finding.named, MISS),
        "bound": precision_bound(result.claimed, COIN),
        "tight": precision_bound_tight(result.claimed, COIN),
    }
