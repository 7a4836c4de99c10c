"""LPGNet, veil-counts and the MLP on a graph whose edges stay in files.

The edges are asked for cluster-degree counts only, and each noisy answer is given once (`journal`). Models train from
blocks of rows and read no edge.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import Defence, registered_name
from edgeveil.defences.lpgnet.degree_vectors import QueryCost, ask, query_cost
from edgeveil.defences.stored.stored_job import MadeRows, StoredJob
from edgeveil.defences.veil.calibration import is_better, scores, temperature
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.presets import preset
from edgeveil.models.spec import ModelSpec
from edgeveil.privacy.budget import Budget
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.evaluation import Evaluation
from edgeveil.release.inputs import Inputs
from edgeveil.release.lpgnet_predictor import CountNoise, LPGNetPredictor, row_logits, stack_features
from edgeveil.release.predictors import Predictor, TabularPredictor
from edgeveil.release.readout_predictor import FORMS, ReadoutPredictor, readout_inputs
from edgeveil.release.release import Release

if TYPE_CHECKING:
    from edgeveil.defences.lpgnet.lpgnet import LPGNet

__all__ = ["release_counts", "release_lpgnet", "release_mlp"]

Float = NDArray[np.float64]
JUDGED = 20_000  # validation nodes that choose a reading
FEATURES_ALONE = "edges stay in files: the base is the MLP alone, without a graph of like features"
BASE_ALONE = "on the validation nodes no reading of the noisy counts beat the base, so the base alone answers"


class _Stack:
    """The models and noisy counts so far; rows and logits of any block."""

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.vectors: list[NDArray[Any]] = []

    def rows(self, start: int, x: Float) -> Float:
        """What the next model reads (`stack_features`)."""
        if not self.models:
            return x
        features: Float | None = None
        logits = row_logits(self.models[0], FeatureMatrix.wrap(x))
        for number, vectors in enumerate(self.vectors):
            features = stack_features(features, logits, vectors[start : start + len(x)])
            if number + 1 < len(self.models):
                logits = row_logits(self.models[number + 1], FeatureMatrix.wrap(features))
        assert features is not None
        return features

    def logits(self, start: int, x: Float) -> Float:
        """Answers of the latest model."""
        earlier = _Stack()
        earlier.models, earlier.vectors = self.models[:-1], self.vectors[: len(self.models) - 1]
        return row_logits(self.models[-1], FeatureMatrix.wrap(earlier.rows(start, x)))


def mlp_spec() -> ModelSpec:
    """The MLP of LPGNet's own settings."""
    return replace(preset("lpgnet", "", "mlp").model, bias="none")


def release_lpgnet(defence: LPGNet, job: StoredJob) -> Release:
    """LPGNet Alg. 2: every layer's counts are charged, asked once, and read by the next MLP."""
    started = time.perf_counter()
    spec, stack, width = mlp_spec(), _Stack(), job.table.num_features
    budget = defence.budget()
    cost = query_cost(budget, defence.layers, defence.law)
    stack.models.append(job.fit("mlp-0", spec, width, MadeRows(job, stack.rows)))
    for layer in range(1, defence.layers + 1):
        ask(budget, cost, f"cluster-degree vectors, training, layer {layer}", "graph")
        clusters = job.classes(stack.logits)
        stack.vectors.append(_noisy(defence, job, cost, clusters, layer))
        rows = MadeRows(job, stack.rows)
        stack.models.append(job.fit(f"mlp-{layer}", spec, 2 * layer * job.num_classes, rows))
    predictor = LPGNetPredictor(spec, stack.models, stack.vectors, noise=defence.public_noise(cost))
    return _release(defence, job, predictor, _claim(defence, job, budget), started)


def release_counts(defence: Defence, query: LPGNet, job: StoredJob) -> Release:
    """veil-counts: one query on clusters that cost nothing, read as validation nodes prefer, or not at all."""
    started = time.perf_counter()
    spec, stack = mlp_spec(), _Stack()
    stack.models.append(job.fit("base", spec, job.table.num_features, MadeRows(job, stack.rows)))
    base = TabularPredictor(spec, stack.models[0], job.graph.num_nodes)
    clusters = job.classes(stack.logits)
    clusters = np.where(job.known.train, job.known.y, clusters).astype(np.int32)
    budget = query.budget()
    cost = query_cost(budget, 1, query.law)
    ask(budget, cost, "neighbours per cluster", "graph")
    counts = _noisy(query, job, cost, clusters, 1)
    chosen, note = _choose(job, base, stack.logits, counts, query.public_noise(cost))
    claim = replace(_claim(query, job, budget), reference=defence.reference)
    return _release(defence, job, chosen, claim, started, FEATURES_ALONE, note)


def release_mlp(defence: Defence, job: StoredJob, guarantee: Guarantee) -> Release:
    """The MLP alone: no edge is read."""
    started, spec = time.perf_counter(), mlp_spec()
    model = job.fit("mlp-0", spec, job.table.num_features, MadeRows(job, lambda start, x: x))
    return _release(defence, job, TabularPredictor(spec, model, job.graph.num_nodes), guarantee, started)


def _noisy(query: LPGNet, job: StoredJob, cost: QueryCost, clusters: NDArray[np.int32], layer: int) -> NDArray[Any]:
    """One question: exact counts from the engine, exact noise once."""
    seed = job.noise_seed("lpgnet", "training", layer)
    return job.noisy_counts(f"counts-{layer}", clusters, lambda counts: query.perturb_counts(counts, cost, seed))


def _claim(query: LPGNet, job: StoredJob, budget: Budget) -> Guarantee:
    claim = query.mechanism_guarantee(job.seed)
    sharing = "sequential over the layers; training, validation and inference share the stored vectors"
    return claim if budget.unlimited else replace(claim, charges=budget.charges, composition=sharing)


def _choose(
    job: StoredJob, base: Predictor, logits: Callable[[int, Float], Float], counts: NDArray[Any], noise: CountNoise
) -> tuple[Predictor, str]:
    """The MLP reading that is most useful on validation nodes, if it beats the base by a standard error."""
    if job.known.val is None:
        return base, BASE_ALONE
    judges = np.flatnonzero(job.known.val)[:JUDGED]
    before, truth = _rows_of(job, judges, logits), job.known.y[judges]
    heat, spec = temperature(before, truth), preset("lpgnet", "", "mlp").model
    found = []
    for form in FORMS:

        def rows(start: int, x: Float, form: str = form) -> Float:
            return readout_inputs(form, logits(start, x), counts[start : start + len(x)], heat)

        width = readout_inputs(form, before[:1], counts[judges[:1]], heat).shape[1]
        model = job.fit(f"read-{form}", spec, width, MadeRows(job, rows))
        answers = row_logits(model, FeatureMatrix.wrap(readout_inputs(form, before, counts[judges], heat)))
        found.append((float(scores(answers, truth).mean()), answers, form, model))
    _, answers, form, model = max(found, key=lambda reading: reading[0])
    if not is_better(answers, before, truth):
        return base, BASE_ALONE
    note = f"the noisy counts are read by {form!r}, the best of {len(found)} on validation nodes"
    return ReadoutPredictor(base, spec, model, counts, form, heat, noise), note


def _rows_of(job: StoredJob, nodes: NDArray[np.int64], logits: Callable[[int, Float], Float]) -> Float:
    """Logits of some sorted nodes."""
    out = np.empty((len(nodes), job.num_classes))
    for number, (start, stop) in enumerate(job.table.bounds):
        low, high = np.searchsorted(nodes, [start, stop])
        if high > low:
            out[low:high] = logits(start, job.scaled(job.table.read(number).x))[nodes[low:high] - start]
    return out


def _release(
    defence: Defence, job: StoredJob, predictor: Predictor, guarantee: Guarantee, started: float, *notes: str
) -> Release:
    nodes = job.graph.nodes
    params = asdict(defence)  # type: ignore[call-overload]
    spec: ModelSpec = getattr(predictor, "spec", mlp_spec())
    return Release(
        defence=registered_name(defence), guarantee=guarantee, predictor=predictor, matrix=job.stored_features(),
        params=params, model=spec.name, layers=spec.layers, variant=params.get("variant", "correct"),
        dataset=nodes.name, scaling=job.scaler.kind, inputs=Inputs(job.scaler, job.table.num_features),
        node_ids=nodes.node_ids, class_names=nodes.class_names,
        contains_private_graph=guarantee.status != "sound",
        seconds_train=time.perf_counter() - started, notes=notes, evaluation=Evaluation.of(nodes),
    )  # fmt: skip
