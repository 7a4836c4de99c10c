"""One noisy count query on clusters that cost nothing: the edge-free base, corrected by who one's neighbours are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from edgeveil.defences.base import DEFENCES, Defence, claim_of, make_release
from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise, noise_scale
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.defences.lpgnet.lpgnet_audit import vector_experiments
from edgeveil.defences.lpgnet.lpgnet_stack import Phase, distinct, make_phases
from edgeveil.defences.veil.edge_free import EdgeFree, fit_edge_free, judged
from edgeveil.defences.veil.read_outs import choose_read_out
from edgeveil.privacy.budget import Budget, check_epsilon
from edgeveil.privacy.experiments import Claim, Effort, Experiment
from edgeveil.privacy.guarantee import Guarantee, Status
from edgeveil.release.release import Release
from edgeveil.seeds import Seed

__all__ = ["VeilCounts"]


@DEFENCES.register("veil-counts")
@dataclass(frozen=True, kw_only=True)
class VeilCounts(Defence):
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

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @cached_property
    def _query(self) -> LPGNet:
        """LPGNet's own noise stage for one layer, counts as they come."""
        return LPGNet(epsilon=self.epsilon, layers=1, clip=False)

    def release(self, job: Job) -> Release:
        """Train the base, ask once, keep the reading that validation nodes prefer."""
        started = time.perf_counter()
        job = judged(job)
        base = fit_edge_free(job, self.neighbours)
        phases = make_phases(job)
        for phase in distinct(phases):
            _assign(job, phase, base)
        budget = self.noise_stage(job, phases, lambda layer: None)
        noise = DegreeNoise("discrete", float(noise_scale(self._query.cost_of_query(phases, job.times))))
        chosen = choose_read_out(job, phases, base.predictor(phases[2].x), noise)
        claim = replace(self._query.job_guarantee(job, budget), reference=self.reference)
        return make_release(
            self, job, chosen.predictor, claim, seconds=time.perf_counter() - started,
            notes=(*base.notes, chosen.note),
        )  # fmt: skip

    def noise_stage(self, job: Job, phases: Sequence[Phase], learn: Callable[[int], None]) -> Budget:
        """All that a release reads of private edges; `experiments` run this very function."""
        return self._query.noise_stage(job, phases, learn)

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What the noisy counts of one release promise, in any setting."""
        return replace(self._query.mechanism_guarantee(seed), reference=self.reference)

    def audit_claim(self) -> Claim:
        """The epsilon of a release of one graph."""
        return claim_of(self, self.mechanism_guarantee())

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Planted pairs and neighbouring graphs through the noise stage."""
        return vector_experiments(self.noise_stage, effort)


def _assign(job: Job, phase: Phase, base: EdgeFree) -> None:
    """Clusters from public data: the base's class, or the label where the node trains."""
    phase.logits = base.predictor(phase.x).logits(phase.x)
    clusters = phase.logits.argmax(axis=1)
    y = job.graph.y
    own = phase.x is job.train_features or not job.separate
    if y is not None and y.ndim == 1 and own:
        clusters = np.where(job.train_mask, y, clusters)
    phase.assigned = clusters.astype(np.int64)
