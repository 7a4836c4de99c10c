"""The one-run audit through a trained model: plant edges, train under a defence, let an attack guess the coins.

The bound is weaker than one from the noisy graph itself, but it holds for anything that answers queries, and it says
how much of the promised privacy loss an attacker can really use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.attack import ATTACKS, AttackResult, by_strength
from edgeveil.audits.audit import AuditPlan, graphs_of
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import rank
from edgeveil.privacy.canaries import audit_scores, by_rank, plant
from edgeveil.privacy.verify import Finding, Verification
from edgeveil.release.release import Release
from edgeveil.release.target import Target
from edgeveil.runs.measure import Measured, measure, measure_target
from edgeveil.runs.run_config import AttackConfig
from edgeveil.runs.score import Given, why_not
from edgeveil.seeds import derive, stream

__all__ = ["verify_through"]


def verify_through(
    graph: Graph,
    defence: str,
    *,
    epsilon: float | None,
    model: str = "gcn",
    attack_name: str | None = "linkteller",
    canaries: int = 400,
    guesses: int | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    params: Mapping[str, Mapping[str, Any]] | None = None,
    training: Mapping[str, Any] | None = None,
) -> Verification:
    """Bound epsilon from attack scores on coin-inserted pairs; the top and bottom `guesses`/2 scores are guessed.

    Without an `attack_name` the strongest attack that fits the release guesses. `guesses` defaults to a quarter of the
    canaries and is fixed before the model is trained. `params` sets parameters by the name of the defence or attack,
    `training` fields of an `AuditPlan` that the release is trained by (scaling, preset, model_params, train_params).
    """
    planted = plant(graph, canaries, stream(seed, "canaries"))
    limit = canaries // 4 if guesses is None else guesses
    plan = AuditPlan(
        defences=(defence,), epsilons=() if epsilon is None else (epsilon,), model=model, params=params or {},
        **(training or {}),
    )  # fmt: skip
    found = _measure(plan, planted.graph, planted.pairs, attack_name, seed)
    assert found.release is not None
    claim, result = found.release.guarantee, found.attacked[0].result
    run = audit_scores(
        _signed(result, planted.pairs), planted.coins,
        limit=limit, miss=1 - confidence, rng=stream(seed, "guesses"), delta=claim.delta,
    )  # fmt: skip
    detail = f"{run.canaries:,} canaries in {graph.name}, {run.right:,} of {run.guesses:,} guesses right"
    finding = Finding(f"one-run audit through {model} with {result.attack}", run.lower_bound, detail, run.ceiling)
    claimed = math.inf if claim.claimed_epsilon is None else claim.claimed_epsilon
    return Verification(defence, claimed, confidence, (finding,), claim.delta)


def _measure(plan: AuditPlan, graph: Graph, pairs: NDArray[np.int64], attack: str | None, seed: int) -> Measured:
    graphs = graphs_of(graph, None)
    epsilon = plan.epsilons[0] if plan.epsilons else None
    config = plan.config(graphs, plan.defences[0], epsilon, derive(seed, "through"))
    trained = measure(config.model_copy(update={"attacks": (), "details": False}), graphs)
    assert trained.release is not None
    coins = rank(pairs[0], pairs[1], graph.num_nodes)
    u, v = graph.edge_index
    sure = ~np.isin(rank(u, v, graph.num_nodes), coins)
    others = np.stack([u[sure], v[sure]])
    name = strongest(trained.release) if attack is None else attack
    on_pairs = AttackConfig(
        name=name,
        params=_even(name) | plan.params_of(name),
        protocol="given",
        beliefs=("k",),
        seed=derive(seed, "attack"),
    )
    given = Given(pairs=pairs, known_edges=others if "prior" in on_pairs.params else None)
    found = measure_target(trained.release, graph, (on_pairs,), seed=config.seed, given=given)
    return replace(found, figures=trained.figures)


def _even(attack: str) -> dict[str, float]:
    """Coins are fair: an attack that weighs evidence starts from even odds instead of what features say."""
    return {"prior": 0.5} if ATTACKS.takes(attack, "prior") else {}


def strongest(release: Release) -> str:
    """The strongest attack that fits a release at hand."""
    target = Target.local(release)
    return next(name for name in by_strength() if not why_not(AttackConfig(name=name, where_it_fits=True), target))


def _signed(result: AttackResult, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Above zero for "in": a probability by its log-odds, any other score by its rank."""
    scores = _scores(result, pairs)
    if "prior" not in result.params:
        return by_rank(scores)
    sure = np.clip(scores, 1e-12, 1 - 1e-12)
    return np.asarray(np.log(sure) - np.log1p(-sure), np.float64)


def _scores(result: AttackResult, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores in the order of `pairs`, whatever order the attack lists them in."""
    listed = {(int(u), int(v)): s for u, v, s in zip(*np.sort(result.pairs, axis=0), result.scores, strict=True)}
    return np.array([listed.get((int(u), int(v)), result.floor) for u, v in pairs.T])
