"""The interface of a defence, its registry, and what defences that train a GNN on some graph have in common."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.defences.graph_audit import graph_experiments
from edgeveil.defences.job import Job, cut
from edgeveil.defences.renewal import Renewal
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.models.assemble import build
from edgeveil.models.network import Model
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure
from edgeveil.models.train import EvalSet, fit
from edgeveil.privacy.budget import Budget, Charge, exact
from edgeveil.privacy.experiments import Claim, Effort, Experiment
from edgeveil.privacy.guarantee import ONE_EDGE, Guarantee, Status
from edgeveil.registry import Places, Registry
from edgeveil.release.evaluation import Evaluation
from edgeveil.release.inputs import Inputs
from edgeveil.release.predictors import GraphPredictor, Predictor, no_edges
from edgeveil.release.release import Release

if TYPE_CHECKING:
    from edgeveil.defences.stored.stored_job import StoredJob
    from edgeveil.graph.features import FeatureMatrix
    from edgeveil.graph.stored.graph_in_files import StoredGraph

__all__ = [
    "DEFENCES",
    "Defence",
    "EdgeMechanism",
    "Noised",
    "charged_on",
    "claim_of",
    "cut_matrix",
    "make_release",
    "over_graphs",
    "train_gnn",
    "train_on",
]

Faces = Mapping[str, tuple[str, int | None]]  # registered name -> title and colour slot in reports
TRAINING, INFERENCE = "training graph", "inference graph"
TUNING_NOTE = "Choosing hyper-parameters on the private graph is not covered by this epsilon"


class Defence(ABC):
    """Turns a job into a release. Concrete defences are frozen dataclasses: fields are the parameters.

    Facts: `unit` and `status` of the promise, `needs` of the graph, and `own_model`, the model of a defence that takes
    none from its caller. What a defence takes (epsilon, delta, variant ...) are its fields: `DEFENCES.takes`. Where
    nobody names defences, an audit tries the names in `audited` and advice is on those in `advised`, by their places,
    beside those in `edge_free`, which read no edge.
    """

    unit: ClassVar[str] = ONE_EDGE
    status: ClassVar[Status]
    reference: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset({"features", "labels"})
    own_model: ClassVar[str | None] = None
    faces: ClassVar[Faces] = {}
    audited: ClassVar[Places] = {}
    advised: ClassVar[Places] = {}
    edge_free: ClassVar[Places] = {}
    fills: ClassVar[bool] = False  # the noisy graph is the denser, and work the slower, the smaller epsilon is

    @property
    def paper(self) -> str:
        """Whose hyper-parameters fit this defence when the caller names none."""
        return "default"

    @abstractmethod
    def release(self, job: Job) -> Release:
        """Train under this defence and return what may be published."""

    def release_stored(self, job: StoredJob) -> Release:
        """The same for a graph whose edges stay in files; refused by methods that need all of them in memory."""
        raise InputError(
            f"{registered_name(self)!r} needs all edges in memory, but these stay in files; methods that only ask for "
            "counts do not: lpgnet-1, lpgnet-2, veil-counts, mlp. `edgeveil perturb` streams edgerand and lapgraph"
        )

    def check_size(self, graph: Graph) -> None:
        """Refuse at once, by counts alone, a graph whose release would not fit this machine; by default none."""
        del graph

    def renewal(self, seed: int | None = None) -> Renewal:
        """How a release of this defence answers for another graph; refused unless the method proves a way."""
        raise InputError(
            f"no renewal is proved for {registered_name(self)!r}: its release cannot be applied to another graph; "
            "make a new release"
        )


CALL = (
    "graph", "defence", "model", "seed", "inference_graph", "setting", "preset", "train", "scaling", "progress",
    "ledger", "edge_set", "tenant",
)  # fmt: skip
DEFENCES: Registry[Defence] = Registry("defence", "edgeveil.defences", "edgeveil.defences", reserved=CALL)


class Noised(NamedTuple):
    """The noisy graphs that train and answer, and what the noise promises."""

    train: Graph
    inference: Graph
    guarantee: Guarantee


def claim_of(defence: Defence, guarantee: Guarantee) -> Claim:
    """A guarantee's epsilon and delta as a claim to test, whatever its unit."""
    epsilon = guarantee.claimed_epsilon
    if epsilon is None or not math.isfinite(epsilon):
        raise InputError(f"{type(defence).__name__} claims no epsilon, so there is nothing to verify")
    note = "" if defence.unit == ONE_EDGE else "tested in its own unit; for one undirected edge nothing is claimed"
    return Claim(float(epsilon), guarantee.delta, defence.unit, note)


class EdgeMechanism(Defence):
    """A defence that perturbs the graph once and trains any GNN on the result (LinkTeller Alg. 2)."""

    @abstractmethod
    def perturb(self, graph: Graph, seed: int | None = None) -> Graph:
        """The noisy graph; operating-system entropy unless seeded."""

    @abstractmethod
    def mechanism_guarantee(self, seed: int | None = None) -> Guarantee:
        """What one perturbation promises."""

    def noisy_chunks(self, graph: StoredGraph, seed: int | None, scratch: Path) -> Iterator[NDArray[np.int64]]:
        """The same for edges that stay in files: sorted chunks of noisy pair ranks; not every method can."""
        raise InputError(f"{registered_name(self)!r} needs all edges in memory, but these stay in files")

    def release(self, job: Job) -> Release:
        """Run the noise stage, then train on what it hands out."""
        noisy = self.noise_stage(job)
        return train_gnn(self, job, noisy.train, noisy.inference, noisy.guarantee)

    def noise_stage(self, job: Job) -> Noised:
        """Perturb each private graph once; the evolving setting perturbs the whole graph and cuts the training part.

        All that a release reads of private edges; `experiments` run this very function.
        """
        claim = self.mechanism_guarantee(job.seed)
        assert claim.claimed_epsilon is not None
        budget = Budget(
            exact(claim.claimed_epsilon) * job.times, delta=claim.delta * job.times or None, accountant=claim.accountant
        )
        if job.separate:
            noisy_train = self._charged(job, job.graph, TRAINING, claim, budget)
            noisy = self._charged(job, job.inference, INFERENCE, claim, budget)
            composition = over_graphs(job)
        else:
            noisy = self._charged(job, job.inference, "graph", claim, budget)
            noisy_train = cut(noisy, job.train_mask) if job.setting == "inductive-evolving" else noisy
            composition = "the graph is perturbed once; training and every answer are post-processing"
        if len(claim.charges) > 1:
            composition = f"charges on one graph add up; {composition}"
        claim = replace(
            claim, claimed_epsilon=float(budget.cap), delta=budget.delta, charges=budget.charges,
            composition=composition, randomness=job.randomness, notes=(*claim.notes, TUNING_NOTE),
        )  # fmt: skip
        return Noised(noisy_train, noisy, claim)

    def audit_claim(self) -> Claim:
        """What one perturbation promises, to be tested."""
        return claim_of(self, self.mechanism_guarantee(None))

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Planted pairs and neighbouring graphs through the noise stage, and a release that is renewed."""
        from edgeveil.defences.renewal_audit import graph_twice, renewed_graphs

        epsilon = self.audit_claim().epsilon
        once = graph_experiments(self.noise_stage, epsilon, effort)
        return [*once, *renewed_graphs(self, epsilon, effort, graph_twice)]

    def _charged(self, job: Job, graph: Graph, name: str, claim: Guarantee, budget: Budget) -> Graph:
        """Charge the mechanism's queries on one graph, then perturb it."""
        whole = (Charge(f"{type(self).__name__} perturbation", budget.cap / job.times),)
        for charge in claim.charges or whole:
            budget.enter(charged_on(charge, name, job))
        return self.perturb(graph, seed=job.noise_seed(name))


def over_graphs(job: Job) -> str:
    """How epsilon of two graphs that are asked separately composes, in words."""
    if job.times == 1:
        return (
            f"parallel over the {TRAINING} and the {INFERENCE} (LinkTeller Lemma 1), as their owner asserts that they "
            "share no edge; an edge in both would pay twice"
        )
    return (
        f"sequential over the {TRAINING} and the {INFERENCE}, which pay the same: an edge may be in both, because "
        "nobody has asserted that they share none (setting inductive-different)"
    )


def charged_on(charge: Charge, name: str, job: Job) -> Charge:
    """A charge on one graph of the job; where two graphs share a bill it says which."""
    on = job.edge_set(name) if job.separate else name
    return charge._replace(what=charge.what if on == name else f"{charge.what}, {name}", on=on)


def train_gnn(
    defence: Defence,
    job: Job,
    train_graph: Graph,
    graph: Graph,
    guarantee: Guarantee,
    *,
    contains_private_graph: bool = False,
) -> Release:
    """Train the job's model on the edges of one graph and wrap it so that it answers on those of another."""
    return train_on(
        defence, job, train_graph.adjacency, graph.adjacency, guarantee, contains_private_graph=contains_private_graph
    )


def train_on(
    defence: Defence,
    job: Job,
    train: sp.csr_matrix,
    answer: sp.csr_matrix,
    guarantee: Guarantee,
    *,
    contains_private_graph: bool = False,
) -> Release:
    """Train the job's model on one adjacency, weighted or not, and let it answer on another."""
    started = time.perf_counter()
    validation = None
    if job.setting == "inductive-evolving" and job.val_mask is not None:
        seen = Structure(cut_matrix(answer, job.val_nodes))
        assert job.inference.y is not None
        validation = EvalSet(job.inference_features, seen, job.inference.y, job.val_mask)
    model = fit_model(job, job.model, job.train_features, train, validation)
    predictor = GraphPredictor(job.model, model, answer)
    return make_release(
        defence, job, predictor, guarantee, seconds=time.perf_counter() - started,
        contains_private_graph=contains_private_graph,
    )  # fmt: skip


def cut_matrix(adjacency: sp.csr_matrix, nodes: NDArray[np.bool_]) -> sp.csr_matrix:
    """Keep only the entries among `nodes`; the shape stays."""
    own = adjacency.tocoo()
    keep = nodes[own.row] & nodes[own.col]
    return sp.csr_matrix((own.data[keep], (own.row[keep], own.col[keep])), shape=adjacency.shape)


def fit_model(
    job: Job,
    spec: ModelSpec,
    x: FeatureMatrix,
    adjacency: sp.csr_matrix | None,
    validation: EvalSet | None = None,
) -> Model:
    """Build and train one model on the job's labels and masks; `validation` judges on another graph."""
    graph = job.graph
    assert graph.y is not None
    model = build(spec, x.shape[1], graph.num_classes, seed=job.model_seed(spec.name))
    structure = no_edges(graph.num_nodes) if adjacency is None else Structure(adjacency)
    fit(
        model, x, structure, graph.y, job.train_mask, job.val_mask, job.train_spec, seed=job.model_seed("training"),
        multilabel=graph.multilabel, progress=job.progress, validation=validation,
    )  # fmt: skip
    return model


def make_release(
    defence: Defence,
    job: Job,
    predictor: Predictor,
    guarantee: Guarantee,
    *,
    seconds: float,
    contains_private_graph: bool = False,
    matrix: FeatureMatrix | None = None,
    scaling: str | None = None,
    notes: tuple[str, ...] = (),
) -> Release:
    """Fill in everything about a release that follows from the defence and the job.

    No release states a sound guarantee about edges whose graphs read their nodes off the edges.
    """
    if guarantee.status == "sound":
        job.check_public_nodes()
    params = asdict(defence)  # type: ignore[call-overload]
    spec: ModelSpec = getattr(predictor, "spec", job.model)
    return Release(
        defence=registered_name(defence),
        guarantee=guarantee,
        predictor=predictor,
        matrix=job.inference_features if matrix is None else matrix,
        params=params,
        model=spec.name,
        layers=spec.layers,
        variant=params.get("variant", "correct"),
        setting=job.setting,
        dataset=job.inference.name,
        is_twin=job.inference.is_twin,
        multilabel=job.graph.multilabel,
        scaling=scaling or job.scaler.kind,
        inputs=None if matrix is not None else Inputs(job.scaler, job.graph.num_features, job.graph.table),
        node_ids=job.inference.node_ids,
        class_names=job.graph.class_names,
        contains_private_graph=contains_private_graph,
        seconds_train=seconds,
        notes=notes,
        evaluation=Evaluation.of(job.inference),
    )


def face(name: str) -> tuple[str, int | None]:
    """Title and colour slot of a defence in reports; a name without any stands for itself."""
    if name not in DEFENCES:
        return name, None
    faces = DEFENCES.get(name).faces
    base = name.rpartition("-")[0]
    counted = f"{faces[base][0]}{name.removeprefix(base)}" if base in faces else name
    return faces.get(name, (counted, None))


def registered_name(defence: Defence) -> str:
    """The registered name that describes an instance best: a preset that it matches, else its class's name."""
    plain = ""
    for entry in DEFENCES:
        if type(defence) is not entry.cls:
            continue
        if not entry.preset:
            plain = entry.name
        elif all(getattr(defence, key) == value for key, value in entry.preset.items()):
            return entry.name
    counted = DEFENCES.numbered(plain)
    return f"{plain}-{getattr(defence, counted)}" if counted else plain or type(defence).__name__.lower()
