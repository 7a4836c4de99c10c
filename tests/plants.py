"""Unsound mechanisms for the verifier: each is a real one with one fault, and claims the epsilon of the real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
import pytest

from edgeveil.defences.blink import Blink
from edgeveil.defences.edgerand import EdgeRand
from edgeveil.defences.gap import GAP
from edgeveil.defences.graphprivatizer import local
from edgeveil.defences.graphprivatizer.gp_edge import EdgeBucketResponse
from edgeveil.defences.graphprivatizer.gp_sound import BucketResponse
from edgeveil.defences.job import Job
from edgeveil.defences.lapgraph import LapGraph
from edgeveil.defences.lpgnet import lpgnet
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.defences.lpgnet.lpgnet_stack import distinct
from edgeveil.defences.renewal import Renewal, Renewed, Snapshot, perturb_again
from edgeveil.defences.veil.choice import Veil
from edgeveil.defences.veil.counts import VeilCounts
from edgeveil.defences.veil.denoised_rr import VeilRR
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import sample_distinct, sample_non_edges
from edgeveil.privacy import topcells
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.privacy.noise import Noise, noise_for
from edgeveil.privacy.probability import Probability, probability
from edgeveil.privacy.secure import SecureNoise
from edgeveil.seeds import Seed, as_generator

Counts = Any


def _lists(graph: Graph) -> int:
    return int.from_bytes(graph.edge_ranks.tobytes()[-7:] or b"0", "little") + graph.num_edges


class GraphItself(EdgeRand):
    """No noise."""

    def perturb(self, graph: Graph, seed: Seed = None, **_: Any) -> Graph:
        return graph


class HalfRand(EdgeRand):
    """Bits lie half as often as they should."""

    @property
    def flip(self) -> Probability:
        return probability(float(super().flip) / 2)


class SparedHubs(EdgeRand):
    """Pairs of a node of degree above 32 are shown as they are."""

    def perturb(self, graph: Graph, seed: Seed = None, **_: Any) -> Graph:
        noisy, hub = super().perturb(graph, seed=seed), graph.degrees > 32
        return _spliced(graph, noisy, lambda u, v: hub[u] | hub[v])


class SparedPendants(EdgeRand):
    """Edges of nodes of degree one are shown as they are."""

    def perturb(self, graph: Graph, seed: Seed = None, **_: Any) -> Graph:
        noisy, lonely = super().perturb(graph, seed=seed), graph.degrees == 1
        return _spliced(graph, noisy, lambda u, v: lonely[u] | lonely[v])


class LonelyNodes(EdgeRand):
    """Nodes without edges never get any."""

    def perturb(self, graph: Graph, seed: Seed = None, **_: Any) -> Graph:
        noisy, alone = super().perturb(graph, seed=seed), graph.degrees == 0
        u, v = noisy.edge_index
        return noisy.with_edge_ranks(noisy.edge_ranks[~(alone[u] | alone[v])])


class TruthfulEdges(EdgeRand):
    """Only non-edges ever lie."""

    def perturb(self, graph: Graph, seed: Seed = None, **_: Any) -> Graph:
        noisy = super().perturb(graph, seed=seed)
        return noisy.with_edge_ranks(np.union1d(noisy.edge_ranks, graph.edge_ranks))


class ExactNumber(EdgeRand):
    """Randomised response, then cut or filled to the true number of edges."""

    def perturb(self, graph: Graph, seed: Seed = None, **_: Any) -> Graph:
        noisy, rng = super().perturb(graph, seed=seed), as_generator(None)
        ranks, want = noisy.edge_ranks, graph.num_edges
        if len(ranks) > want:
            return noisy.with_edge_ranks(ranks[sample_distinct(len(ranks), want, rng)])
        more = sample_non_edges(graph.num_nodes, ranks, want - len(ranks), rng)
        return noisy.with_edge_ranks(np.union1d(ranks, more))


class ExactDegrees(EdgeRand):
    """Edges are swapped at random, which keeps every degree."""

    def perturb(self, graph: Graph, seed: Seed = None, **_: Any) -> Graph:
        rng, edges = as_generator(None), {(int(u), int(v)) for u, v in graph.edge_index.T}
        listed = sorted(edges)
        for _ in range(min(10 * len(listed), 2000)):
            if len(listed) < 2:
                break
            i, j = rng.integers(0, len(listed), 2)
            (a, b), (c, d) = listed[i], listed[j]
            new = {tuple(sorted((a, d))), tuple(sorted((c, b)))}
            if i != j and len({a, b, c, d}) == 4 and not new & edges:
                edges = (edges - {listed[i], listed[j]}) | new  # type: ignore[assignment]
                listed[i], listed[j] = new  # type: ignore[assignment]
        return graph.with_edges(np.array(sorted(edges), np.int64).reshape(-1, 2).T)


class SeedOfGraph(EdgeRand):
    """The noise is a function of the private graph."""

    def perturb(self, graph: Graph, seed: Seed = None, **_: Any) -> Graph:
        return super().perturb(graph, seed=_lists(graph))


class SameNoiseTwice(EdgeRand):
    """Training and inference graph get the same noise."""

    def noise_stage(self, job: Job) -> Any:
        shared = int(np.random.default_rng().integers(2**60))
        return replace(self, epsilon=self.epsilon)._shared_stage(job, shared)

    def _shared_stage(self, job: Job, shared: int) -> Any:
        stage, real = super().noise_stage, EdgeRand.perturb
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                SameNoiseTwice, "perturb", lambda s, graph, seed=None: real(s, graph, seed=shared), raising=False
            )
            return stage(job)


class ForgetfulRenewal(EdgeRand):
    """A renewed release states what the renewal cost and forgets what its weights have cost."""

    def renewal(self, seed: int | None = None) -> Renewal:
        real = super().renewal(seed)

        def answer(snapshot: Snapshot) -> Renewed:
            fresh = real.answer(snapshot)
            return fresh._replace(guarantee=replace(fresh.guarantee, claimed_epsilon=float(real.epsilon)))

        return replace(real, answer=answer)


class LoudRenewal(EdgeRand):
    """The renewal lies as seldom as if it had twice the epsilon that it states."""

    def renewal(self, seed: int | None = None) -> Renewal:
        real, loud = super().renewal(seed), perturb_again(EdgeRand(epsilon=2 * self._claimed))

        def answer(snapshot: Snapshot) -> Renewed:
            return loud.answer(snapshot)._replace(guarantee=real.answer(snapshot).guarantee)

        return replace(real, answer=answer)

    @property
    def _claimed(self) -> float:
        assert self.epsilon is not None
        return self.epsilon


class Claimed(LapGraph):
    """A LapGraph that always states its epsilon, whatever it spends."""

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        assert self.epsilon is not None
        return replace(LapGraph(epsilon=self.epsilon).mechanism_guarantee(seed))


class ExactCount(Claimed):
    """The number of edges has no noise."""

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        return Fraction(10**6), super().split[1]


class HalfLap(Claimed):
    """Laplace noise of half the scale."""

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        count, cells = super().split
        return 2 * count, 2 * cells


class InputOrder(Claimed):
    """Cells on a grid of whole numbers, and ties go to whoever comes first in the input: the edges."""

    def perturb(self, graph: Graph, seed: Seed = None) -> Graph:
        def edges_first(ties: int, wanted: int, _: Any) -> Any:
            return np.arange(wanted)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(topcells, "GRID", 1)
            patch.setattr(topcells, "sample_distinct", edges_first)
            return super().perturb(graph, seed=None)


class SharedStream(LPGNet):
    """One named noise stream for all layers and phases; shows in seeded runs."""

    def _stream(self, phase: str, layer: int) -> tuple[str, str | int, int]:
        return "lpgnet", "all", 0


class SharedPhases(LPGNet):
    """Training, validation and inference share their streams."""

    def _stream(self, phase: str, layer: int) -> tuple[str, str | int, int]:
        return "lpgnet", "all", layer


class SharedDraw(LPGNet):
    """One draw of noise for all layers and phases of a release, also with the secure source."""

    def noise_stage(self, job: Job, phases: Any, learn: Any) -> Any:
        object.__setattr__(self, "_drawn", None)
        return super().noise_stage(job, phases, learn)

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        if getattr(self, "_drawn", None) is None:
            object.__setattr__(self, "_drawn", super().perturb_counts(np.zeros_like(counts), epsilon, seed))
        return counts + self._drawn  # type: ignore[attr-defined]


class Mirrored(LPGNet):
    """Every second query gets the first one's noise with the opposite sign."""

    def noise_stage(self, job: Job, phases: Any, learn: Any) -> Any:
        object.__setattr__(self, "_drawn", None)
        return super().noise_stage(job, phases, learn)

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        last = getattr(self, "_drawn", None)
        noise = noise_for(seed).discrete_laplace(Fraction(2) / epsilon, counts.size).reshape(counts.shape)
        noise = noise if last is None else -last
        object.__setattr__(self, "_drawn", noise if last is None else None)
        return (counts + noise).astype(float)


class WholePerLayer(LPGNet):
    """Every layer is noised as if it had all of epsilon."""

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        return super().perturb_counts(counts, epsilon * self.layers, seed)


class WholePerPhase(LPGNet):
    """A graph that grows is asked three times, each time as if it were asked once."""

    def noise_stage(self, job: Job, phases: Any, learn: Any) -> Any:
        object.__setattr__(self, "_phases", len(distinct(phases)))
        return super().noise_stage(job, phases, learn)

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        return super().perturb_counts(counts, epsilon * self._phases, seed)  # type: ignore[attr-defined]


class SensitivityOne(LPGNet):
    """The noise of a query whose sensitivity is 1."""

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        return super().perturb_counts(counts, 2 * epsilon, seed)


class OneEnd(LPGNet):
    """Every second node's counts are shown as they are: one end of many edges is unprotected."""

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        out = super().perturb_counts(counts, epsilon, seed)
        out[::2] = counts[::2]
        return out


class ZeroStaysZero(LPGNet):
    """Counts of zero get no noise."""

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        return np.where(counts > 0, super().perturb_counts(counts, epsilon, seed), 0.0)


class NoisePerNode(LPGNet):
    """All counts of a node share one draw."""

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        noise = noise_for(seed).discrete_laplace(Fraction(2) / epsilon, len(counts))
        return np.maximum(counts + noise[:, None], 0).astype(float)


class FloatingPoint(LPGNet):
    """Textbook Laplace noise in floating point, whose last bits tell zero from one."""

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        return counts + np.random.default_rng().laplace(0.0, float(2 / epsilon), counts.shape)


class SeedOfCounts(LPGNet):
    """The noise is a function of the true counts."""

    def perturb_counts(self, counts: Counts, epsilon: Any, seed: Seed) -> Any:
        return super().perturb_counts(counts, epsilon, int(counts.sum()))


class BareRenewal(LPGNet):
    """A renewal asks for the counts of the new graph without noise."""

    def _renew(self, snapshot: Snapshot) -> Renewed:
        honest = super()._renew(snapshot)
        return replace(self, epsilon=1e6, delta=None)._silent(snapshot)._replace(guarantee=honest.guarantee)

    def _silent(self, snapshot: Snapshot) -> Renewed:
        return super()._renew(snapshot)


class WholePerEntry(BucketResponse):
    """Each of the two entries of an edge is noised as if it were alone."""

    @property
    def per_entry(self) -> Fraction:
        return 2 * super().per_entry

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        return BucketResponse(epsilon=self.epsilon).mechanism_guarantee(seed)


class HalfGap(GAP):
    """Gaussian noise of half the scale."""

    def perturb_sums(self, sums: Counts, scale: Fraction, seed: Seed) -> Any:
        return super().perturb_sums(sums, scale / 2, seed)


class HalfPairs(VeilRR):
    """Pairs lie half as often as they should."""

    def query(self, rules: Any = None) -> Any:
        return HalfRand(epsilon=self.epsilon)


class HalfBlink(Blink):
    """Bits of the lists lie half as often as they should."""

    @property
    def flip(self) -> Probability:
        return probability(float(super().flip) / 2)


class OncePerEdge(Blink):
    """Each end reports as if the other did not."""

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        bits, degree = super().split
        return 2 * bits, 2 * degree

    def _ask(self, job: Job, graph: Graph, name: str, budget: Any) -> Any:
        return self.reports(graph, job.noise_seed("blink", name))


class HalfLists(EdgeBucketResponse):
    """gp-edge with half of the noise on lengths and entries."""

    @property
    def length_epsilon(self) -> Fraction:
        return 2 * self._honest.length_epsilon

    @property
    def per_entry(self) -> Fraction:
        return 2 * self._honest.per_entry

    @property
    def _honest(self) -> EdgeBucketResponse:
        return EdgeBucketResponse(epsilon=self.epsilon)

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        return self._honest.mechanism_guarantee(seed)


class ExactLengths(EdgeBucketResponse):
    """Lengths as they are: gp-sound under a claim for edges."""

    def lengths(self, degrees: Counts, num_nodes: int, noise: Noise) -> Any:
        return degrees


class HalfVeil(VeilCounts):
    """veil-counts with half of the noise on its one query."""

    @cached_property
    def _query(self) -> LPGNet:
        return SensitivityOne(epsilon=self.epsilon, layers=1, clip=False)


class BareCounts(VeilCounts):
    """A renewal asks for the counts of the new graph without noise."""

    def _renew(self, snapshot: Snapshot) -> Renewed:
        honest = super()._renew(snapshot)
        bare = VeilCounts(epsilon=1e6)._renew(snapshot)
        return bare._replace(guarantee=honest.guarantee)


class ForgetfulCounts(VeilCounts):
    """A renewed release states what the renewal cost and forgets what its weights have cost."""

    def _renew(self, snapshot: Snapshot) -> Renewed:
        fresh = super()._renew(snapshot)
        return fresh._replace(guarantee=replace(fresh.guarantee, claimed_epsilon=self.epsilon))


class LoudPairs(VeilRR):
    """The renewal lies as seldom as if it had twice the epsilon that it states."""

    def _renew(self, snapshot: Snapshot) -> Renewed:
        assert self.epsilon is not None
        loud = VeilRR(epsilon=2 * self.epsilon, neighbours=self.neighbours)._renew(snapshot)
        return loud._replace(guarantee=super()._renew(snapshot).guarantee)


class ForgottenDelta(LPGNet):
    """A renewal with Gaussian noise adds up epsilons and forgets that deltas add up too."""

    def _renew(self, snapshot: Snapshot) -> Renewed:
        fresh = super()._renew(snapshot)
        return fresh._replace(guarantee=replace(fresh.guarantee, delta=snapshot.release.guarantee.delta))


class FreeCount(Veil):
    """The number of edges is asked for and never stated."""

    def with_count(self, inner: Guarantee, charge: Any) -> Guarantee:
        return inner


class ExactChoice(Veil):
    """The true number of edges chooses."""

    def noisy_count(self, job: Job) -> int:
        return int(job.graph.num_edges)


class HalfCount(Veil):
    """The number of edges has half of its noise."""

    def noisy_count(self, job: Job) -> int:
        noise = noise_for(job.noise_seed("veil", "number of edges")).discrete_laplace(1 / self.split[0] / 2, 1)
        return int(job.graph.num_edges + noise[0])


class WholeQuery(Veil):
    """The chosen query gets all of epsilon beside the count."""

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        count, rest = super().split
        return count, count + rest

    def with_count(self, inner: Guarantee, charge: Any) -> Guarantee:
        return replace(inner, charges=(charge, *inner.charges))

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        return Veil(epsilon=self.epsilon).mechanism_guarantee(seed)


def half_of_the_feature_noise(patch: pytest.MonkeyPatch) -> None:
    """Bits of features lie as seldom as at twice the epsilon."""
    patch.setattr(local, "multi_bit", lambda x, epsilon, noise, real=local.multi_bit: real(x, 2 * epsilon, noise))


def half_of_the_label_noise(patch: pytest.MonkeyPatch) -> None:
    """Labels lie as seldom as at twice the epsilon."""
    patch.setattr(local, "noisy_labels", lambda y, k, eps, noise, real=local.noisy_labels: real(y, k, 2 * eps, noise))


def private_nodes(epsilon: float) -> BucketResponse:
    """gp-sound whose nodes send noisy features and labels, each at this epsilon."""
    return BucketResponse(epsilon=epsilon, epsilon_x=epsilon, epsilon_y=epsilon)


def quarter_of_the_noise(patch: pytest.MonkeyPatch) -> None:
    """The secure source draws Laplace noise at a quarter of its scale."""
    real = SecureNoise.discrete_laplace
    patch.setattr(SecureNoise, "discrete_laplace", lambda self, scale, size: real(self, Fraction(scale) / 4, size))


def half_of_the_scale(patch: pytest.MonkeyPatch) -> None:
    """Every query of LPGNet is noised at half of its scale."""
    patch.setattr(lpgnet, "noise_scale", lambda cost, real=lpgnet.noise_scale: real(cost) / 2)


def _spliced(graph: Graph, noisy: Graph, spared: Callable[[Any, Any], Any]) -> Graph:
    """Noisy pairs, but the spared ones as they are in the graph."""
    parts = [ranks[mask] for ranks, mask in (
        (graph.edge_ranks, spared(*graph.edge_index)), (noisy.edge_ranks, ~spared(*noisy.edge_index)),
    )]  # fmt: skip
    return noisy.with_edge_ranks(np.unique(np.concatenate(parts)))


@dataclass(frozen=True)
class Plant:
    """One row of the table: the mechanism, the claims it is tested at, and the verdicts it must get."""

    name: str
    make: Callable[..., Any]
    verdicts: tuple[tuple[float, str], ...] = ((1.0, "refuted"), (4.0, "refuted"))
    patch: Callable[[pytest.MonkeyPatch], None] | None = None
    fast: bool = True  # a few runs are enough to see it at 1
    heavy: bool = False  # those few take seconds

    def __str__(self) -> str:
        return self.name


BOTH = ((1.0, "refuted"), (4.0, "refuted"))
TABLE = (
    Plant("the graph itself", GraphItself, (*BOTH, (8.0, "refuted"), (20.0, "inconclusive"))),
    Plant("edgerand, half of the lies", HalfRand),
    Plant("edgerand that spares nodes of degree above 32", SparedHubs),
    Plant("edgerand that spares pendant nodes", SparedPendants, heavy=True),
    Plant("edgerand that leaves lonely nodes alone", LonelyNodes, heavy=True),
    Plant("edgerand whose edges never lie", TruthfulEdges),
    Plant("edgerand with the exact number of edges", ExactNumber, heavy=True),
    Plant("edge swaps that keep every degree", ExactDegrees),
    Plant("edgerand, seed made of the graph", SeedOfGraph, heavy=True),
    Plant("edgerand, training and inference share noise", SameNoiseTwice, heavy=True),
    Plant("edgerand, a renewal that forgets the release", ForgetfulRenewal, heavy=True),
    Plant("edgerand, half of the lies in a renewal", LoudRenewal, heavy=True),
    Plant("lapgraph with the exact count", ExactCount, (*BOTH, (8.0, "inconclusive")), heavy=True),
    Plant("lapgraph, half of the noise", HalfLap),
    Plant("lapgraph, a quarter of the secure noise", LapGraph, patch=quarter_of_the_noise),
    Plant("lapgraph, coarse grid, ties in input order", InputOrder),
    Plant("lpgnet, one stream for all layers", SharedStream),
    Plant("lpgnet, one stream for all phases", SharedPhases, heavy=True),
    Plant("lpgnet, one draw for all layers", SharedDraw),
    Plant("lpgnet, mirrored noise", Mirrored),
    Plant("lpgnet, all of epsilon for each layer", WholePerLayer),
    Plant("lpgnet, all of epsilon for each phase", WholePerPhase, heavy=True),
    Plant("lpgnet, a quarter of the secure noise", LPGNet, patch=quarter_of_the_noise),
    Plant("lpgnet, sensitivity taken as 1", SensitivityOne),
    Plant("lpgnet, one end unprotected", OneEnd),
    Plant("lpgnet, zero stays zero", ZeroStaysZero),
    Plant("lpgnet, one draw per node", NoisePerNode),
    Plant("lpgnet, noise in floating point", FloatingPoint),
    Plant("lpgnet, seed made of the counts", SeedOfCounts),
    Plant("lpgnet, half of the Gaussian noise", partial(LPGNet, noise="gaussian"), patch=half_of_the_scale, heavy=True),
    Plant("gap, half of the Gaussian noise", HalfGap, heavy=True),
    Plant("veil-rr, half of the lies", HalfPairs),
    Plant("blink, half of the lies", HalfBlink),
    Plant("blink, all of epsilon for each end", OncePerEdge),
    Plant("lpgnet, a renewal without noise", BareRenewal, heavy=True),
    Plant("lpgnet-1, half of the noise", partial(SensitivityOne, layers=1)),
    Plant("veil-counts, half of the noise", HalfVeil),
    Plant("veil-counts, a renewal without noise", BareCounts),
    Plant("veil-counts, a renewal that forgets the release", ForgetfulCounts, heavy=True),
    Plant("veil-rr, half of the lies in a renewal", LoudPairs, heavy=True),
    Plant("lpgnet, a renewal that forgets its delta", partial(ForgottenDelta, noise="gaussian"), fast=False),
    Plant("veil, a count that is not stated", FreeCount),
    Plant("veil, the exact count", ExactChoice),
    Plant("veil, half of the noise on the count", HalfCount, heavy=True),
    Plant("veil, all of epsilon for the chosen query", WholeQuery, fast=False),
    Plant("veil, half of the noise of its counts", Veil, patch=half_of_the_scale, heavy=True),
    Plant("gp-sound, all of epsilon for each entry", WholePerEntry),
    Plant("gp-sound, half of the noise on features", private_nodes, patch=half_of_the_feature_noise, heavy=True),
    Plant("gp-sound, half of the noise on labels", private_nodes, patch=half_of_the_label_noise, heavy=True),
    Plant("gp-edge, half of the noise", HalfLists, fast=False),
    Plant("gp-edge, exact lengths", ExactLengths, fast=False),
)
