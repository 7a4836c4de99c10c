"""Ways to read noisy neighbour counts beside a base classifier; validation nodes choose one, or none of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.bayes_readout import EvidenceReader
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise
from edgeveil.defences.lpgnet.lpgnet_stack import Phase
from edgeveil.defences.veil.calibration import hits, is_better, temperature
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.assemble import build
from edgeveil.models.presets import preset
from edgeveil.models.train import fit
from edgeveil.release.lpgnet_predictor import CountNoise, row_logits
from edgeveil.release.mixture_predictor import MixturePredictor
from edgeveil.release.predictors import Predictor, no_edges
from edgeveil.release.readout_predictor import FORMS, ReadoutPredictor, StoredPredictor, readout_inputs

__all__ = ["Chosen", "choose_read_out"]

Float = NDArray[np.float64]
Phases = tuple[Phase, Phase, Phase]
KEPT = "on the validation nodes no reading of the noisy counts beat the edge-free base, so the base alone answers"


@dataclass(frozen=True, eq=False)
class Chosen:
    """What answers, and what validation nodes had to say about it."""

    predictor: Predictor
    note: str


def choose_read_out(job: Job, phases: Phases, base: Predictor, noise: DegreeNoise) -> Chosen:
    """The reading with the best validation accuracy (ties: the earlier), if it beats the base by a standard error.

    `phases` hold the base's logits and one query's noisy counts each; `base` answers for the last of them.
    """
    val, y = job.val_mask, job.graph.y
    if val is None or y is None:
        return Chosen(base, KEPT)
    before, truth = phases[1].logits[val], y[val]
    found = [("bayes", *_bayes(job, phases, base, noise))] if not job.graph.multilabel else []
    found += [(form, *_mlp(job, phases, base, form, noise)) for form in FORMS]
    name, judged, predictor = max(found, key=lambda reading: float(hits(reading[1][val], truth).mean()))
    if not is_better(judged[val], before, truth):
        return Chosen(base, KEPT)
    return Chosen(predictor, f"the noisy counts are read by {name!r}, the best of {len(found)} on validation nodes")


def _bayes(job: Job, phases: Phases, base: Predictor, noise: DegreeNoise) -> tuple[Float, Predictor]:
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
    return judged, MixturePredictor([base, StoredPredictor(evidence, law)], [1 / heat, 1.0])


def _mlp(job: Job, phases: Phases, base: Predictor, form: str, noise: DegreeNoise) -> tuple[Float, Predictor]:
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
    return judged, ReadoutPredictor(base, spec, model, serve.vectors[0], form, heat, law)
