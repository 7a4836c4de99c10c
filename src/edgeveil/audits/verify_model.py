"""The one-run audit through a trained model: plant edges, train under a defence, let an attack guess the coins.

The bound is weaker than one from the noisy graph itself, but it holds for anything that answers queries, and it says
how much of the promised privacy loss an attacker can really use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.base import AttackResult
from edgeveil.audits.audit import AuditPlan, graphs_of
from edgeveil.graph.graph import Graph
from edgeveil.privacy.canaries import audit_scores, by_rank, plant
from edgeveil.privacy.verify import Finding, Verification
from edgeveil.runs.measure import Measured, measure
from edgeveil.runs.run_config import AttackConfig
from edgeveil.runs.score import Given
from edgeveil.seeds import derive, stream

__all__ = ["verify_through"]


def verify_through(
    graph: Graph,
    defence: str,
    *,
    epsilon: float | None,
    model: str = "gcn",
    attack_name: str = "linkteller",
    canaries: int = 400,
    guesses: int | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    params: Mapping[str, Mapping[str, Any]] | None = None,
) -> Verification:
    """Bound epsilon from attack scores on coin-inserted pairs; the top and bottom `guesses`/2 scores are guessed.

    `guesses` defaults to a quarter of the canaries and is fixed before the model is trained. `params` sets parameters
    by the name of the defence or attack.
    """
    planted = plant(graph, canaries, stream(seed, "canaries"))
    limit = canaries // 4 if guesses is None else guesses
    found = _measure(planted.graph, planted.pairs, defence, epsilon, model, attack_name, seed, params or {})
    assert found.release is not None
    claim = found.release.guarantee
    run = audit_scores(
        by_rank(_scores(found.attacked[0].result, planted.pairs)), planted.coins,
        limit=limit, miss=1 - confidence, rng=stream(seed, "guesses"), delta=claim.delta,
    )  # fmt: skip
    detail = f"{run.canaries:,} canaries in {graph.name}, {run.right:,} of {run.guesses:,} guesses right"
    finding = Finding(f"one-run audit through {model} with {attack_name}", run.lower_bound, detail, run.ceiling)
    claimed = math.inf if claim.claimed_epsilon is None else claim.claimed_epsilon
    return Verification(defence, claimed, confidence, (finding,), claim.delta)


def _measure(
    graph: Graph, pairs: NDArray[np.int64], defence: str, epsilon: float | None, model: str, attack: str, seed: int,
    params: Mapping[str, Mapping[str, Any]],
) -> Measured:  # fmt: skip
    plan = AuditPlan(defences=(defence,), epsilons=() if epsilon is None else (epsilon,), model=model, params=params)
    graphs = graphs_of(graph, None)
    on_pairs = AttackConfig(
        name=attack, params=plan.params_of(attack), protocol="given", beliefs=("k",), seed=derive(seed, "attack")
    )
    config = plan.config(graphs, defence, epsilon, derive(seed, "through"))
    return measure(config.model_copy(update={"attacks": (on_pairs,), "details": False}), graphs, Given(pairs=pairs))


def _scores(result: AttackResult, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores in the order of `pairs`, whatever order the attack lists them in."""
    listed = {(int(u), int(v)): s for u, v, s in zip(*np.sort(result.pairs, axis=0), result.scores, strict=True)}
    return np.array([listed.get((int(u), int(v)), result.floor) for u, v in pairs.T])
