"""The best classifier that reads no edge: an MLP, and a GNN on the feature graph where validation nodes want it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import fit_model
from edgeveil.defences.job import Job
from edgeveil.defences.veil.calibration import is_better, mixture_weight, temperature
from edgeveil.graph.feature_neighbours import feature_neighbours
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.module import ModuleModel
from edgeveil.models.network import Model
from edgeveil.models.presets import preset
from edgeveil.models.spec import ModelSpec
from edgeveil.release.mixture_predictor import MixturePredictor
from edgeveil.release.predictors import GraphPredictor, Predictor, TabularPredictor

__all__ = ["EdgeFree", "alone", "feature_graph", "fit_edge_free", "judged", "mixture", "moved", "specs"]

PULL = 2.0  # weight of a neighbour with equal features, where a node's own weight is 1
HELD_OUT = 0.2  # share of the training nodes that judge where there are no validation nodes
UNJUDGED = "no validation nodes: the feature graph cannot be judged, so the MLP alone answers"
UNWEIGHTED = "the own model takes no edge_weight, so it sees the feature graph without its weights"
REFUSED = "the feature graph did not help on the validation nodes, so the MLP alone answers"


@dataclass(frozen=True, eq=False)
class EdgeFree:
    """A trained MLP and, unless the guard refused it, a GNN on the feature graph with the weights of their mixture."""

    mlp_spec: ModelSpec
    mlp: Model
    neighbours: int
    gnn_spec: ModelSpec | None = None
    gnn: Model | None = None
    weights: tuple[float, float] = (1.0, 0.0)
    notes: tuple[str, ...] = ()

    def predictor(self, x: FeatureMatrix) -> Predictor:
        """What answers for the nodes with these features."""
        own = TabularPredictor(self.mlp_spec, self.mlp, x.shape[0])
        if self.gnn is None or self.gnn_spec is None:
            return own
        return MixturePredictor([own, self.on_features(x)], self.weights)

    def on_features(self, x: FeatureMatrix) -> GraphPredictor:
        """The GNN alone, on the feature graph of these nodes."""
        assert self.gnn_spec is not None and self.gnn is not None
        return GraphPredictor(self.gnn_spec, self.gnn, feature_graph(x, self.neighbours))


def feature_graph(x: FeatureMatrix, neighbours: int) -> Any:
    """The weighted adjacency that the GNN aggregates over."""
    return (PULL * feature_neighbours(x, neighbours)).tocsr()


def moved(old: Predictor, x: FeatureMatrix, neighbours: int) -> Predictor:
    """An edge-free predictor answering for other nodes: the feature graph is as public as their features."""
    if isinstance(old, MixturePredictor):
        return MixturePredictor([moved(part, x, neighbours) for part in old.parts], old.weights)
    if isinstance(old, GraphPredictor):
        return GraphPredictor(old.spec, old.model, feature_graph(x, neighbours))
    assert isinstance(old, TabularPredictor)
    return TabularPredictor(old.spec, old.model, x.shape[0])


def judged(job: Job) -> Job:
    """The job with validation nodes: its own, else a drawn share of the training nodes, which then do not train."""
    train = np.flatnonzero(job.train_mask)
    held = int(HELD_OUT * len(train))
    if job.val_mask is not None or job.setting == "inductive-evolving" or held < 2:
        return job
    val = np.zeros(job.graph.num_nodes, dtype=bool)
    val[np.random.default_rng(job.model_seed("held out")).choice(train, held, replace=False)] = True
    masks = job.graph.masks
    test = np.zeros_like(val) if masks is None else masks.test
    split = {"train": job.train_mask & ~val, "val": val, "test": test}
    return replace(job, graph=job.graph.with_split("judged", split))


def fit_edge_free(job: Job, neighbours: int) -> EdgeFree:
    """Train both on the training nodes; mixture and guard see validation nodes only."""
    x, val = job.train_features, job.val_mask
    mlp_spec, gnn_spec = specs(job)
    mlp = fit_model(job, mlp_spec, x, None)
    base = EdgeFree(mlp_spec, mlp, neighbours)
    if val is None:
        return replace(base, notes=(UNJUDGED,))
    assert job.graph.y is not None
    y = job.graph.y[val]
    gnn = fit_model(job, gnn_spec, x, feature_graph(x, neighbours))
    both = replace(base, gnn_spec=gnn_spec, gnn=gnn)
    answers = [p.logits(x)[val] for p in (base.predictor(x), both.on_features(x))]
    weights = mixture(answers, y)
    if not is_better(weights[0] * answers[0] + weights[1] * answers[1], answers[0], y):
        return replace(base, notes=(REFUSED,))
    weightless = isinstance(gnn, ModuleModel) and not gnn.takes_weights
    return replace(both, weights=weights, notes=(UNWEIGHTED,) if weightless else ())


def alone(whole: Job, job: Job, base: EdgeFree) -> Predictor:
    """The base as the whole answer; nodes of `whole` that were held out to judge (`judged`) now train it as well."""
    if whole is not job:
        mlp = fit_model(whole, base.mlp_spec, whole.train_features, None)
        gnn = None
        if base.gnn_spec is not None:
            around = feature_graph(whole.train_features, base.neighbours)
            gnn = fit_model(whole, base.gnn_spec, whole.train_features, around)
        base = replace(base, mlp=mlp, gnn=gnn)
    return base.predictor(whole.inference_features)


def specs(job: Job) -> tuple[ModelSpec, ModelSpec]:
    """The job's own model where it fits the part, the preset's otherwise."""
    asked, name = job.model, job.graph.dataset
    mlp = asked if asked.local else preset("default", name, "mlp").model
    gnn = preset("default", name, "gcn").model if asked.local else asked
    return mlp, gnn


def mixture(answers: Sequence[NDArray[np.float64]], y: Any) -> tuple[float, float]:
    """Weights of two answers in the calibrated log-linear mixture with the least log-loss."""
    heat = [temperature(a, y) for a in answers]
    share = mixture_weight(answers[0] / heat[0], answers[1] / heat[1], y)
    return (1 - share) / heat[0], share / heat[1]
