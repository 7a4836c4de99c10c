"""Randomised response, read with public knowledge: every noisy pair weighs as much as it is likely to be an edge."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, Defence, Faces, Noised, make_release
from edgeveil.defences.edgerand import EdgeRand, expected_density, noisy_ranks
from edgeveil.defences.graph_audit import graph_experiments
from edgeveil.defences.job import Job
from edgeveil.defences.renewal import SNAPSHOT, Renewal, Renewed, Snapshot, composed
from edgeveil.defences.renewal_audit import Twice, renew_untrained, renewed_graphs
from edgeveil.defences.veil.counts import check_renewable
from edgeveil.defences.veil.edge_free import alone, fit_edge_free, judged, moved, specs
from edgeveil.defences.veil.pair_posterior import Observed, PublicPairs, fit_posterior
from edgeveil.defences.veil.pair_readings import Heard, choose_hearing, count_noise, expected_counts, spread
from edgeveil.errors import TooLarge
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs, unrank
from edgeveil.graph.upper_triangle import UpperBuilder
from edgeveil.models.assemble import build
from edgeveil.privacy.budget import Budget, check_epsilon, exact
from edgeveil.privacy.experiments import Claim, Effort, Experiment, Stated
from edgeveil.privacy.guarantee import Guarantee, Status
from edgeveil.privacy.noise import noise_for
from edgeveil.registry import Places
from edgeveil.release.lpgnet_predictor import CountNoise, log_softmax
from edgeveil.release.mixture_predictor import MixturePredictor
from edgeveil.release.predictors import GraphPredictor, Predictor, TabularPredictor
from edgeveil.release.readout_predictor import ReadoutPredictor
from edgeveil.release.release import Release
from edgeveil.seeds import Seed, derive

__all__ = ["MOST_DRAWN", "STORED", "VeilRR"]

STORED = 4_000_000  # noisy pairs that are kept; beyond that the least likely ones are thinned as they are drawn
MOST_DRAWN = 400_000_000  # noisy pairs that are drawn at all
SCORED = 200_000  # random pairs that tell how many a score would thin
LEAST = 0.02  # posterior below which a pair is left out of the graph
KEPT = "no way to hear the noisy pairs was seen to beat the edge-free base, so the base alone answers"
SILENT = "the noisy pairs are nearly all lies, so the edge-free base alone answers"
Rule = Callable[[NDArray[np.int64]], NDArray[np.bool_]]


@dataclass(frozen=True, kw_only=True)
class _Thinned(EdgeRand):
    """EdgeRand that stores only those noisy pairs that a public rule keeps; the others are counted and forgotten."""

    rules: Mapping[int, Rule] = field(default_factory=dict, compare=False)  # by the graph's identity
    drawn: dict[int, int] = field(default_factory=dict, compare=False)

    def perturb(self, graph: Graph, seed: Seed = None, *, memory: int | None = None) -> Graph:
        graph.check_public_nodes()
        builder, total, rule = UpperBuilder(graph.num_nodes), 0, self.rules.get(id(graph))
        for ranks in noisy_ranks(graph, self.flip, noise_for(seed, "edgerand")):
            total += len(ranks)
            kept = ranks if rule is None or not len(ranks) else ranks[rule(ranks)]
            if len(kept):
                builder.add(kept)
        self.drawn[id(graph)] = total
        return graph.with_upper(*builder.finish())


@DEFENCES.register("veil-rr")
@dataclass(frozen=True, kw_only=True)
class VeilRR(Defence):
    """A graph of posterior probabilities: randomised response on every pair, weighed by public knowledge.

    A GNN hears it, or its expected neighbours per cluster are read as veil-counts reads noisy ones. The edge-free base
    comes first, and stays alone unless validation nodes prefer one of these.
    """

    epsilon: float | None = None
    """What one undirected edge may cost."""
    neighbours: int = 15
    """How many nodes with like features each node hears in the edge-free base."""

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "edgeveil: docs/defences.md; the query is that of EdgeRand, IEEE S&P 2022, Algorithm 3"
    advised: ClassVar[Places] = {"veil-rr": 60}
    fills: ClassVar[bool] = True
    faces: ClassVar[Faces] = {"veil-rr": ("veil-rr", None)}

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    def query(self, rules: Mapping[int, Rule] | None = None) -> _Thinned:
        """The mechanism that reads the edges."""
        return _Thinned(epsilon=self.epsilon, rules=rules or {})

    def check_size(self, graph: Graph) -> None:
        """The number of pairs to draw, by the nodes alone: a refusal must not tell of edges."""
        epsilon, pairs = check_epsilon(self.epsilon), num_pairs(graph.num_nodes)
        drawn = expected_density(epsilon, 0.0) * pairs
        if drawn > MOST_DRAWN:
            least = math.ceil(100 * math.log(max(pairs / MOST_DRAWN - 1, 1.01))) / 100
            raise TooLarge(
                f"veil-rr at epsilon {epsilon:g} would draw about {drawn:,.0f} noisy pairs of {graph.num_nodes:,} "
                f"nodes, more than {MOST_DRAWN:,}; use epsilon {least:g} or more, or veil-counts, which asks for counts"
            )

    def release(self, job: Job) -> Release:
        """Train the base, randomise the pairs, hear the denoised graph, keep it if validation nodes say so."""
        started = time.perf_counter()
        for graph in (job.graph, job.inference):
            self.check_size(graph)
        whole, job = job, judged(job)
        base = fit_edge_free(job, self.neighbours)
        parts = [
            _Part.of(g, x, base.predictor(x), self.flip_chance, job.model_seed("veil-rr", g.num_nodes))
            for g, x in _graphs(job)
        ]
        query = self.query({id(p.graph): p.rule for p in parts if p.least is not None})
        noised = self.noise_stage(job, query)
        drawn = [query.drawn[id(p.graph)] for p in parts]
        answer = parts[0].denoised(noised.inference, drawn[0])
        train = parts[1].denoised(noised.train, drawn[1]) if job.separate else answer
        silent = not answer.nnz or not train.nnz
        chosen = None if silent else choose_hearing(job, base, Heard.of(job, train, answer, noised.inference))
        predictor, note = chosen or (alone(whole, job, base), SILENT if silent else KEPT)
        claim = replace(noised.guarantee, reference=self.reference)
        return make_release(
            self, job, predictor, claim, seconds=time.perf_counter() - started, notes=(*base.notes, note)
        )

    @property
    def flip_chance(self) -> float:
        """The chance that a pair lies."""
        return float(self.query().flip)

    def renewal(self, seed: int | None = None) -> Renewal:
        """The new graph is randomised once; base and models stay, the posterior is that of the new pairs."""
        return Renewal(exact(check_epsilon(self.epsilon)), self._renew, self._check_renewal)

    def _check_renewal(self, snapshot: Snapshot) -> None:
        self.check_size(snapshot.graph)
        check_renewable(snapshot)

    def _renew(self, snapshot: Snapshot) -> Renewed:
        old, x, graph = snapshot.release.predictor, snapshot.x, snapshot.graph
        budget = Budget(exact(check_epsilon(self.epsilon)))
        budget.spend(budget.cap, "randomised response on every node pair", on=SNAPSHOT)
        before = _edge_free(old)
        base = moved(before, x, self.neighbours)
        part = _Part.of(graph, x, base, self.flip_chance, derive(snapshot.seed or 0, "veil-rr"))
        query = self.query({id(graph): part.rule} if part.least is not None else {})
        noisy = query.perturb(graph, seed=snapshot.noise_seed("veil-rr"))
        guarantee = composed(snapshot.release.guarantee, budget, snapshot.seed)
        if before is old:
            return Renewed(base, x, guarantee)
        return Renewed(self._heard_again(old, base, part.denoised(noisy, query.drawn[id(graph)]), x), x, guarantee)

    def _heard_again(self, old: Predictor, base: Predictor, weights: sp.csr_matrix, x: FeatureMatrix) -> Predictor:
        """The models of a release on other weights, from the edge-free base upwards."""
        if isinstance(old, ReadoutPredictor):
            below = self._heard_again(old.base, base, weights, x)
            counts = expected_counts(weights, below.logits(x).argmax(axis=1), base.num_outputs)
            noise = count_noise(weights, base.num_outputs)
            law = CountNoise(noise.law, noise.scale, clipped=False)
            return ReadoutPredictor(below, old.spec, old.model, counts, old.form, old.temperature, law)
        if _edge_free(old) is old:
            return base
        assert isinstance(old, MixturePredictor) and isinstance(old.parts[0], GraphPredictor)
        gnn = GraphPredictor(old.parts[0].spec, old.parts[0].model, spread(weights, x, self.neighbours))
        return MixturePredictor([gnn, base], old.weights)

    def noise_stage(self, job: Job, query: _Thinned | None = None) -> Noised:
        """All that a release reads of private edges; `experiments` run this very function."""
        return (query or self.query()).noise_stage(job)

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What one randomised graph promises."""
        return replace(self.query().mechanism_guarantee(seed), reference=self.reference)

    def audit_claim(self) -> Claim:
        """The epsilon of one randomised graph."""
        return self.query().audit_claim()

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Planted pairs and neighbouring graphs through the noise stage, and a release that is renewed."""
        epsilon = self.audit_claim().epsilon
        once = graph_experiments(self.noise_stage, epsilon, effort)
        return [*once, *renewed_graphs(self, epsilon, effort, VeilRR.shown_twice)]

    def shown_twice(self, job: Job) -> Twice:
        """The noisy pairs of a release with fresh weights, and those that weigh something in its renewal."""
        noised, x = self.noise_stage(job), job.inference_features
        spec, own = specs(job)
        base = TabularPredictor(spec, build(spec, x.shape[1], job.graph.num_classes, seed=0).eval(), x.shape[0])
        model = build(own, x.shape[1], job.graph.num_classes, seed=0).eval()
        made = MixturePredictor([GraphPredictor(own, model, noised.inference.adjacency), base], [1.0, 1.0])
        fresh = renew_untrained(self, job, made, noised.guarantee)
        assert isinstance(fresh.predictor, MixturePredictor)
        heard = fresh.predictor.parts[0]
        assert isinstance(heard, GraphPredictor)
        public = spread(sp.csr_matrix(heard.adjacency.shape), x, self.neighbours)
        shown = abs(heard.adjacency - public) > LEAST / 2
        return Twice(noised.inference.adjacency, shown, Stated.of(fresh.guarantee))


def _graphs(job: Job) -> list[tuple[Graph, FeatureMatrix]]:
    """The graphs that are randomised, the answering one first."""
    found = [(job.inference, job.inference_features)]
    return [*found, (job.graph, job.train_features)] if job.separate else found


@dataclass(frozen=True, eq=False)
class _Part:
    """One graph to be randomised, and what is public about its pairs."""

    graph: Graph
    public: PublicPairs
    flip: float
    least: float | None  # score below which noisy pairs are thinned; None: all are kept
    seed: int

    @classmethod
    def of(cls, graph: Graph, x: FeatureMatrix, base: Predictor, flip: float, seed: int) -> _Part:
        public = PublicPairs.of(x, np.exp(log_softmax(base.logits(x))))
        pairs, least = num_pairs(graph.num_nodes), None
        if flip * pairs > STORED:
            some = np.random.default_rng(seed).integers(0, pairs, SCORED)
            least = float(np.quantile(public.score(*unrank(some, graph.num_nodes)), 1 - STORED / (flip * pairs)))
        return cls(graph, public, flip, least, seed)

    def rule(self, ranks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which noisy pairs to keep, by public facts."""
        assert self.least is not None
        return np.asarray(self.public.score(*unrank(ranks, self.graph.num_nodes)) >= self.least)

    def denoised(self, noisy: Graph, drawn: int) -> sp.csr_matrix:
        """Symmetric weights: the posterior of every noisy pair that is not nearly a lie for certain."""
        u, v = noisy.edge_index
        n = noisy.num_nodes
        if not len(u) or drawn == num_pairs(n):
            return sp.csr_matrix((n, n))
        observed = Observed(u, v, n, self.flip, drawn)
        chance = fit_posterior(observed, self.public, np.random.default_rng(self.seed), self.least)
        keep = chance >= LEAST
        upper = sp.csr_matrix((chance[keep], (u[keep], v[keep])), shape=(n, n))
        return (upper + upper.T).tocsr()


def _edge_free(old: Predictor) -> Predictor:
    """The base within a release: beside the GNN on the denoised graph, or below the MLPs that read counts."""
    if isinstance(old, ReadoutPredictor):
        return _edge_free(old.base)
    if isinstance(old, MixturePredictor) and isinstance(old.parts[0], GraphPredictor):
        return old.parts[1]
    return old
