"""One noisy count query on clusters that cost nothing: the edge-free base, corrected by who one's neighbours are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, Faces, claim_of, make_release
from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise, noise_scale
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.defences.lpgnet.lpgnet_audit import Reasked, VectorDefence, renewed_vectors, vector_experiments
from edgeveil.defences.lpgnet.lpgnet_stack import Phase, distinct, make_phases
from edgeveil.defences.renewal import SNAPSHOT, Renewal, Renewed, Snapshot, composed
from edgeveil.defences.renewal_audit import renew_untrained
from edgeveil.defences.veil.edge_free import alone, fit_edge_free, judged, moved
from edgeveil.defences.veil.read_outs import KEPT, assign, choose_read_out
from edgeveil.errors import InputError
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.models.assemble import build
from edgeveil.models.presets import preset
from edgeveil.privacy.budget import Budget, check_epsilon, exact
from edgeveil.privacy.experiments import Claim, Effort, Experiment, Stated
from edgeveil.privacy.guarantee import Guarantee, Status
from edgeveil.registry import Places
from edgeveil.release.lpgnet_predictor import CountNoise
from edgeveil.release.mixture_predictor import MixturePredictor
from edgeveil.release.predictors import TabularPredictor
from edgeveil.release.readout_predictor import ReadoutPredictor, StoredPredictor
from edgeveil.release.release import Release
from edgeveil.seeds import Seed

if TYPE_CHECKING:
    from edgeveil.defences.stored.stored_job import StoredJob

__all__ = ["VeilCounts", "check_renewable"]


@DEFENCES.register("veil-counts")
@dataclass(frozen=True, kw_only=True)
class VeilCounts(VectorDefence):
    """How many neighbours every node has in every cluster, asked once with discrete Laplace noise of scale 2/epsilon.

    Clusters are the classes that the edge-free base gives, and the labels of training nodes: no edge is read for them.
    Every later choice (which reading of the counts, or none) is post-processing.
    """

    epsilon: float | None = None
    """What one undirected edge may cost."""
    neighbours: int = 15
    """How many nodes with like features each node hears in the edge-free base."""

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "edgeveil: docs/defences.md; the query is that of LPGNet, ACM CCS 2022, Algorithm 4"
    faces: ClassVar[Faces] = {"veil-counts": ("veil-counts", 10)}
    audited: ClassVar[Places] = {"veil-counts": 70}
    advised: ClassVar[Places] = {"veil-counts": 50}

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @cached_property
    def _query(self) -> LPGNet:
        """LPGNet's own noise stage for one layer, counts as they come."""
        return LPGNet(epsilon=self.epsilon, layers=1, clip=False)

    def release(self, job: Job) -> Release:
        """Train the base, ask once, keep the reading that validation nodes prefer."""
        started = time.perf_counter()
        whole, job = job, judged(job)
        base = fit_edge_free(job, self.neighbours)
        phases = make_phases(job)
        for phase in distinct(phases):
            assign(job, phase, base.predictor(phase.x).logits(phase.x))
        budget = self.noise_stage(job, phases, lambda layer: None)
        noise = DegreeNoise("discrete", float(noise_scale(self._query.cost_of_query(phases, job.times))))
        chosen = choose_read_out(job, phases, base, noise)
        predictor, note = chosen or (alone(whole, job, base), KEPT)
        return make_release(
            self, job, predictor, self.job_guarantee(job, budget), seconds=time.perf_counter() - started,
            notes=(*base.notes, note),
        )  # fmt: skip

    def release_stored(self, job: StoredJob) -> Release:
        """The same from files, with the MLP alone as edge-free base."""
        from edgeveil.defences.stored.count_releases import release_counts

        return release_counts(self, self._query, job)

    def renewal(self, seed: int | None = None) -> Renewal:
        """One count query on the new graph, read by the MLP that the release has trained; clusters are the base's."""
        return Renewal(exact(check_epsilon(self.epsilon)), self._renew, check_renewable)

    def _renew(self, snapshot: Snapshot) -> Renewed:
        old, x, cost = snapshot.release.predictor, snapshot.x, exact(check_epsilon(self.epsilon))
        budget = Budget(cost)
        budget.spend(cost, "neighbours per cluster", on=SNAPSHOT)
        guarantee = composed(snapshot.release.guarantee, budget, snapshot.seed)
        if not isinstance(old, ReadoutPredictor):
            return Renewed(moved(old, x, self.neighbours), x, guarantee)
        base = moved(old.base, x, self.neighbours)
        true = cluster_degrees(snapshot.graph, base.logits(x).argmax(axis=1), base.num_outputs)
        counts = self._query.perturb_counts(true, cost, snapshot.noise_seed("veil-counts"))
        law = CountNoise("discrete", float(noise_scale(cost)), clipped=False)
        renewed = ReadoutPredictor(base, old.spec, old.model, counts, old.form, old.temperature, law)
        return Renewed(renewed, x, guarantee)

    def noise_stage(self, job: Job, phases: Sequence[Phase], learn: Callable[[int], None]) -> Budget:
        """All that a release reads of private edges; `experiments` run this very function."""
        return self._query.noise_stage(job, phases, learn)

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What the noisy counts of one release promise, in any setting."""
        return replace(self._query.mechanism_guarantee(seed), reference=self.reference)

    def job_guarantee(self, job: Job, budget: Budget) -> Guarantee:
        """What the noise stage of this job promises, with every charge."""
        return replace(self._query.job_guarantee(job, budget), reference=self.reference)

    def audit_claim(self) -> Claim:
        """The epsilon of a release of one graph."""
        return claim_of(self, self.mechanism_guarantee())

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Planted pairs and neighbouring graphs through the noise stage, and a release that is renewed."""
        return [*vector_experiments(self.noise_stage, effort), *renewed_vectors(self, effort, _reasked)]


def _reasked(mechanism: VeilCounts, job: Job, vectors: Sequence[NDArray[np.float64]]) -> Reasked:
    """The renewal of a release with fresh weights: which clusters its base gives does not matter to privacy."""
    x, classes = job.train_features, job.graph.num_classes
    spec = preset("default", job.graph.dataset, "mlp").model
    base = TabularPredictor(spec, build(spec, x.shape[1], classes, seed=0).eval(), x.shape[0])
    reader = build(spec, 2 * classes, classes, seed=1).eval()
    made = ReadoutPredictor(base, spec, reader, vectors[0], "raw", 1.0)
    fresh = renew_untrained(mechanism, job, made, mechanism.mechanism_guarantee(job.seed))
    assert isinstance(fresh.predictor, ReadoutPredictor)
    clusters = fresh.predictor.base.logits(x).argmax(axis=1)
    return Reasked([(fresh.predictor.counts, clusters)], Stated.of(fresh.guarantee))


def check_renewable(snapshot: Snapshot) -> None:
    """A Bayesian reading stores evidence about its own nodes and nothing that could read other counts."""
    old = snapshot.release.predictor
    while isinstance(old, ReadoutPredictor):
        old = old.base
    if isinstance(old, MixturePredictor) and any(isinstance(part, StoredPredictor) for part in old.parts):
        raise InputError(
            f"this {snapshot.release.defence} release reads its counts by Bayes' rule, fitted to its own graph; only a "
            "release whose counts an MLP reads can answer for another: make a new release"
        )
