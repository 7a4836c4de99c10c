"""A trained release applied to a new or changed private graph: one fresh private statistic, no training.

EdgeRand and LapGraph perturb the new graph once; LPGNet asks it for one noisy degree-vector query per layer; an MLP
asks nothing. The model's weights stay as they are, and they were learnt under the old release's epsilon: an edge that
is in both graphs pays for both, so that sum is what the new release states.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from edgeveil.defences.base import DEFENCES, Defence, EdgeMechanism
from edgeveil.defences.lpgnet import LPGNet
from edgeveil.errors import InputError
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import Budget, check_epsilon, exact
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee
from edgeveil.release.lpgnet_predictor import LPGNetPredictor, row_logits, stack_features
from edgeveil.release.predictors import GraphPredictor, Predictor, TabularPredictor
from edgeveil.release.release import Release
from edgeveil.seeds import derive

__all__ = ["renew", "renewal_epsilon"]

SNAPSHOT = "snapshot"
SUM_NOTE = "An edge that stands in further snapshots pays for each of them; a server's ledger adds them up"


def renewal_epsilon(release: Release, epsilon: float | None = None) -> Fraction:
    """What `renew` would cost; refuses releases without a sound guarantee, where no epsilon can be stated."""
    if release.guarantee.status != "sound":
        raise InputError(
            f"a {release.defence!r} release has no sound guarantee, so a new graph has no epsilon to be charged; "
            "make a new release instead"
        )
    if isinstance(release.predictor, TabularPredictor):
        return Fraction(0)
    chosen = epsilon if epsilon is not None else release.params.get("epsilon")
    if chosen is None:
        raise InputError("give an epsilon: the release does not say what its mechanism should cost")
    _defence(release, check_epsilon(chosen))
    return exact(chosen)


def renew(release: Release, graph: Graph, *, epsilon: float | None = None, seed: int | None = None) -> Release:
    """The release's model answering for `graph`. `graph.x` is in model space; None keeps the stored features."""
    cost = renewal_epsilon(release, epsilon)
    x = _features(release, graph)
    if isinstance(release.predictor, TabularPredictor):
        tabular = TabularPredictor(release.predictor.spec, release.predictor.model, graph.num_nodes)
        return replace(release, predictor=tabular, matrix=x, dataset=graph.name, evaluation=None)
    defence = _defence(release, float(cost))
    predictor: Predictor
    budget = Budget(cost)
    if isinstance(defence, EdgeMechanism) and isinstance(release.predictor, GraphPredictor):
        budget.spend(cost, f"{type(defence).__name__} perturbation", on=SNAPSHOT)
        noisy = defence.perturb(graph, seed=None if seed is None else derive(seed, "renew"))
        predictor = GraphPredictor(release.predictor.spec, release.predictor.model, noisy.adjacency)
    else:
        assert isinstance(defence, LPGNet) and isinstance(release.predictor, LPGNetPredictor)
        predictor = _ask_layers(defence, release.predictor, graph, x, budget, seed)
    guarantee = _guarantee(release.guarantee, budget, seed)
    params = {**release.params, "epsilon": float(cost)}
    return replace(
        release, predictor=predictor, matrix=x, guarantee=guarantee, params=params, dataset=graph.name,
        is_twin=graph.is_twin, evaluation=None,
    )  # fmt: skip


def _defence(release: Release, epsilon: float) -> Defence:
    cls: Any = DEFENCES.get(release.defence)
    defence: Defence = cls(**{**release.params, "epsilon": epsilon})
    if isinstance(defence, LPGNet) and defence.readout != "mlp":
        raise InputError("a Bayesian read-out is fitted to its own graph; only readout='mlp' can answer for another")
    if not isinstance(defence, (EdgeMechanism, LPGNet)):
        raise InputError(f"a {release.defence!r} release cannot be applied to another graph; make a new release")
    return defence


def _features(release: Release, graph: Graph) -> FeatureMatrix:
    if graph.x is not None:
        x = FeatureMatrix.wrap(graph.x)
        if x.shape[1] != release.matrix.shape[1]:
            raise InputError(f"features must have {release.matrix.shape[1]} columns (model space), got {x.shape[1]}")
        return x
    if graph.num_nodes != release.num_nodes:
        raise InputError(
            f"the graph has {graph.num_nodes} nodes, the release stores features of {release.num_nodes}; send features"
        )
    return release.matrix


def _ask_layers(
    defence: LPGNet, old: LPGNetPredictor, graph: Graph, x: FeatureMatrix, budget: Budget, seed: int | None
) -> LPGNetPredictor:
    """LPGNet Alg. 3 on a new graph: each layer's clusters come from the layer before, each query costs its share."""
    logits, features, stored = row_logits(old.models[0], x), None, []
    for layer, model in enumerate(old.models[1:], start=1):
        cost = budget.spend(budget.cap / defence.layers, f"cluster-degree vectors, layer {layer}", on=SNAPSHOT)
        counts = cluster_degrees(graph, logits.argmax(axis=1), old.num_outputs)
        noise = None if seed is None else derive(seed, "renew", layer)
        stored.append(np.asarray(defence.perturb_counts(counts, cost, noise)))
        features = stack_features(features, logits, stored[-1])
        logits = row_logits(model, FeatureMatrix.wrap(features))
    return LPGNetPredictor(old.spec, old.models, stored)


def _guarantee(old: Guarantee, budget: Budget, seed: int | None) -> Guarantee:
    assert old.claimed_epsilon is not None
    total = exact(old.claimed_epsilon) + budget.spent
    return replace(
        old,
        claimed_epsilon=float(total),
        charges=(*old.charges, *budget.charges),
        composition=f"sequential: {float(budget.spent):g} for the snapshot, asked once, and {old.claimed_epsilon:g} "
        "for the weights, paid by edges that were in the earlier graph too; every answer is post-processing",
        randomness=SECURE if seed is None and old.randomness == SECURE else SEEDED,
        notes=(*(n for n in old.notes if n != SUM_NOTE), SUM_NOTE),
    )
