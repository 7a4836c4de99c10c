"""Ways to hear a graph of posterior weights: a GNN on it, or the expected neighbours per cluster that it implies.

The weights are one look at the private graph, already paid for. Weight times cluster, summed, is the expected number of
a node's neighbours in that cluster given all that was told, so every reading of veil-counts fits it as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.defences.defence import cut_matrix, fit_model
from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise
from edgeveil.defences.lpgnet.lpgnet_stack import Phase
from edgeveil.defences.veil.edge_free import EdgeFree, mixture, specs
from edgeveil.defences.veil.read_outs import Phases, Reading, assign, mlp_readings, preferred, readings
from edgeveil.graph.feature_neighbours import feature_neighbours
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.models.structure import Structure
from edgeveil.models.train import EvalSet
from edgeveil.release.mixture_predictor import MixturePredictor
from edgeveil.release.predictors import GraphPredictor, Predictor

__all__ = ["Heard", "choose_hearing", "count_noise", "expected_counts", "spread"]

SPREAD = 0.15  # weight of the feature graph beside the posterior
ROUNDING = 1 / 12  # variance: the count model knows whole numbers


@dataclass(frozen=True, eq=False)
class Heard:
    """Posterior weights of the graph that trains, of what is known when it is judged, and of the one that answers."""

    train: sp.csr_matrix
    judge: sp.csr_matrix
    answer: sp.csr_matrix
    noisy: Graph  # the noisy pairs that answer

    @classmethod
    def of(cls, job: Job, train: sp.csr_matrix, answer: sp.csr_matrix, noisy: Graph) -> Heard:
        if job.setting != "inductive-evolving":
            return cls(train, train, answer, noisy)
        return cls(cut_matrix(train, job.train_mask), cut_matrix(answer, job.val_nodes), answer, noisy)


def choose_hearing(job: Job, base: EdgeFree, heard: Heard) -> tuple[Predictor, str] | None:
    """What validation nodes prefer with a word about it, if any way to hear the weights beats the base.

    A GNN on the weights comes first, then readings of the counts, each against the best before it. Looking again costs
    nothing, so neighbours are counted once more in the classes that won.
    """
    if job.val_mask is None:
        return None
    noise, first = count_noise(heard.train, job.graph.num_classes), base.predictor(job.inference_features)
    before = base.predictor(job.train_features).logits(job.train_features)
    phases = _phases(job, heard, before, first)
    graph = preferred(job, [_gnn(job, base, heard, first)], before, first)
    counts = preferred(job, readings(job, phases, first, noise), *_best(graph, before, first))
    won = counts or graph
    if won is None:
        return None
    again = mlp_readings(job, _phases(job, heard, won.judged, won.predictor), won.predictor, noise)
    last = preferred(job, again, won.judged, won.predictor)
    what = "the denoised graph" if counts is None else f"expected neighbours per cluster, read by {counts.name!r}"
    more = "" if last is None else f", then neighbours in its classes, read by {last.name!r}"
    return (last or won).predictor, f"heard is {what}{more}, as validation nodes prefer it"


def _best(won: Reading | None, before: NDArray[np.float64], first: Predictor) -> tuple[NDArray[np.float64], Predictor]:
    """What the next way to hear must beat."""
    return (before, first) if won is None else (won.judged, won.predictor)


def spread(weights: sp.csr_matrix, x: FeatureMatrix, neighbours: int) -> sp.csr_matrix:
    """What the GNN aggregates over: posterior weights, and a little of the feature graph."""
    return (weights + SPREAD * feature_neighbours(x, neighbours)).tocsr()


def expected_counts(weights: sp.csr_matrix, clusters: NDArray[np.int64], num_clusters: int) -> NDArray[np.float64]:
    """Expected number of every node's neighbours in every cluster, [n, clusters]."""
    return np.asarray(weights @ np.eye(num_clusters)[clusters], np.float64)


def count_noise(weights: sp.csr_matrix, num_clusters: int) -> DegreeNoise:
    """How far true counts lie from expected ones: a neighbour of chance c has variance c (1 - c)."""
    variance = float((weights.data * (1 - weights.data)).sum()) / (weights.shape[0] * num_clusters)
    return DegreeNoise("gaussian", math.sqrt(variance + ROUNDING))


def _phases(job: Job, heard: Heard, logits: NDArray[np.float64], served: Predictor) -> Phases:
    """Logits and the expected counts in their classes, for training, judging and answering.

    `logits` are those of the graph that trains and judges, `served` gives those of another graph.
    """

    def phase(name: str, x: FeatureMatrix, weights: sp.csr_matrix, answers: NDArray[np.float64]) -> Phase:
        made = Phase(name, heard.noisy, x, "noisy pairs")
        assign(job, made, answers)
        made.vectors.append(expected_counts(weights, made.clusters, job.graph.num_classes))
        return made

    x, other = job.train_features, job.inference_features
    learn = phase("training", x, heard.train, logits)
    judge = learn if heard.judge is heard.train else phase("validation", x, heard.judge, logits)
    if heard.answer is heard.judge:
        return learn, judge, judge
    return learn, judge, phase("inference", other, heard.answer, served.logits(other))


def _gnn(job: Job, base: EdgeFree, heard: Heard, own: Predictor) -> Reading:
    """A GNN on the weights and the feature graph, mixed with the base."""
    x, val = job.train_features, job.val_mask
    assert val is not None and job.graph.y is not None
    spec, validation, judged_on = specs(job)[1], None, spread(heard.judge, x, base.neighbours)
    if heard.judge is not heard.train:
        validation = EvalSet(job.inference_features, Structure(judged_on), job.graph.y, val)
    model = fit_model(job, spec, x, spread(heard.train, x, base.neighbours), validation)
    answers = [GraphPredictor(spec, model, judged_on).logits(x), base.predictor(x).logits(x)]
    weights = mixture([a[val] for a in answers], job.graph.y[val])
    served = GraphPredictor(spec, model, spread(heard.answer, job.inference_features, base.neighbours))
    judged = weights[0] * answers[0] + weights[1] * answers[1]
    return Reading("graph", judged, MixturePredictor([served, own], weights))
