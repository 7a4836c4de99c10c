"""Experiments on renewals: a release at half of epsilon and its renewal on the same graph, which together cost epsilon.

Training is left out, as everywhere in an audit: the release carries a model with fresh weights, and its renewal is the
method's own (`Defence.renewal`). The auditor looks at what both have stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from edgeveil.defences.defence import Defence, EdgeMechanism, make_release
from edgeveil.defences.graph_audit import heavy_design
from edgeveil.defences.job import Job
from edgeveil.defences.renewal import Renewed, Snapshot
from edgeveil.defences.trial import trial_job
from edgeveil.errors import InputError
from edgeveil.models.assemble import build
from edgeveil.privacy.canaries import degree_strata, plant_pairs
from edgeveil.privacy.experiments import Coins, Effort, Experiment, Sight, Stated
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.predictors import GraphPredictor, Predictor

__all__ = ["RENEWED", "Twice", "at_half", "graph_twice", "is_renewable", "renew_untrained", "renewed_graphs"]

D = TypeVar("D", bound=Defence)
BEYOND = 6.0  # above what coins can show; denser graphs than the match then say as much and stay small
RENEWED = "planted pairs, released and renewed"


class Twice(NamedTuple):
    """What a release and its renewal store (adjacencies), and what the renewal states for both."""

    first: Any
    second: Any
    stated: Stated


def is_renewable(mechanism: Defence) -> bool:
    """Whether the method declares a renewal at these parameters."""
    try:
        mechanism.renewal(None)
    except InputError:
        return False
    return True


def at_half(mechanism: D) -> D:
    """The same method at half of its epsilon, and of its delta."""
    names = {f.name for f in fields(mechanism)}  # type: ignore[arg-type]
    halved = {n: getattr(mechanism, n) / 2 for n in ("epsilon", "delta") if n in names and getattr(mechanism, n)}
    return replace(mechanism, **halved)  # type: ignore[type-var]


def renew_untrained(mechanism: Defence, job: Job, predictor: Predictor, guarantee: Guarantee) -> Renewed:
    """The method's renewal, on the same graph, of a release that was never trained."""
    release = make_release(mechanism, job, predictor, guarantee, seconds=0.0)
    again = Snapshot(release, job.inference, job.inference_features, False, job.seed)
    return mechanism.renewal(job.seed).answer(again)


def graph_twice(mechanism: EdgeMechanism, job: Job) -> Twice:
    """The noise stage of a release, then its renewal."""
    noisy = mechanism.noise_stage(job)
    first: Any = getattr(noisy.inference, "directed", None)
    first = noisy.inference.adjacency if first is None else first
    model = build(job.model, job.inference_features.shape[1], job.graph.num_classes, seed=0)
    fresh = renew_untrained(mechanism, job, GraphPredictor(job.model, model, first), noisy.guarantee)
    assert isinstance(fresh.predictor, GraphPredictor)
    return Twice(first, fresh.predictor.adjacency, Stated.of(fresh.guarantee))


def renewed_graphs(mechanism: D, epsilon: float, effort: Effort, twice: Callable[[D, Job], Twice]) -> list[Experiment]:
    """Planted pairs in a noisy graph and in its renewal; none where the method has no renewal."""
    if not is_renewable(mechanism):
        return []
    half = at_half(mechanism)

    def see() -> Sight:
        known, count = heavy_design(min(epsilon / 2, BEYOND), effort)
        planted = plant_pairs(known, count, effort.rng("coins", RENEWED))
        told = twice(half, trial_job(planted.graph, effort.noise_seed(RENEWED)))
        once, again = (np.asarray(a[tuple(planted.pairs)]).ravel().astype(np.int64) for a in told[:2])
        views = {"pair in the renewal": again, "pair in release and renewal": once + 2 * again}
        return Sight(planted.coins, views, [degree_strata(known, planted.pairs)], told.stated)

    return [Coins(RENEWED, see)]
