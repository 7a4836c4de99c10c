"""GAP at edge level: noisy sums of edge-free encodings over neighbours (Sajadmanesh et al., USENIX Security 2023).

An MLP encodes features without reading an edge. Per hop, rows of length 1 are summed over neighbours under Gaussian
noise and brought back to length 1; an MLP classifies the encoding and all hops together. The noisy sums are kept, so
that every answer is post-processing.

Sensitivity. The edge {u, v} adds row v to the sum of u and row u to the sum of v: two rows of length at most 1, so an
L2 change of the root of 2 per hop. GAP counts one entry of the adjacency matrix, which changes one sum by at most 1:
its epsilon for the same noise is smaller and stated beside ours. Rows lie on a grid, rounded towards zero so that none
gets longer; sums are then exact and the discrete Gaussian counts grid steps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import (
    DEFENCES,
    TUNING_NOTE,
    Defence,
    Faces,
    claim_of,
    fit_model,
    make_release,
    over_graphs,
)
from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.lpgnet_audit import vector_experiments
from edgeveil.defences.lpgnet.lpgnet_stack import Phase, distinct, make_phases, most_queries
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.models.assemble import build, load_arrays, state_arrays
from edgeveil.models.network import Model
from edgeveil.models.presets import preset
from edgeveil.models.spec import ModelSpec
from edgeveil.models.train import fit
from edgeveil.privacy.budget import DELTA, Budget, check_delta, check_epsilon
from edgeveil.privacy.experiments import Claim, Effort, Experiment
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import noise_for
from edgeveil.release.lpgnet_predictor import row_logits
from edgeveil.release.predictors import PREDICTORS, Arrays, Logits, Predictor, no_edges
from edgeveil.release.release import Release
from edgeveil.seeds import Seed
from edgeveil.values import is_whole

__all__ = ["GAP", "GapPredictor", "grid_rows", "neighbour_sums", "stage_classifier", "unit_rows"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
GRID = 256  # steps per unit
SENSITIVITY = GRID * math.sqrt(2)  # of one hop to one undirected edge, in steps
ONE_ENTRY = GRID  # of one hop to one entry of the adjacency matrix, the unit of the paper


def unit_rows(rows: NDArray[Any]) -> Float:
    """Rows of length 1; zero stays zero."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, length, out=np.zeros(rows.shape), where=length > 0), np.float64)


def grid_rows(rows: NDArray[Any]) -> Int:
    """Rows of length at most 1 in whole steps."""
    return np.trunc(unit_rows(rows) * GRID).astype(np.int64)


def neighbour_sums(graph: Graph, rows: Int) -> Int:
    """Exact sums of the neighbours' rows."""
    return np.asarray(graph.adjacency.astype(np.int64) @ rows)


@PREDICTORS.register("gap")
class GapPredictor(Predictor):
    """Encoder and classifier over stored noisy sums [n, hops * width]. No answer reads another node's row."""

    kind = "gap"
    rowwise = True

    def __init__(self, spec: ModelSpec, encoder: Model, classifier: Model, sums: Float) -> None:
        self.spec, self.encoder, self.classifier, self.sums = spec, encoder, classifier, sums
        self.num_nodes, self.num_outputs = len(sums), int(classifier.num_outputs)

    def logits(self, x: FeatureMatrix) -> Logits:
        if x.shape[0] != self.num_nodes:
            raise InputError(
                f"this release stores noisy sums of {self.num_nodes} nodes, not {x.shape[0]}; another graph needs a "
                "new release with its own epsilon: defend(..., inference_graph=other)"
            )
        rows = np.hstack([unit_rows(row_logits(self.encoder, x)), self.sums])
        return row_logits(self.classifier, FeatureMatrix.wrap(rows))

    def induced(self, nodes: Int) -> GapPredictor:
        """The same nodes with the sums of the whole graph: those of a subgraph would cost epsilon again."""
        return GapPredictor(self.spec, self.encoder, self.classifier, self.sums[nodes])

    def state(self) -> tuple[dict[str, Any], Arrays, Arrays]:
        parts = {"encoder": self.encoder, "classifier": self.classifier}
        weights = {f"{name}/{key}": v for name, model in parts.items() for key, v in state_arrays(model).items()}
        sizes = {name: [model.num_features, model.num_outputs] for name, model in parts.items()}
        return {"model": self.spec.to_json(), "sizes": sizes}, weights, {"sums": self.sums}

    @classmethod
    def from_state(cls, settings: dict[str, Any], weights: Arrays, structure: Arrays) -> GapPredictor:
        spec, models = ModelSpec.from_json(settings["model"]), {}
        for name, (inputs, outputs) in settings["sizes"].items():
            models[name] = build(spec, inputs, outputs, seed=0)
            mine = {k.partition("/")[2]: v for k, v in weights.items() if k.startswith(f"{name}/")}
            load_arrays(models[name], mine)
        return cls(spec, models["encoder"], models["classifier"], structure["sums"])


@DEFENCES.register("gap")
@dataclass(frozen=True, kw_only=True)
class GAP(Defence):
    """Gaussian noise on `hops` rounds of neighbour sums, composed by zero-concentrated differential privacy.

    The encoding is the encoder's class scores, which are fewer numbers than the paper's hidden layer: the noise of a
    sum does not shrink with its width.
    """

    epsilon: float | None = None
    """For one undirected edge, at `delta`."""
    delta: float = DELTA
    """Chance that the privacy loss exceeds epsilon."""
    hops: int = 1
    """How often encodings are summed over neighbours; every hop is a query."""

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "Sajadmanesh et al., GAP, USENIX Security 2023, Algorithms 1-2 at edge level"
    faces: ClassVar[Faces] = {"gap": ("GAP", None)}
    own_model: ClassVar[str | None] = "mlp"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if not is_whole(self.hops) or self.hops < 1:
            raise InputError(f"hops of gap must be a whole number >= 1, got {self.hops!r}; use 'mlp' for 0")

    def release(self, job: Job) -> Release:
        """Encode, ask for one noisy sum per hop, classify."""
        started = time.perf_counter()
        spec, notes = _mlp(job)
        encoder = fit_model(job, spec, job.train_features, None)
        phases = make_phases(job)
        own = {}
        for phase in distinct(phases):
            phase.logits = own[id(phase)] = unit_rows(row_logits(encoder, phase.x))

        def seen(phase: Phase) -> Float:
            return np.hstack([own[id(phase)], *(unit_rows(v) for v in phase.vectors)])

        def step(hop: int) -> None:
            if hop < self.hops:
                for phase, rows in zip(
                    phases, self.next_rows(job, spec, phases, [seen(p) for p in phases]), strict=True
                ):
                    phase.logits = rows

        budget = self.noise_stage(job, phases, step)
        classifier = stage_classifier(job, spec, seen(phases[0]), seen(phases[1]))
        kept = seen(phases[2])[:, own[id(phases[2])].shape[1] :]
        predictor = GapPredictor(spec, encoder, classifier, kept)
        return make_release(
            self, job, predictor, self._job_guarantee(job, budget), seconds=time.perf_counter() - started, notes=notes
        )

    def next_rows(self, job: Job, spec: ModelSpec, phases: Sequence[Phase], seen: Sequence[Float]) -> list[Float]:
        """What the next hop sums, for every phase; `seen` is all that a phase has so far."""
        return [unit_rows(phase.vectors[-1]) for phase in phases]

    def noise_stage(self, job: Job, phases: Sequence[Phase], learn: Callable[[int], None]) -> Budget:
        """Sum every phase's rows (`logits`) once per hop; `learn` follows each hop and sets the rows of the next.

        All that a release reads of private edges; `experiments` run this very function with rows of their own.
        """
        budget, scale = self._budget(job.times), self._scale(phases, job.times)
        for hop in range(1, self.hops + 1):
            for phase in distinct(phases):
                what = f"neighbour sums, {phase.name}, hop {hop}"
                budget.spend_gaussian(scale, what, on=phase.on, sensitivity=SENSITIVITY)
                exact = neighbour_sums(phase.graph, grid_rows(phase.logits))
                phase.vectors.append(self.perturb_sums(exact, scale, job.noise_seed("gap", phase.name, hop)))
            learn(hop)
        return budget

    def perturb_sums(self, sums: Int, scale: Fraction, seed: Seed) -> Float:
        """Noisy sums in units of a row's length."""
        noise = noise_for(seed).discrete_gaussian(scale, sums.size).reshape(sums.shape)
        return np.asarray((sums + noise) / GRID, np.float64)

    def _budget(self, times: int = 1) -> Budget:
        assert self.epsilon is not None
        return Budget(float(self.epsilon) * times, delta=self.delta, accountant="zcdp")

    def _scale(self, phases: Sequence[Phase], times: int) -> Fraction:
        """Smallest noise that fits both one graph's own epsilon and, where two share a bill, the sum."""
        most = most_queries(phases, self.hops)
        return max(
            self._budget(n).gaussian_scale(most * n // times, sensitivity=SENSITIVITY) for n in sorted({1, times})
        )

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What the noisy sums of one release promise, in any setting."""
        return Guarantee(
            status="sound", claimed_epsilon=float(self._budget().cap), delta=self.delta, accountant="zcdp",
            randomness=SECURE if seed is None else SEEDED, reference=self.reference,
            notes=(TUNING_NOTE, self._paper_note()),
        )  # fmt: skip

    def _paper_note(self) -> str:
        """The paper's own figure for this noise on one graph."""
        scale = self._budget().gaussian_scale(self.hops, sensitivity=SENSITIVITY)
        theirs = Budget(math.nextafter(float(self._budget().cap), math.inf), delta=self.delta, accountant="zcdp")
        for hop in range(self.hops):
            theirs.spend_gaussian(scale, f"hop {hop + 1}", sensitivity=ONE_ENTRY)
        return (
            f"GAP states epsilon for one entry of the adjacency matrix (one directed edge): there this noise is worth "
            f"{float(theirs.spent):.4g} at the same delta"
        )

    def _job_guarantee(self, job: Job, budget: Budget) -> Guarantee:
        sharing = {
            "transductive": "the hops compose; training, validation and inference share the stored sums",
            "inductive-evolving": "the hops and the three phases, which are asked one after another, compose",
        }.get(job.setting) or f"the hops compose; {over_graphs(job)}"
        return replace(
            self.mechanism_guarantee(job.seed), claimed_epsilon=float(budget.cap), charges=budget.charges,
            composition=sharing,
        )  # fmt: skip

    def audit_claim(self) -> Claim:
        """The epsilon and delta of a release of one graph, as a curve of Gaussian noise."""
        return claim_of(self, self.mechanism_guarantee())._replace(gaussian=True)

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """The auditor gives every node a row of length 1 along one axis: sums are then counts, as LPGNet's are."""
        return vector_experiments(self.noise_stage, effort, gaussian=True)


def _mlp(job: Job) -> tuple[ModelSpec, tuple[str, ...]]:
    """The caller's MLP, or the preset's in place of a GNN."""
    if job.model.local:
        return job.model, ()
    unnamed = job.model == preset("default", job.graph.dataset, "gcn").model
    note = f"GAP trains MLPs: the model {job.model.name!r} is ignored"
    return preset("default", job.graph.dataset, "mlp").model, () if unnamed else (note,)


def stage_classifier(job: Job, spec: ModelSpec, learn: Float, judge: Float) -> Model:
    """The MLP over encoding and sums; validation rows are those of the phase that judges."""
    assert job.graph.y is not None
    rows = learn
    if judge is not learn and job.val_mask is not None:
        rows = np.where(job.val_mask[:, None], judge, learn)
    model = build(spec, rows.shape[1], job.graph.num_classes, seed=job.model_seed("gap classifier"))
    fit(
        model, FeatureMatrix.wrap(rows), no_edges(len(rows)), job.graph.y, job.train_mask, job.val_mask,
        job.train_spec, seed=job.model_seed("gap training"), multilabel=job.graph.multilabel, progress=job.progress,
    )  # fmt: skip
    return model
