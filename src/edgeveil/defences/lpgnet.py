"""LPGNet: MLPs that ask the private graph only for noisy cluster-degree vectors (Kolluri et al., CCS 2022)."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.base import DEFENCES, TUNING_NOTE, Defence, make_release, over_graphs
from edgeveil.defences.bayes_readout import EvidenceReader
from edgeveil.defences.degree_vectors import SLICES, DegreeNoise, NoiseLaw, degree_noise, fill_empty, noise_scale
from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet_audit import Perturb, audit_cases, canary_scores, outcomes
from edgeveil.defences.lpgnet_stack import (
    Phase,
    answer,
    ask_again,
    make_phases,
    query_epsilon,
    stack_settings,
    train_first,
    train_next,
)
from edgeveil.defences.renewal import SNAPSHOT, Renewal, Renewed, Snapshot, composed
from edgeveil.errors import InputError
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import Budget, check_epsilon
from edgeveil.privacy.guarantee import Guarantee, Status
from edgeveil.privacy.noise import noise_for
from edgeveil.release.lpgnet_predictor import LPGNetPredictor
from edgeveil.release.release import Release
from edgeveil.seeds import Seed, as_generator
from edgeveil.values import is_whole

__all__ = ["LPGNet"]

Float = NDArray[np.float64]
REUSED = (
    "The published code repeats one block of noise for five slices of nodes and for every layer, so the difference of "
    "two released counts cancels the noise and shows true counts"
)


@DEFENCES.register("lpgnet", presets={"lpgnet-1": {"layers": 1}, "lpgnet-2": {"layers": 2}}, numbered="layers")
@dataclass(frozen=True, kw_only=True)
class LPGNet(Defence):
    """`layers` extra MLPs, each fed by one noisy degree-vector query of equal cost.

    epsilon: for one undirected edge; inf asks without noise (LPGNet Table 2). noise: discrete (exact, the default of
    the correct variant) or continuous (the paper; seeded runs only). readout: "mlp" as in the paper, or "bayes"
    (`edgeveil.defences.bayes_readout`). clip: counts below 0 become 0 for the MLPs; no effect on the Bayesian read-out,
    which knows the noise and takes them as they are. variant: "published" repeats noise as the authors' code did, to
    reproduce its numbers; it has no guarantee.
    """

    epsilon: float | None = None
    layers: int = 2
    noise: str | None = None
    clip: bool = True
    readout: str = "mlp"
    variant: str = "correct"

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "Kolluri et al., LPGNet, ACM CCS 2022, Algorithms 2-4 and Appendix A"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon, infinite=True)
        if not is_whole(self.layers) or self.layers < 1:
            raise InputError(
                f"lpgnet needs a whole number of layers >= 1 (extra MLPs), got {self.layers!r}; use 'mlp' for 0"
            )
        object.__setattr__(self, "layers", int(self.layers))
        if not isinstance(self.clip, (bool, np.bool_)):
            raise InputError(f"clip of lpgnet is True or False, got {self.clip!r}")
        object.__setattr__(self, "clip", bool(self.clip))
        if self.variant not in ("correct", "published"):
            raise InputError(f"unknown variant {self.variant!r} of lpgnet; use correct or published")
        if self.readout not in ("mlp", "bayes"):
            raise InputError(f"unknown readout {self.readout!r} of lpgnet; use mlp or bayes")
        if self.noise is None:
            object.__setattr__(self, "noise", "continuous" if self.variant == "published" else "discrete")
        if self.noise not in get_args(NoiseLaw):
            raise InputError(f"unknown noise {self.noise!r} of lpgnet; use discrete or continuous")
        if self.variant == "published" and (self.noise, self.clip, self.readout) != ("continuous", True, "mlp"):
            raise InputError(
                "variant 'published' is what the authors ran: noise='continuous', clip=True, readout='mlp'"
            )

    @property
    def paper(self) -> str:
        """LPGNet's own settings; those of its GCN and MLP train alike, so an unnamed model changes nothing."""
        return "lpgnet"

    def release(self, job: Job) -> Release:
        """Train layer by layer; every query is charged before it is asked."""
        self._check_noise(job.seed)
        if job.graph.multilabel and self.readout == "bayes":
            raise InputError("readout='bayes' needs one class per node; use readout='mlp' for multi-label graphs")
        started = time.perf_counter()
        budget = Budget(self._epsilon * job.times)
        phases = make_phases(job)
        cost = query_epsilon(budget, phases, self.layers)
        spec, train, notes = stack_settings(job)
        first = train_first(job, spec, train)
        models, reader = [first], EvidenceReader(job, self._law(cost)) if self.readout == "bayes" else None
        every = list({id(p): p for p in phases}.values())
        for phase in every:
            answer(phase, first)
        if reader is not None:
            reader.start(phases)
        for layer in range(1, self.layers + 1):
            for phase in every:
                self._ask(job, budget, cost, phase, layer)
            if reader is not None:
                reader.read(phases)
                continue
            models.append(train_next(job, spec, train, phases[0], phases[1], layer))
            for phase in every:
                answer(phase, models[-1])
        serve = phases[2]
        predictor = LPGNetPredictor(spec, models, serve.vectors, *(() if reader is None else reader.result(serve)))
        return make_release(
            self, job, predictor, self._guarantee(job, budget), seconds=time.perf_counter() - started,
            contains_private_graph=budget.unlimited or self.variant == "published",
            notes=(*notes, *(() if reader is None else reader.notes), *self._storage_note(budget)),
        )  # fmt: skip

    def renewal(self, seed: int | None = None) -> Renewal:
        """One query per layer on the new graph, an equal share of epsilon each (Alg. 3)."""
        if self.readout != "mlp":
            raise InputError(
                "a Bayesian read-out is fitted to its own graph; only readout='mlp' can answer for another"
            )
        if self.variant != "correct":
            raise InputError(f"no renewal is proved for variant {self.variant!r} of lpgnet; make a new release")
        check_epsilon(self.epsilon)
        self._check_noise(seed)
        return Renewal(Budget(self._epsilon).cap, self._renew)

    def _renew(self, snapshot: Snapshot) -> Renewed:
        old, budget = snapshot.release.predictor, Budget(self._epsilon)
        assert isinstance(old, LPGNetPredictor)

        def ask(clusters: NDArray[np.int64], layer: int) -> Float:
            cost = budget.spend(budget.cap / self.layers, f"cluster-degree vectors, layer {layer}", on=SNAPSHOT)
            counts = cluster_degrees(snapshot.graph, clusters, old.num_outputs)
            return self.perturb_counts(counts, cost, snapshot.noise_seed(layer))

        predictor = ask_again(old, snapshot.x, ask)
        guarantee = composed(snapshot.release.guarantee, budget, snapshot.seed)
        return Renewed(predictor, snapshot.x, guarantee)

    def _check_noise(self, seed: int | None) -> None:
        if seed is None and self.noise == "continuous" and not math.isinf(self._epsilon):
            raise InputError(
                "continuous noise is floating point and never private: pass a seed, or use noise='discrete'"
            )

    @property
    def _epsilon(self) -> float:
        assert self.epsilon is not None
        return float(self.epsilon)

    def _law(self, cost: Fraction | float) -> DegreeNoise:
        law: Any = self.noise
        return DegreeNoise(law, float(noise_scale(cost)))

    def _ask(self, job: Job, budget: Budget, cost: Fraction | float, phase: Phase, layer: int) -> None:
        """One query: charge, count, add noise of its own stream, clip."""
        budget.spend(cost, f"cluster-degree vectors, {phase.name}, layer {layer}", on=phase.on)
        counts = cluster_degrees(phase.graph, phase.clusters, job.graph.num_classes)
        phase.append(self.perturb_counts(counts, cost, job.noise_seed(*self._stream(phase.name, layer))))

    def _stream(self, phase: str, layer: int) -> tuple[str, str | int, int]:
        """Name of a query's noise: its own for every phase and layer, unless the published fault is reproduced."""
        return ("lpgnet", "published", 0) if self.variant == "published" else ("lpgnet", phase, layer)

    def perturb_counts(self, counts: NDArray[np.int64], epsilon: Fraction | float, seed: Seed) -> Float:
        """Noisy counts of one query that costs `epsilon` (LPGNet Alg. 4, line 6), ready to be released."""
        law: Any = self.noise
        published = self.variant == "published"
        shape = (counts.shape[0], counts.shape[1])
        noise = degree_noise(noise_for(seed), law, noise_scale(epsilon), shape, slices=SLICES if published else 1)
        vectors = counts + noise
        if self.readout == "mlp" and self.clip:
            vectors = np.maximum(vectors, 0.0)
        return fill_empty(vectors, as_generator(seed, "empty")) if published else vectors

    def audit_neighbours(self) -> list[tuple[str, Graph, Graph]]:
        """Hook of `edgeveil.privacy.verify`: the graphs of the small test."""
        return audit_cases()

    def audit_outcomes(self, graph: Graph, runs: int, rng: np.random.Generator | None) -> Sequence[Hashable]:
        """Hook of `edgeveil.privacy.verify`: the released statistic on a tiny graph, coarsened."""
        return outcomes(graph, self._audited(rng), self._epsilon, self.layers, runs, self.variant == "published")

    def canary_scores(self, graph: Graph, pairs: NDArray[np.int64], rng: np.random.Generator | None) -> Float:
        """Hook of `edgeveil.privacy.verify`: evidence for each planted pair in one release."""
        return canary_scores(graph, pairs, self._audited(rng), self._epsilon, self.layers, self.variant == "published")

    def _audited(self, rng: np.random.Generator | None) -> Perturb:
        """The query as released; the correct variant is audited before clipping, which could only hide evidence."""
        bare = self if self.variant == "published" else replace(self, clip=False)
        return lambda counts, epsilon: bare.perturb_counts(counts, epsilon, rng)

    def _guarantee(self, job: Job, budget: Budget) -> Guarantee:
        if budget.unlimited:
            reason = "Epsilon is infinite: the release stores exact neighbour counts"
            return Guarantee(status="none", reason=reason, reference=self.reference)
        sharing = {
            "transductive": "sequential over the layers; training, validation and inference share the stored vectors",
            "inductive-evolving": "sequential over layers and the three phases, a third of epsilon for each phase",
        }.get(job.setting) or f"sequential over the layers; {over_graphs(job)}"
        published = self.variant == "published"
        return Guarantee(
            status="refuted" if published else "sound",
            claimed_epsilon=float(budget.cap),
            charges=budget.charges,
            composition=sharing,
            randomness=job.randomness,
            reason=REUSED if published else "",
            reference=self.reference,
            notes=(TUNING_NOTE,),
        )

    def _storage_note(self, budget: Budget) -> tuple[str, ...]:
        if not budget.unlimited and self.variant != "published":
            return ()
        why = "are exact" if budget.unlimited else "share their noise, which cancels and shows true counts"
        return (f"the stored degree vectors {why}: guard the release as you guard the graph",)
