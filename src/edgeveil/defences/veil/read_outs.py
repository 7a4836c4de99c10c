"""Ways to read noisy neighbour counts beside a base classifier; validation nodes choose one, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.bayes_readout import EvidenceReader
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise
from edgeveil.defences.lpgnet.lpgnet_stack import Phase
from edgeveil.defences.veil.calibration import is_better, like_moves, scores, temperature
from edgeveil.defences.veil.edge_free import EdgeFree
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.assemble import build
from edgeveil.models.presets import preset
from edgeveil.models.train import fit
from edgeveil.release.lpgnet_predictor import CountNoise, row_logits
from edgeveil.release.mixture_predictor import MixturePredictor
from edgeveil.release.predictors import Predictor, no_edges
from edgeveil.release.readout_predictor import FORMS, ReadoutPredictor, StoredPredictor, readout_inputs

__all__ = ["KEPT", "Phases", "Reading", "assign", "choose_read_out", "mlp_readings", "preferred", "readings"]

Float = NDArray[np.float64]
Phases = tuple[Phase, Phase, Phase]
KEPT = "no reading of the noisy counts was seen to beat the edge-free base, so the base alone answers"


@dataclass(frozen=True, eq=False)
class Reading:
    """A way to answer: its logits for the nodes of the graph that validates, and what would answer by it."""

    name: str
    judged: Float
    predictor: Predictor


def assign(job: Job, phase: Phase, logits: Float) -> None:
    """Logits and clusters without a further look at edges: the class they give, or the label where the node trains."""
    phase.logits, y = logits, job.graph.y
    clusters = logits.argmax(axis=1)
    own = phase.x is job.train_features or not job.separate
    if y is not None and y.ndim == 1 and own:
        clusters = np.where(job.train_mask, y, clusters)
    phase.assigned = clusters.astype(np.int64)


def choose_read_out(job: Job, phases: Phases, base: EdgeFree, noise: DegreeNoise) -> tuple[Predictor, str] | None:
    """The reading that validation nodes prefer with a word about it, if any beats the base."""
    if job.val_mask is None:
        return None
    served = base.predictor(phases[2].x)
    found = readings(job, phases, served, noise)
    best = preferred(job, found, phases[1].logits, served)
    if best is None:
        return None
    return best.predictor, f"the noisy counts are read by {best.name!r}, the best of {len(found)} on validation nodes"


def readings(job: Job, phases: Phases, base: Predictor, noise: DegreeNoise) -> list[Reading]:
    """Every way to read the counts that `phases` hold beside the base's logits; `base` answers for the last of them."""
    found = [] if job.graph.multilabel else [_bayes(job, phases, base, noise)]
    return [*found, *mlp_readings(job, phases, base, noise)]


def mlp_readings(job: Job, phases: Phases, base: Predictor, noise: DegreeNoise) -> list[Reading]:
    """Those that learn what counts mean."""
    return [_mlp(job, phases, base, form, noise) for form in FORMS]


def preferred(job: Job, found: Sequence[Reading], before: Float, served: Predictor) -> Reading | None:
    """The most useful on validation nodes (ties: the earlier), if it beats what was before by a standard error.

    Another graph that answers has no node that judges: there the reading must also change as much as where it was
    judged. `served` is what answered before.
    """
    assert job.val_mask is not None and job.graph.y is not None
    val, truth = job.val_mask, job.graph.y[job.val_mask]
    best = max(found, key=lambda reading: float(scores(reading.judged[val], truth).mean()), default=None)
    if best is None or not is_better(best.judged[val], before[val], truth):
        return None
    x = job.inference_features
    if job.separate and not like_moves(
        (before[val], best.judged[val]), (served.logits(x), best.predictor.logits(x)), multilabel=job.graph.multilabel
    ):
        return None
    return best


def _bayes(job: Job, phases: Phases, base: Predictor, noise: DegreeNoise) -> Reading:
    """The base's log-probabilities plus weighted evidence of the counts."""
    plain = [phase.logits for phase in phases]
    reader = EvidenceReader(job, noise)
    reader.start(phases)
    reader.read(phases)
    judged = phases[1].logits
    for phase, logits in zip(phases, plain, strict=True):
        phase.logits = logits
    evidence, heat = reader.result(phases[2])
    law = CountNoise(noise.law, noise.scale, clipped=False)
    return Reading("bayes", judged, MixturePredictor([base, StoredPredictor(evidence, law)], [1 / heat, 1.0]))


def _mlp(job: Job, phases: Phases, base: Predictor, form: str, noise: DegreeNoise) -> Reading:
    """An MLP over logits and counts; training rows come from the first phase, validation rows from the second."""
    learn, judge, serve = phases
    assert job.graph.y is not None and job.val_mask is not None
    heat = temperature(judge.logits[job.val_mask], job.graph.y[job.val_mask])

    def rows(phase: Phase) -> Float:
        return readout_inputs(form, phase.logits, phase.vectors[0], heat)

    mixed = np.where(job.val_mask[:, None], rows(judge), rows(learn)) if judge is not learn else rows(learn)
    spec = preset("lpgnet", job.graph.dataset, "mlp").model
    model = build(spec, mixed.shape[1], job.graph.num_classes, seed=job.model_seed("veil", form))
    fit(
        model, FeatureMatrix.wrap(mixed), no_edges(len(mixed)), job.graph.y, job.train_mask, job.val_mask,
        preset("lpgnet", job.graph.dataset, "mlp").train, seed=job.model_seed("veil training", form),
        multilabel=job.graph.multilabel,
    )  # fmt: skip
    judged = row_logits(model, FeatureMatrix.wrap(mixed))
    law = CountNoise(noise.law, noise.scale, clipped=False)
    return Reading(form, judged, ReadoutPredictor(base, spec, model, serve.vectors[0], form, heat, law))
