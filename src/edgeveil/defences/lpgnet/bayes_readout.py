"""A stronger reading of LPGNet's statistic: the same noisy counts and the same epsilon, read by Bayes' rule.

log P(class | features, counts) = log P(class | features) + weight * log P(counts | class). The weight tempers the
evidence, because layers count the same neighbours and the count model is only a model; weight 0 is the plain MLP.
The classifier's temperature and the weight are chosen by log-loss on validation nodes, never on test nodes; a graph
without validation nodes gets fixed values and a note that nothing checked them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.count_model import CountModel, fit_count_model
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise
from edgeveil.defences.lpgnet.lpgnet_stack import Phase
from edgeveil.release.lpgnet_predictor import log_softmax

__all__ = ["TEMPERATURES", "WEIGHTS", "EvidenceReader", "Reading", "choose", "class_prior", "read_counts"]

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]
WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
TEMPERATURES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
UNCHECKED = (1.0, 0.35)  # temperature and weight when there is no validation node to choose by


class Reading(NamedTuple):
    """The chosen temperature of the classifier and weight of the evidence."""

    temperature: float
    weight: float


def class_prior(logits: Float, temperature: float, labels: NDArray[np.int64], known: Mask) -> Float:
    """The classifier's probabilities, replaced by certainty where a training label is known."""
    prior = np.exp(log_softmax(logits / temperature))
    prior[known] = np.eye(prior.shape[1])[labels[known]]
    return prior


def read_counts(vectors: Float, prior: Float, noise: DegreeNoise) -> tuple[CountModel, Float]:
    """Fit the count model to one layer's vectors and return it with the evidence per class, centred per node."""
    model = fit_count_model(vectors, prior, noise)
    return model, centred(model.log_likelihood(vectors))


def centred(evidence: Float) -> Float:
    """Evidence up to a constant per node."""
    out: Float = evidence - evidence.mean(axis=1, keepdims=True)
    return out


def choose(logits: Float, evidence: Float | None, labels: NDArray[np.int64], val: Mask | None) -> Reading:
    """Temperature first (weight 0), then the weight, each by validation log-loss; ties prefer less evidence."""
    if val is None:
        return Reading(*UNCHECKED)
    rows, truth = np.flatnonzero(val), labels[val]

    def loss(scores: Float) -> float:
        return float(-log_softmax(scores)[np.arange(len(rows)), truth].mean())

    temperature = min(TEMPERATURES, key=lambda t: loss(logits[rows] / t))
    if evidence is None:
        return Reading(temperature, 0.0)
    base = log_softmax(logits[rows] / temperature)
    return Reading(temperature, min(WEIGHTS, key=lambda w: loss(base + w * evidence[rows])))


class EvidenceReader:
    """Collects the evidence of every layer for the training, validation and answering phases of one job."""

    def __init__(self, job: Job, noise: DegreeNoise) -> None:
        assert job.graph.y is not None
        self._job, self._noise, self._labels = job, noise, job.graph.y
        self._base: dict[int, Float] = {}
        self._evidence: dict[int, Float] = {}
        self._chosen = Reading(1.0, 0.0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the release must know about the choice."""
        if self._job.val_mask is not None:
            return ()
        temperature, weight = UNCHECKED
        return (
            f"no validation node: the counts have the fixed weight {weight:g} at temperature {temperature:g}; nothing "
            "checked that the answers are better than the plain MLP's",
        )

    def start(self, phases: tuple[Phase, Phase, Phase]) -> None:
        """Remember the classifier's logits and choose its temperature."""
        for phase in phases:
            self._base[id(phase)] = phase.logits
            self._evidence[id(phase)] = np.zeros_like(phase.logits)
        self._chosen = choose(phases[1].logits, None, self._labels, self._job.val_mask)

    def read(self, phases: tuple[Phase, Phase, Phase]) -> None:
        """Fit the count model on the training phase, apply it to the others, choose the weight, renew the logits."""
        learn, judge, _ = phases
        prior = self._prior(learn, known=self._job.train_mask)
        model, found = read_counts(learn.vectors[-1], prior, self._noise)
        self._evidence[id(learn)] = self._evidence[id(learn)] + found
        for phase in {id(p): p for p in phases if p is not learn}.values():
            moved = model.with_rates_of(phase.vectors[-1], self._prior(phase))
            found = centred(moved.log_likelihood(phase.vectors[-1]))
            self._evidence[id(phase)] = self._evidence[id(phase)] + found
        base, evidence = self._base[id(judge)], self._evidence[id(judge)]
        self._chosen = choose(base, evidence, self._labels, self._job.val_mask)
        for phase in phases:
            phase.logits = log_softmax(self._base[id(phase)] / self._chosen.temperature) + self._weighted(phase)

    def result(self, phase: Phase) -> tuple[Float, float]:
        """What the predictor adds to the classifier's log-probabilities, and the temperature of those."""
        return self._weighted(phase), self._chosen.temperature

    def _weighted(self, phase: Phase) -> Float:
        return self._chosen.weight * self._evidence[id(phase)]

    def _prior(self, phase: Phase, known: Mask | None = None) -> Float:
        nobody = np.zeros(len(phase.logits), dtype=bool)
        labels = self._labels if known is not None else np.zeros(len(phase.logits), np.int64)
        base = self._base[id(phase)]
        return class_prior(base, self._chosen.temperature, labels, nobody if known is None else known)
