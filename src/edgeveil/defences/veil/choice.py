"""Counts or denoised pairs, chosen by public facts and one noisy number: how many edges there are.

At epsilon and n nodes randomised response lies on about f n^2/2 pairs, f = 1/(1 + e^eps). Where that is fewer than
there are edges, most noisy pairs are edges, and hearing them beats counting them. The number of edges has sensitivity 1
and is asked for with a small share of epsilon; nothing else of the private graph enters the choice, so only the chosen
query is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from edgeveil.defences.defence import DEFENCES, Defence, Faces, claim_of
from edgeveil.defences.edgerand import s_from_epsilon
from edgeveil.defences.graph_audit import graph_experiments, neighbouring_graphs
from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.lpgnet_audit import CLASSES, Auditor, Query, counts_of_edge, vector_experiments
from edgeveil.defences.lpgnet.lpgnet_stack import Phase
from edgeveil.defences.trial import trial_job
from edgeveil.defences.veil.counts import VeilCounts
from edgeveil.defences.veil.denoised_rr import MOST_DRAWN, VeilRR
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs
from edgeveil.privacy.budget import Budget, Charge, check_epsilon, exact
from edgeveil.privacy.experiments import Claim, Effort, Experiment, Neighbours, Stated, Views
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import noise_for
from edgeveil.registry import Places
from edgeveil.release.release import Release
from edgeveil.seeds import Seed

__all__ = ["Veil", "hears_pairs", "share_of_edges"]

LOUD = 0.9  # share of the count in the experiment that hears it best
ENOUGH = 0.5  # share of edges among the noisy pairs from which these are worth hearing


def share_of_edges(num_nodes: int, num_edges: float, epsilon: float) -> float:
    """Expected share of edges among the pairs that randomised response would show."""
    flip, pairs = s_from_epsilon(epsilon) / 2, num_pairs(num_nodes)
    edges = min(max(num_edges, 0.0), float(pairs))
    shown = (1 - flip) * edges + flip * (pairs - edges)
    return (1 - flip) * edges / shown if shown > 0 else 0.0


def hears_pairs(num_nodes: int, num_edges: float, epsilon: float) -> bool:
    """Whether at least half of the pairs that randomised response would show are edges, and it can be drawn at all."""
    drawn = s_from_epsilon(epsilon) / 2 * num_pairs(num_nodes)
    return drawn <= MOST_DRAWN / 2 and share_of_edges(num_nodes, num_edges, epsilon) >= ENOUGH


class Asked(NamedTuple):
    """A noisy number of edges, what it is charged, and the method that it chooses."""

    edges: int
    charge: Charge
    method: VeilRR | VeilCounts


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
        asked = self.ask(job)
        made = asked.method.release(job)
        why = f"{type(asked.method).__name__} was chosen by a noisy number of edges, {asked.edges:,}"
        return replace(
            made, defence="veil", params=asdict(self), guarantee=self.with_count(made.guarantee, asked.charge),
            notes=(*made.notes, why),
        )  # fmt: skip

    def ask(self, job: Job) -> Asked:
        """The number of edges, what it is charged, and the method that it chooses."""
        on = job.edge_set("training graph") if job.separate else "graph"
        charge = Charge("number of edges", self.split[0], on)
        count = self.noisy_count(job)
        pairs = hears_pairs(job.graph.num_nodes, count, float(self.split[1]))
        return Asked(count, charge, self.method(pairs=pairs))

    def method(self, *, pairs: bool) -> VeilRR | VeilCounts:
        """Either method, at what the count leaves of epsilon."""
        kind = VeilRR if pairs else VeilCounts
        return kind(epsilon=float(self.split[1]), neighbours=self.neighbours)

    def noisy_count(self, job: Job) -> int:
        """The number of edges that train, with discrete Laplace noise; sensitivity 1."""
        noise = noise_for(job.noise_seed("veil", "number of edges")).discrete_laplace(1 / self.split[0], 1)
        return int(job.graph.num_edges + noise[0])

    def with_count(self, inner: Guarantee, charge: Charge) -> Guarantee:
        """What the chosen query and the number of edges promise together."""
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
        """The whole spend, count and chosen query, on tiny neighbours; then both queries at what the count leaves.

        A share of two in a hundred could be doubled unseen, so the whole is tried once more where the count gets most.
        """
        loud = replace(self, count_share=LOUD)
        counts, pairs = self.method(pairs=False), self.method(pairs=True)
        assert isinstance(counts, VeilCounts) and isinstance(pairs, VeilRR)
        return [
            *whole_spend(self, effort),
            *whole_spend(loud, effort, f", {LOUD:.0%} of epsilon for the count"),
            *vector_experiments(counts.noise_stage, effort),
            *graph_experiments(pairs.noise_stage, float(self.split[1]), effort),
        ]


def whole_spend(veil: Veil, effort: Effort, how: str = "") -> list[Experiment]:
    """The count, the choice and the chosen query, as a release makes them, on neighbours that speak for either."""
    found: list[Experiment] = []
    for name, first, second, pair in neighbouring_graphs()[1:]:
        found.append(_whole(veil, effort, f"count and query, {name}{how}", (first, second), pair))
    return found


def _whole(veil: Veil, effort: Effort, name: str, graphs: tuple[Graph, Graph], pair: tuple[int, int]) -> Neighbours:
    rngs = [effort.rng("noise", name, side) for side in (0, 1)]
    jobs = [trial_job(graph, None, classes=CLASSES) for graph in graphs]
    auditor, stated = Auditor(graphs[1], effort.rng("clusters", name)), [Stated()]

    def look(job: Job) -> tuple[int, int, tuple[bool, bytes]]:
        """The count, which side the chosen query speaks for, which query that is and all that it shows."""
        edges, charge, method = veil.ask(job)
        if isinstance(method, VeilRR):
            noised = method.noise_stage(job)
            promise, shown = noised.guarantee, noised.inference
            side, all_of_it = int(shown.has_edges(*pair)[0]), shown.indptr.tobytes() + shown.indices.tobytes()
        else:
            query, promise = _asked_vectors(method, auditor, job)
            side = int(np.sign(np.clip(2 * np.array(counts_of_edge(query)) - 1, -1, 1).sum()))
            all_of_it = query.vectors.tobytes()
        stated[0] = stated[0].least(Stated.of(veil.with_count(promise, charge)))
        return edges, side, (isinstance(method, VeilRR), all_of_it)

    def sample(side: int, count: int) -> Views:
        codes: dict[str, list[Hashable]] = {"sides of count and query": [], "number of edges": [], "output": []}
        for _ in range(count):
            seed = None if effort.secure else int(rngs[side].integers(2**62))
            edges, spoke, rest = look(replace(jobs[side], seed=seed))
            codes["sides of count and query"].append((edges > graphs[1].num_edges, rest[0], spoke))
            codes["number of edges"].append(edges)
            codes["output"].append((edges, rest))
        return codes

    return Neighbours(name, sample, stated=lambda: stated[0])


def _asked_vectors(method: VeilCounts, auditor: Auditor, job: Job) -> tuple[Query, Guarantee]:
    """The noisy counts on the auditor's clusters, and what they promise."""
    spent: list[Budget] = []

    def stage(job: Job, phases: Sequence[Phase], learn: Callable[[int], None]) -> None:
        spent.append(method.noise_stage(job, phases, learn))

    return auditor.ask(stage, job)[0], method.job_guarantee(job, spent[0])
