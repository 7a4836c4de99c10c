"""LPGNet's stack: which graph each phase asks, what a query costs, and the MLPs between queries (Alg. 2 and 3)."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.job import Job, cut
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.models.assemble import build, load_arrays, state_arrays
from edgeveil.models.network import Model
from edgeveil.models.presets import preset
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.models.train import fit
from edgeveil.release.lpgnet_predictor import CountNoise, LPGNetPredictor, row_logits, stack_features
from edgeveil.release.predictors import no_edges

__all__ = [
    "Phase",
    "answer",
    "ask_again",
    "distinct",
    "make_phases",
    "most_queries",
    "stack_settings",
    "train_first",
    "train_next",
]

Float = NDArray[np.float64]


@dataclass(eq=False)
class Phase:
    """One graph that is asked for degree vectors, and what is known of its nodes so far."""

    name: str
    graph: Graph
    x: FeatureMatrix
    on: str  # the edge set that pays
    logits: Float = field(default_factory=lambda: np.empty((0, 0)))
    features: Float | None = None
    vectors: list[Float] = field(default_factory=list)
    assigned: NDArray[np.int64] | None = None

    @property
    def clusters(self) -> NDArray[np.int64]:
        """The clusters assigned from public data, else the class that the latest MLP gives (never the true labels)."""
        out: NDArray[np.int64] = self.logits.argmax(axis=1) if self.assigned is None else self.assigned
        return out

    def append(self, vectors: Float) -> None:
        """Keep one layer's vectors and grow the features of the next MLP."""
        self.vectors.append(vectors)
        self.features = stack_features(self.features, self.logits, vectors)


def make_phases(job: Job) -> tuple[Phase, Phase, Phase]:
    """The phases that train, validate and answer (LPGNet App. A, Table 3); a graph asked once is one phase.

    transductive: one graph for all three. inductive, inductive-different: the training graph also validates, the
    inference graph answers; edges pay for both unless the graphs share none. inductive-evolving: three growing
    cuts of one graph, so every edge may pay three times.
    """
    if job.setting == "transductive":
        one = Phase("training", job.graph, job.train_features, "graph")
        return one, one, one
    if job.separate:
        bills = job.edge_set("training graph"), job.edge_set("inference graph")
        train = Phase("training", job.graph, job.train_features, bills[0])
        return train, train, Phase("inference", job.inference, job.inference_features, bills[1])
    known = cut(job.inference, job.val_nodes)
    return (
        Phase("training", job.graph, job.train_features, "graph"),
        Phase("validation", known, job.inference_features, "graph"),
        Phase("inference", job.inference, job.inference_features, "graph"),
    )


def distinct(phases: Iterable[Phase]) -> list[Phase]:
    """Each phase once: one graph may train, validate and answer."""
    return list({id(p): p for p in phases}.values())


def most_queries(phases: Sequence[Phase], layers: int) -> int:
    """The number of queries that any one edge set must answer."""
    sets = [p.on for p in distinct(phases)]
    return layers * max(map(sets.count, sets))


def stack_settings(job: Job) -> tuple[ModelSpec, TrainSpec, tuple[str, ...]]:
    """The MLP and how it is trained: the caller's MLP, or LPGNet's own in place of a GNN.

    The job's training settings are always kept. LPGNet's own GCN is what `defend` fills in when no model is named, so
    it is replaced without a note.
    """
    if job.model.name == "mlp":
        return replace(job.model, bias="none"), job.train_spec, ()
    unnamed = job.model == preset("lpgnet", job.graph.dataset, "gcn").model
    note = f"LPGNet stacks MLPs: the model {job.model.name!r} is ignored"
    return preset("lpgnet", job.graph.dataset, "mlp").model, job.train_spec, () if unnamed else (note,)


class _FirstModels:
    """Weights of first MLPs, found again by the very arrays they were trained on; nothing is kept alive by it."""

    def __init__(self, size: int = 8) -> None:
        self._size = size
        self._known: OrderedDict[Any, tuple[list[weakref.ref[Any]], dict[str, NDArray[Any]]]] = OrderedDict()

    @staticmethod
    def _parts(job: Job) -> list[Any]:
        masks = job.graph.masks
        return [job.graph.x, job.graph.y, *(() if masks is None else (masks.train, masks.val))]

    def _key(self, job: Job, *settings: Any) -> Any:
        return tuple(id(p) for p in self._parts(job)), job.scaling, job.fit_scaling_on, job.setting, job.seed, *settings

    def get(self, job: Job, *settings: Any) -> dict[str, NDArray[Any]] | None:
        """Stored weights, if the arrays are still the same objects."""
        refs, weights = self._known.get(self._key(job, *settings), ([], {}))
        same = refs and all(r() is p for r, p in zip(refs, self._parts(job), strict=True))
        return weights if same else None

    def put(self, weights: dict[str, NDArray[Any]], job: Job, *settings: Any) -> None:
        """Remember weights; the oldest are forgotten."""
        self._known[self._key(job, *settings)] = ([weakref.ref(p) for p in self._parts(job)], weights)
        while len(self._known) > self._size:
            self._known.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()


FIRST = _FirstModels()


def train_first(job: Job, spec: ModelSpec, train: TrainSpec) -> Model:
    """The MLP on features alone. It reads no edge and no epsilon, so seeded sweeps over epsilon train it once."""
    x = job.train_features
    model = build(spec, x.shape[1], job.graph.num_classes, seed=job.model_seed("lpgnet", 0))
    known = None if job.seed is None else FIRST.get(job, spec, train)
    if known is not None:
        load_arrays(model, known)
        return model.eval()
    _train(job, model, x, train, 0)
    if job.seed is not None:
        FIRST.put(state_arrays(model), job, spec, train)
    return model


def train_next(job: Job, spec: ModelSpec, train: TrainSpec, learn: Phase, judge: Phase, layer: int) -> Model:
    """MLP number `layer` on logits and vectors so far.

    An MLP reads one row at a time, so training rows of the training phase and validation rows of the validation phase
    can stand in one matrix.
    """
    assert learn.features is not None and judge.features is not None
    rows = learn.features
    if judge is not learn and job.val_mask is not None:
        rows = np.where(job.val_mask[:, None], judge.features, learn.features)
    model = build(spec, rows.shape[1], job.graph.num_classes, seed=job.model_seed("lpgnet", layer))
    _train(job, model, FeatureMatrix.wrap(rows), train, layer)
    return model


def _train(job: Job, model: Model, x: FeatureMatrix, train: TrainSpec, layer: int) -> None:
    assert job.graph.y is not None
    fit(
        model, x, no_edges(x.shape[0]), job.graph.y, job.train_mask, job.val_mask, train,
        seed=job.model_seed("lpgnet training", layer), multilabel=job.graph.multilabel, progress=job.progress,
    )  # fmt: skip


def answer(phase: Phase, model: Model) -> None:
    """Replace the phase's logits by those of the latest MLP."""
    x = phase.x if phase.features is None else FeatureMatrix.wrap(phase.features)
    phase.logits = row_logits(model, x)


def ask_again(
    old: LPGNetPredictor, x: FeatureMatrix, ask: Callable[[NDArray[np.int64], int], Float], noise: CountNoise
) -> LPGNetPredictor:
    """LPGNet Alg. 3 on a new graph: each layer's clusters come from the layer before; `ask` charges and answers."""
    logits, features, stored = row_logits(old.models[0], x), None, []
    for layer, model in enumerate(old.models[1:], start=1):
        stored.append(ask(logits.argmax(axis=1), layer))
        features = stack_features(features, logits, stored[-1])
        logits = row_logits(model, FeatureMatrix.wrap(features))
    return LPGNetPredictor(old.spec, old.models, stored, noise=noise)
