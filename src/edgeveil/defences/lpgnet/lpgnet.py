"""LPGNet: MLPs that ask the private graph only for noisy cluster-degree vectors (Kolluri et al., CCS 2022)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, TUNING_NOTE, Faces, claim_of, make_release, over_graphs
from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.bayes_readout import EvidenceReader
from edgeveil.defences.lpgnet.degree_vectors import (
    SLICES,
    DegreeNoise,
    NoiseLaw,
    QueryCost,
    ask,
    degree_noise,
    fill_empty,
    noise_scale,
    query_cost,
)
from edgeveil.defences.lpgnet.lpgnet_audit import VectorDefence, reasked_stack, renewed_vectors, vector_experiments
from edgeveil.defences.lpgnet.lpgnet_stack import (
    Phase,
    answer,
    ask_again,
    distinct,
    make_phases,
    most_queries,
    stack_settings,
    train_first,
    train_next,
)
from edgeveil.defences.renewal import SNAPSHOT, Renewal, Renewed, Snapshot, composed
from edgeveil.errors import InputError
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.privacy.budget import DELTA, Budget, Gaussian, check_delta, check_epsilon
from edgeveil.privacy.experiments import Claim, Effort, Experiment
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import noise_for
from edgeveil.registry import Places
from edgeveil.release.lpgnet_predictor import CountNoise, LPGNetPredictor
from edgeveil.release.release import Release
from edgeveil.seeds import Seed, as_generator
from edgeveil.values import is_whole

if TYPE_CHECKING:
    from edgeveil.defences.stored.stored_job import StoredJob

__all__ = ["LPGNet"]

Float = NDArray[np.float64]
REUSED = (
    "The published code repeats one block of noise for five slices of nodes and for every layer, so the difference of "
    "two released counts cancels the noise and shows true counts"
)


@DEFENCES.register("lpgnet", presets={"lpgnet-1": {"layers": 1}, "lpgnet-2": {"layers": 2}}, numbered="layers")
@dataclass(frozen=True, kw_only=True)
class LPGNet(VectorDefence):
    """`layers` extra MLPs, each fed by one noisy degree-vector query of equal cost.

    epsilon: for one undirected edge; inf asks without noise (LPGNet Table 2). noise: discrete (exact, the default of
    the correct variant), continuous (the paper; seeded runs only) or gaussian (discrete Gaussian, exact; the guarantee
    has a delta, 10^-6 unless given, and pays off when many queries are composed, see docs/lpgnet.md). readout: "mlp" as
    in the paper, or "bayes" (`bayes_readout`). clip: counts below 0 become 0 for the MLPs; no effect
    on the Bayesian read-out, which knows the noise and takes them as they are. variant: "published" repeats noise as
    the authors' code did, to reproduce its numbers; it has no guarantee.
    """

    epsilon: float | None = None
    """What one undirected edge may cost; inf means no noise."""
    layers: int = 2
    noise: str | None = None
    """discrete (exact), gaussian (exact, with a delta) or continuous (the paper; seeded runs only); none: discrete."""
    delta: float | None = None
    """Of the Gaussian noise; none: 10^-6."""
    clip: bool = True
    """Counts below 0 become 0 for the MLPs."""
    readout: str = "mlp"
    """mlp as in the paper, or bayes, which knows the noise."""
    variant: str = "correct"
    """``correct``, or ``published``: as the authors' code computes it, without a guarantee."""

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "Kolluri et al., LPGNet, ACM CCS 2022, Algorithms 2-4 and Appendix A"
    faces: ClassVar[Faces] = {
        "lpgnet": ("LPGNet", None), "lpgnet-1": ("LPGNet-1", 4), "lpgnet-2": ("LPGNet-2", 5),
    }  # fmt: skip
    audited: ClassVar[Places] = {"lpgnet-1": 40, "lpgnet-2": 50}
    advised: ClassVar[Places] = {"lpgnet-1": 30, "lpgnet-2": 40}
    own_model: ClassVar[str | None] = "mlp"

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
        self._check_law()
        if self.variant == "published" and (self.noise, self.clip, self.readout) != ("continuous", True, "mlp"):
            raise InputError(
                "variant 'published' is what the authors ran: noise='continuous', clip=True, readout='mlp'"
            )

    def _check_law(self) -> None:
        if self.noise not in get_args(NoiseLaw):
            raise InputError(f"unknown noise {self.noise!r} of lpgnet; use {', '.join(get_args(NoiseLaw))}")
        if self.noise == "gaussian":
            object.__setattr__(self, "delta", check_delta(DELTA if self.delta is None else self.delta))
        elif self.delta is not None:
            raise InputError(f"{self.noise} noise needs no delta, got {self.delta!r}; it belongs to noise='gaussian'")

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
        phases = make_phases(job)
        spec, train, notes = stack_settings(job)
        first = train_first(job, spec, train)
        models, reader = [first], None
        if self.readout == "bayes":
            cost = self.cost_of_query(phases, job.times)
            reader = EvidenceReader(job, DegreeNoise(self.law, float(noise_scale(cost))))
        for phase in distinct(phases):
            answer(phase, first)
        if reader is not None:
            reader.start(phases)

        def learn(layer: int) -> None:
            if reader is not None:
                reader.read(phases)
                return
            models.append(train_next(job, spec, train, phases[0], phases[1], layer))
            for phase in distinct(phases):
                answer(phase, models[-1])

        budget = self.noise_stage(job, phases, learn)
        serve = phases[2]
        evidence, temperature = (None, 1.0) if reader is None else reader.result(serve)
        noise = self.public_noise(self.cost_of_query(phases, job.times))
        predictor = LPGNetPredictor(spec, models, serve.vectors, evidence, temperature, noise)
        return make_release(
            self, job, predictor, self.job_guarantee(job, budget), seconds=time.perf_counter() - started,
            contains_private_graph=budget.unlimited or self.variant == "published",
            notes=(*notes, *(() if reader is None else reader.notes), *self._storage_note(budget)),
        )  # fmt: skip

    def release_stored(self, job: StoredJob) -> Release:
        """The same from files: counts by a data engine, MLPs from blocks of rows."""
        from edgeveil.defences.stored.count_releases import release_lpgnet

        self._check_noise(job.seed)
        if self.readout != "mlp" or self.variant != "correct":
            raise InputError("edges that stay in files are read by readout='mlp', variant='correct' only")
        return release_lpgnet(self, job)

    def renewal(self, seed: int | None = None) -> Renewal:
        """One query per layer on the new graph, each at the same cost (Alg. 3)."""
        if self.readout != "mlp":
            raise InputError(
                "a Bayesian read-out is fitted to its own graph; only readout='mlp' can answer for another"
            )
        if self.variant != "correct":
            raise InputError(f"no renewal is proved for variant {self.variant!r} of lpgnet; make a new release")
        check_epsilon(self.epsilon)
        self._check_noise(seed)
        return Renewal(self.budget().cap, self._renew)

    def _renew(self, snapshot: Snapshot) -> Renewed:
        old, budget = snapshot.release.predictor, self.budget()
        assert isinstance(old, LPGNetPredictor)
        cost = query_cost(budget, self.layers, self.law)

        def vectors(clusters: NDArray[np.int64], layer: int) -> Float:
            ask(budget, cost, f"cluster-degree vectors, layer {layer}", SNAPSHOT)
            counts = cluster_degrees(snapshot.graph, clusters, old.num_outputs)
            return self.perturb_counts(counts, cost, snapshot.noise_seed(layer))

        predictor = ask_again(old, snapshot.x, vectors, self.public_noise(cost))
        guarantee = composed(snapshot.release.guarantee, budget, snapshot.seed)
        return Renewed(predictor, snapshot.x, guarantee)

    def public_noise(self, cost: QueryCost) -> CountNoise:
        """What is public about the noise on every stored count."""
        return CountNoise(self.law, float(noise_scale(cost)), self._clips)

    @property
    def _clips(self) -> bool:
        return self.readout == "mlp" and self.clip

    def _check_noise(self, seed: int | None) -> None:
        if seed is None and self.noise == "continuous" and not math.isinf(self._epsilon):
            raise InputError(
                "continuous noise is floating point and never private: pass a seed, or use noise='discrete'"
            )

    @property
    def _epsilon(self) -> float:
        assert self.epsilon is not None
        return float(self.epsilon)

    @property
    def law(self) -> NoiseLaw:
        law: Any = self.noise
        return cast(NoiseLaw, law)

    def budget(self, times: int = 1) -> Budget:
        """Laplace noise is pure; Gaussian noise is added up on its exact curve, or by zCDP if that is smaller."""
        return Budget(self._epsilon * times, delta=self.delta, accountant="gaussian" if self.delta else "pure")

    def noise_stage(self, job: Job, phases: Sequence[Phase], learn: Callable[[int], None]) -> Budget:
        """Ask every phase in every layer; `learn` follows each layer and sets the clusters of the next.

        All that a release reads of private edges; `experiments` run this very function with clusters of their own.
        """
        budget, cost = self.budget(job.times), self.cost_of_query(phases, job.times)
        for layer in range(1, self.layers + 1):
            for phase in distinct(phases):
                self._ask(job, budget, cost, phase, layer)
            learn(layer)
        return budget

    def cost_of_query(self, phases: Sequence[Phase], times: int) -> QueryCost:
        """Cost of each query: both one graph's own epsilon and, where two share a bill, the sum must cover them."""
        most = most_queries(phases, self.layers)
        costs = [query_cost(self.budget(n), most * n // times, self.law) for n in sorted({1, times})]
        return max(costs, key=noise_scale)

    def _ask(self, job: Job, budget: Budget, cost: QueryCost, phase: Phase, layer: int) -> None:
        """One query: charge, count, add noise of its own stream, clip."""
        ask(budget, cost, f"cluster-degree vectors, {phase.name}, layer {layer}", phase.on)
        counts = cluster_degrees(phase.graph, phase.clusters, job.graph.num_classes)
        phase.append(self.perturb_counts(counts, cost, job.noise_seed(*self._stream(phase.name, layer))))

    def _stream(self, phase: str, layer: int) -> tuple[str, str | int, int]:
        """Name of a query's noise: its own for every phase and layer, unless the published fault is reproduced."""
        return ("lpgnet", "published", 0) if self.variant == "published" else ("lpgnet", phase, layer)

    def perturb_counts(self, counts: NDArray[np.int64], cost: QueryCost, seed: Seed) -> Float:
        """Noisy counts of one query at that cost (LPGNet Alg. 4, line 6), ready to be released."""
        if (self.noise == "gaussian") != isinstance(cost, Gaussian) and cost != math.inf:
            raise InputError(f"{self.noise} noise does not have the cost {cost}; use query_cost for this law")
        published = self.variant == "published"
        shape = (counts.shape[0], counts.shape[1])
        noise = degree_noise(noise_for(seed), self.law, noise_scale(cost), shape, slices=SLICES if published else 1)
        vectors = counts + noise
        if self._clips:
            vectors = np.maximum(vectors, 0.0)
        return fill_empty(vectors, as_generator(seed, "empty")) if published else vectors

    def audit_claim(self) -> Claim:
        """The epsilon and delta of a release of one graph."""
        return claim_of(self, self.mechanism_guarantee(None))._replace(gaussian=self.noise == "gaussian")

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Planted pairs and neighbours through the noise stage, and a renewal; continuous noise is only ever seeded."""
        effort = replace(effort, secure=False) if self.noise == "continuous" else effort
        gaussian = self.noise == "gaussian"
        once = vector_experiments(self.noise_stage, effort, gaussian=gaussian)
        return [*once, *renewed_vectors(self, effort, reasked_stack)]

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What the noisy vectors of one release promise, in any setting."""
        if math.isinf(self._epsilon):
            reason = "Epsilon is infinite: the release stores exact neighbour counts"
            return Guarantee(status="none", reason=reason, reference=self.reference)
        return Guarantee(
            status="refuted" if self.variant == "published" else "sound",
            claimed_epsilon=self._epsilon,
            delta=self.delta or 0.0,
            accountant=self.budget().accountant,
            randomness=SECURE if seed is None else SEEDED,
            reason=REUSED if self.variant == "published" else "",
            reference=self.reference,
            notes=(TUNING_NOTE,),
        )

    def job_guarantee(self, job: Job, budget: Budget) -> Guarantee:
        """What the noise stage of this job promises, with every charge."""
        claim = self.mechanism_guarantee(job.seed)
        if budget.unlimited:
            return claim
        sharing = {
            "transductive": "sequential over the layers; training, validation and inference share the stored vectors",
            "inductive-evolving": "sequential over layers and the three phases, which share epsilon in equal parts",
        }.get(job.setting) or f"sequential over the layers; {over_graphs(job)}"
        return replace(claim, claimed_epsilon=float(budget.cap), charges=budget.charges, composition=sharing)

    def _storage_note(self, budget: Budget) -> tuple[str, ...]:
        if not budget.unlimited and self.variant != "published":
            return ()
        why = "are exact" if budget.unlimited else "share their noise, which cancels and shows true counts"
        return (f"the stored degree vectors {why}: guard the release as you guard the graph",)
