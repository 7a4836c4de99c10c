"""Counts or denoised pairs, chosen by public facts and one noisy number: how many edges there are.

At epsilon and n nodes randomised response lies on about f n^2/2 pairs, f = 1/(1 + e^eps). Where that is fewer than
there are edges, most noisy pairs are edges, and hearing them beats counting them. The number of edges has sensitivity 1
and is asked for with a small share of epsilon; nothing else of the private graph enters the choice, so only the chosen
query is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import ClassVar

from edgeveil.defences.defence import DEFENCES, Defence, Faces, claim_of
from edgeveil.defences.edgerand import s_from_epsilon
from edgeveil.defences.graph_audit import neighbouring_graphs
from edgeveil.defences.job import Job
from edgeveil.defences.trial import trial_job
from edgeveil.defences.veil.counts import VeilCounts
from edgeveil.defences.veil.denoised_rr import MOST_DRAWN, VeilRR
from edgeveil.errors import InputError
from edgeveil.graph.pairs import num_pairs
from edgeveil.privacy.budget import Charge, check_epsilon, exact
from edgeveil.privacy.experiments import Claim, Effort, Experiment, Neighbours, Views
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import noise_for
from edgeveil.registry import Places
from edgeveil.release.release import Release
from edgeveil.seeds import Seed

__all__ = ["Veil", "hears_pairs"]

ENOUGH = 0.5  # share of edges among the noisy pairs from which these are worth hearing


def hears_pairs(num_nodes: int, num_edges: float, epsilon: float) -> bool:
    """Whether at least half of the pairs that randomised response would show are edges, and it can be drawn at all."""
    flip, pairs = s_from_epsilon(epsilon) / 2, num_pairs(num_nodes)
    edges = min(max(num_edges, 0.0), float(pairs))
    shown = (1 - flip) * edges + flip * (pairs - edges)
    return flip * pairs <= MOST_DRAWN / 2 and shown > 0 and (1 - flip) * edges >= ENOUGH * shown


@DEFENCES.register("veil")
@dataclass(frozen=True, kw_only=True)
class Veil(Defence):
    """veil-rr where most noisy pairs would be edges, else veil-counts, by a noisy number of edges."""

    epsilon: float | None = None
    """What one undirected edge may cost, the number of edges included."""
    neighbours: int = 15
    """How many nodes with like features each node hears in the edge-free base."""
    count_share: float = 0.02
    """Part of epsilon that goes to the number of edges."""

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "edgeveil: docs/defences.md"
    advised: ClassVar[Places] = {"veil": 70}
    fills: ClassVar[bool] = True
    faces: ClassVar[Faces] = {"veil": ("veil", None)}

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not 0 < self.count_share < 1:
            raise InputError(f"count_share of veil must lie between 0 and 1, got {self.count_share!r}")

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        """Epsilon of the number of edges and of the chosen query."""
        whole = exact(check_epsilon(self.epsilon))
        count = whole * exact(self.count_share)
        return count, whole - count

    def release(self, job: Job) -> Release:
        """Ask for the number of edges, then release by the method that it speaks for."""
        job.check_public_nodes()
        on = job.edge_set("training graph") if job.separate else "graph"
        charge = Charge("number of edges", self.split[0], on)
        noisy = self.noisy_count(job)
        pairs = hears_pairs(job.graph.num_nodes, noisy, float(self.split[1]))
        method = VeilRR if pairs else VeilCounts
        made = method(epsilon=float(self.split[1]), neighbours=self.neighbours).release(job)
        why = f"{method.__name__} was chosen by a noisy number of edges, {noisy:,}"
        return replace(
            made, defence="veil", params=asdict(self), guarantee=self._with_count(made.guarantee, charge),
            notes=(*made.notes, why),
        )  # fmt: skip

    def noisy_count(self, job: Job) -> int:
        """The number of edges that train, with discrete Laplace noise; sensitivity 1."""
        noise = noise_for(job.noise_seed("veil", "number of edges")).discrete_laplace(1 / self.split[0], 1)
        return int(job.graph.num_edges + noise[0])

    def _with_count(self, inner: Guarantee, charge: Charge) -> Guarantee:
        assert inner.claimed_epsilon is not None and charge.epsilon is not None
        return replace(
            inner, claimed_epsilon=float(exact(inner.claimed_epsilon) + charge.epsilon),
            charges=(charge, *inner.charges), reference=self.reference,
            composition=f"the number of edges adds to the chosen query; {inner.composition}",
        )  # fmt: skip

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What one release of one graph promises."""
        return Guarantee(
            status="sound", claimed_epsilon=float(sum(self.split)), randomness=SECURE if seed is None else SEEDED,
            reference=self.reference,
        )  # fmt: skip

    def audit_claim(self) -> Claim:
        """The epsilon of a release of one graph."""
        return claim_of(self, self.mechanism_guarantee())

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Both queries at what the count leaves them, and the count itself on tiny neighbours."""
        rest = float(self.split[1])
        both = [e for method in (VeilCounts, VeilRR) for e in method(epsilon=rest).experiments(effort)]
        return [*both, self._counted(effort)]

    def _counted(self, effort: Effort) -> Neighbours:
        _, first, second, _ = neighbouring_graphs()[1]
        rngs = [effort.rng("veil count", side) for side in (0, 1)]
        jobs = [trial_job(graph, None) for graph in (first, second)]

        def sample(side: int, count: int) -> Views:
            seeds = [None if effort.secure else int(rngs[side].integers(2**62)) for _ in range(count)]
            return {"number of edges": [self.noisy_count(replace(jobs[side], seed=seed)) for seed in seeds]}

        return Neighbours("the number of edges, one edge or none", sample)
