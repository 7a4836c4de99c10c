"""What GraphPrivatizer, its baselines and its repaired relative share: every node privatises its own data and sends it.

Features go through the multi-bit mechanism, labels through randomised response, neighbour lists through the method's
own step; the server trains KProp and a GNN on what arrives, with Drop where labels are noisy.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import (
    INFERENCE,
    TRAINING,
    TUNING_NOTE,
    EdgeMechanism,
    Noised,
    charged_on,
    make_release,
    over_graphs,
)
from edgeveil.defences.job import Job
from edgeveil.defences.perturbed import PerturbedGraph
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import Scaling
from edgeveil.graph.sparse import check_adjacency
from edgeveil.models.assemble import build, load_arrays, state_arrays
from edgeveil.models.drop import Drop
from edgeveil.models.network import Model
from edgeveil.models.presets import preset
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure
from edgeveil.models.train import EvalSet, fit
from edgeveil.privacy.budget import check_epsilon, exact
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee
from edgeveil.privacy.label_rr import noisy_labels
from edgeveil.privacy.multibit import multi_bit
from edgeveil.privacy.noise import Noise, noise_for
from edgeveil.release.predictors import GraphPredictor
from edgeveil.release.release import Release
from edgeveil.seeds import Seed
from edgeveil.values import is_whole

__all__ = ["ONE_ENTRY", "PER_ENTRY", "LocalMechanism", "without_kprop"]

PER_ENTRY = "The claim is per entry of one node's list; an undirected edge stands in two lists"
ONE_ENTRY = "one entry of one node's neighbour list"
FEATURES, LABEL, BOTH = "one node's features", "one node's label", "one node's features and label"
LPGNN = "Sajadmanesh & Gatica-Perez, Locally Private Graph Neural Networks, ACM CCS 2021"
RANGE_NOTE = "The minimum and maximum of each feature column are taken as public"
Lists = tuple[Any, dict[str, int]]


@dataclass(frozen=True, kw_only=True)
class LocalMechanism(EdgeMechanism):
    """Fields: budgets of features and labels (inf: sent as they are), and K_x, K_y (None: the preset's)."""

    epsilon_x: float = 3.0
    """Budget of a node's features; inf sends them as they are."""
    epsilon_y: float = 3.0
    """Budget of a node's label; inf sends it as it is."""
    steps_x: int | None = None
    """K_x, how often features are averaged over neighbours; none takes the preset's."""
    steps_y: int | None = None
    """K_y, the same for labels; none takes the preset's."""

    def __post_init__(self) -> None:
        for name in ("epsilon_x", "epsilon_y"):
            try:
                check_epsilon(getattr(self, name), infinite=True)
            except InputError as error:
                raise InputError(f"{name}: {error}; inf sends the data as they are") from None
        for name in ("steps_x", "steps_y"):
            steps = getattr(self, name)
            if steps is not None and (not is_whole(steps) or steps < 0):
                raise InputError(f"{name} counts propagation steps and must be a whole number >= 0, got {steps!r}")

    @abstractmethod
    def lists(self, graph: Graph, features: FeatureMatrix, noise: Noise) -> Lists:
        """The noisy neighbour lists (CSR, row v = whom v aggregates from) and counts of what was dropped."""

    @property
    def paper(self) -> str:
        """GraphPrivatizer's settings (KProp among them), unless the features are sent as they are."""
        return "default" if math.isinf(self.epsilon_x) else "graphprivatizer"

    @property
    def hides_edges(self) -> bool:
        """False when the lists leave the nodes as they are."""
        return True

    def perturb(self, graph: Graph, seed: Seed = None) -> PerturbedGraph:
        """Everything the nodes send: noisy lists, features and labels. Without a seed the noise is secure."""
        if graph.x is None:
            raise InputError(f"{graph.name} has no features, and a local mechanism compares nodes by theirs")
        if self.status == "sound":
            graph.check_public_nodes()
        return self._perturb(graph, _unit_range(graph.x, self.epsilon_x, graph.x), seed)

    def _perturb(self, graph: Graph, x: FeatureMatrix, seed: Seed) -> PerturbedGraph:
        if graph.multilabel and not math.isinf(self.epsilon_y):
            raise InputError(
                "randomised response protects one label per node, and this graph has several; "
                "pass epsilon_y=inf to train on the labels as they are (they are then not protected)"
            )
        if not math.isinf(self.epsilon_x):
            x = multi_bit(x, self.epsilon_x, noise_for(seed, "features"))
        directed, dropped = self.lists(graph, x, noise_for(seed, "lists"))
        return PerturbedGraph.of(graph, directed, dropped, x, self._labels(graph, seed))

    def _labels(self, graph: Graph, seed: Seed) -> NDArray[Any] | None:
        if graph.y is None or math.isinf(self.epsilon_y):
            return graph.y
        return noisy_labels(graph.y, graph.num_classes, self.epsilon_y, noise_for(seed, "labels"))

    def release(self, job: Job) -> Release:
        """Collect what the nodes send, train on it, and answer on the noisy lists."""
        started = time.perf_counter()
        sent, seen = self._collect(job)
        spec = self._spec(job)
        model, _ = self._train(job, spec, sent, seen)
        claim = self.mechanism_guarantee(job.seed)
        claim = replace(claim, randomness=job.randomness, notes=(*claim.notes, TUNING_NOTE))
        if job.separate:
            claim = _over_graphs(claim, job)
        return make_release(
            self, job, GraphPredictor(spec, model, seen.directed), claim, seconds=time.perf_counter() - started,
            contains_private_graph=not self.hides_edges, matrix=seen.features,
            scaling=None if math.isinf(self.epsilon_x) else "minmax",
        )  # fmt: skip

    def noise_stage(self, job: Job) -> Noised:
        """What the nodes send for training and for answering."""
        return Noised(*self._collect(job), self.mechanism_guarantee(job.seed))

    def _collect(self, job: Job) -> tuple[PerturbedGraph, PerturbedGraph]:
        """The training and the inference graph as sent; one draw, cut, when the second contains the first."""
        noisy = not math.isinf(self.epsilon_x)
        x = _unit_range(job.inference.x, self.epsilon_x, job.graph.x) if noisy else job.inference_features
        seen = self._perturb(job.inference, x, job.noise_seed("graph"))
        if job.setting == "transductive":
            return seen, seen
        if job.setting == "inductive-evolving":
            inside = np.flatnonzero(job.train_mask)
            return replace(seen, directed=_among(seen.directed, inside)), seen
        x = _unit_range(job.graph.x, self.epsilon_x, job.graph.x) if noisy else job.train_features
        return self._perturb(job.graph, x, job.noise_seed("training graph")), seen

    def _train(
        self, job: Job, spec: ModelSpec, sent: PerturbedGraph, seen: PerturbedGraph
    ) -> tuple[Model, Drop | None]:
        graph, x = job.graph, sent.features
        assert x is not None and sent.y is not None and seen.y is not None and seen.features is not None
        model = build(spec, x.shape[1], graph.num_classes, seed=job.model_seed(spec.name))
        structure = Structure(sent.directed)
        steps = self._label_steps(job)
        drop = None
        if not math.isinf(self.epsilon_y) or steps:
            drop = Drop(
                sent.y, job.train_mask, job.val_mask, structure, classes=graph.num_classes, epsilon=self.epsilon_y,
                steps=steps, published=getattr(self, "variant", "correct") == "published",
            )  # fmt: skip
        validation = None
        if job.setting == "inductive-evolving" and job.val_mask is not None:
            known = _among(seen.directed, np.flatnonzero(job.val_nodes))
            validation = EvalSet(seen.features, Structure(known), seen.y, job.val_mask)
        fit(
            model, x, structure, sent.y, job.train_mask, job.val_mask, job.train_spec,
            seed=job.model_seed("training"), multilabel=graph.multilabel, progress=job.progress,
            validation=validation, objective=drop,
        )  # fmt: skip
        return model, drop

    def _spec(self, job: Job) -> ModelSpec:
        """The job's model with K_x steps of KProp: noisy features need some, so the preset's if it has none."""
        steps = self.steps_x
        if steps is None and job.model.kprop == 0 and not math.isinf(self.epsilon_x):
            steps = preset("graphprivatizer", job.graph.dataset, job.model.name).model.kprop
        return job.model if steps is None else replace(job.model, kprop=steps)

    def _label_steps(self, job: Job) -> int:
        if self.steps_y is not None:
            return self.steps_y
        if math.isinf(self.epsilon_y):
            return 0
        return preset("graphprivatizer", job.graph.dataset, job.model.name).label_steps

    def node_guarantees(self, seed: Seed) -> tuple[Guarantee, ...]:
        """Sound promises per node: features (LPGNN Theorem 3), label (k-ary randomised response), and both."""
        parts = [
            (self.epsilon_x, FEATURES, "the multi-bit mechanism, once per node"),
            (self.epsilon_y, LABEL, "randomised response on the label, once per node"),
        ]
        parts = [part for part in parts if not math.isinf(part[0])]
        if len(parts) == 2:
            total = float(exact(self.epsilon_x) + exact(self.epsilon_y))
            parts.append((total, BOTH, "sequential: the two budgets add up"))
        return tuple(
            Guarantee(
                status="sound",
                claimed_epsilon=epsilon,
                unit=unit,
                neighbouring=f"any two values of {unit}",
                not_protected=("neighbour lists (stated apart)", "the set of nodes"),
                randomness=SECURE if seed is None else SEEDED,
                composition=f"{how}; lists, training and answers only post-process what the node sent",
                notes=(RANGE_NOTE,) if "features" in unit else (),
                reference=LPGNN,
            )
            for epsilon, unit, how in parts
        )

    def claimed_total(self, epsilon: float) -> str:
        """What becomes of the total that Theorem 4.4 claims for a list entry, features and label."""
        parts = [e for e in (epsilon, self.epsilon_x, self.epsilon_y) if not math.isinf(e)]
        total = float(sum(exact(e) for e in parts))
        return f"The total of {total:g} that Theorem 4.4 claims fails with its first part"


def _over_graphs(claim: Guarantee, job: Job) -> Guarantee:
    """A promise after both graphs have sent. Whoever shares no edge may still share nodes, and those send twice."""
    node = claim.unit in (FEATURES, LABEL, BOTH)
    said = "sequential over the two graphs, as a node may be in both" if node else over_graphs(job)
    charges = [charged_on(charge, name, job) for name in (TRAINING, INFERENCE) for charge in claim.charges]
    times = 2 if node else job.times
    return replace(
        claim,
        claimed_epsilon=None if claim.claimed_epsilon is None else float(times * exact(claim.claimed_epsilon)),
        charges=tuple(charges),
        composition="; ".join(filter(None, [claim.composition, said])),
        also=tuple(_over_graphs(other, job) for other in claim.also),
    )


def _unit_range(x: Any, epsilon: float, fitted: Any) -> FeatureMatrix:
    """Features in [0, 1] by the column range of `fitted`; untouched when they are sent as they are."""
    if math.isinf(epsilon):
        return FeatureMatrix.wrap(x)
    scaled = Scaling.fit("minmax", fitted).apply(x)
    if x is fitted:
        return scaled
    outside = scaled.toarray() if scaled.shift is not None or not scaled.is_sparse else scaled.values
    clipped = outside.clip(0.0, 1.0) if isinstance(outside, np.ndarray) else outside.maximum(0).minimum(1)
    return FeatureMatrix.wrap(clipped)


def _among(directed: Any, nodes: NDArray[Any]) -> Any:
    """Only the entries whose both ends are in `nodes`; the shape stays."""
    inside = np.zeros(directed.shape[0], dtype=bool)
    inside[nodes] = True
    own = directed.tocoo()
    keep = inside[own.row] & inside[own.col]
    cut = type(directed)((own.data[keep], (own.row[keep], own.col[keep])), shape=directed.shape)
    return check_adjacency(cut)


def without_kprop(release: Release) -> Release:
    """The release as the authors' attack saw it: the trained GNN fed with noisy features, KProp left out.

    Not an answer the service ever gives; kept to compare with the published attack figures.
    """
    old = release.predictor
    if not isinstance(old, GraphPredictor):
        raise InputError(f"{release.defence} has no graph model in front of which KProp could stand")
    spec = replace(old.spec, kprop=0)
    model = build(spec, old.model.num_features, old.num_outputs, seed=0)
    load_arrays(model, state_arrays(old.model))
    return replace(release, predictor=GraphPredictor(spec, model, old.adjacency))
