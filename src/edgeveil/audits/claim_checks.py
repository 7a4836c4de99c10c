"""A quick empirical check of every claimed epsilon in an audit, on planted edges, so that homophily cannot help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from edgeveil.defences.api import make_defence
from edgeveil.defences.base import DEFENCES
from edgeveil.errors import InputError, TooLarge
from edgeveil.privacy.audit_bounds import clopper_pearson
from edgeveil.privacy.bounds import precision_bound, precision_bound_tight
from edgeveil.privacy.canaries import Canaries, audit_scores, plant, synthetic_graph
from edgeveil.privacy.verify import canary_scores, claim, judge, likelihood_test
from edgeveil.seeds import stream

__all__ = ["verify_plan"]

NODES, EDGES, CANARIES = 4_000, 20_000, 1_500
MISS = 0.01
TINY_RUNS = 400
ABSTAINING_RUNS = 20_000  # the only evidence then, and a bound near the claim needs many


def verify_plan(defences: Sequence[str], epsilons: Sequence[float], seed: int) -> list[dict[str, Any]]:
    """One entry per defence and epsilon that can be verified: claim, lower bound, precision on planted edges."""
    planted = plant(synthetic_graph(NODES, EDGES, seed), CANARIES, stream(seed, "audit", "canaries"))
    found = []
    for name in defences:
        entry = DEFENCES.entry(name)
        if "epsilon" not in getattr(entry.cls, "__dataclass_fields__", {}) or "epsilon" in entry.preset:
            continue
        for epsilon in epsilons:
            if math.isfinite(epsilon):
                found += _verify(name, epsilon, planted, seed)
    return found


def _verify(name: str, epsilon: float, planted: Canaries, seed: int) -> list[dict[str, Any]]:
    mechanism = make_defence(name, epsilon)
    if not (hasattr(mechanism, "perturb") or hasattr(mechanism, "canary_scores")):
        return []
    try:
        claimed, _ = claim(mechanism)
        if mechanism.status == "refuted":
            return [_on_tiny_graphs(name, mechanism, epsilon, TINY_RUNS, seed)]
        scores = canary_scores(mechanism, planted, stream(seed, "audit", name))
        if not scores.any():
            return [_on_tiny_graphs(name, mechanism, epsilon, ABSTAINING_RUNS, seed)]
    except (InputError, TooLarge):
        return []
    rng = stream(seed, "audit", "guesses")
    run = audit_scores(scores, planted.coins, limit=CANARIES, miss=MISS, rng=rng)
    said = scores > 0
    named, right = int(said.sum()), int(planted.coins[said].sum())
    density = float(planted.coins.mean())
    entry = _entry(name, epsilon, claimed, run.lower_bound) | {
        "density": density,
        "named": named,
        "precision": right / named if named else None,
        "interval": clopper_pearson(right, named, MISS) if named else None,
        "bound": precision_bound(claimed, density),
        "tight": precision_bound_tight(claimed, density),
    }
    return [entry]


def _on_tiny_graphs(name: str, mechanism: Any, epsilon: float, runs: int, seed: int) -> dict[str, Any]:
    """Without precision and its bound: those are about planted edges, which such a mechanism is not judged by."""
    bound = likelihood_test(mechanism, runs, MISS, seed=seed).lower_bound
    return _entry(name, epsilon, claim(mechanism)[0], bound)


def _entry(name: str, epsilon: float, claimed: float, bound: float) -> dict[str, Any]:
    return {"defence": name, "epsilon": epsilon, "claimed": claimed, "lower": bound, "verdict": judge(bound, claimed)}
