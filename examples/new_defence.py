"""A new defence in one file: keep every edge with probability 1/2, then add EdgeRand's noise.

An edge that is dropped leaves EdgeRand two equal inputs, one that is kept leaves it two that differ in one bit; a
mixture of ratios that are at most e^epsilon stays at most e^epsilon, so the epsilon is EdgeRand's own.

Run: python examples/new_defence.py
"""

from dataclasses import dataclass
from typing import ClassVar

import edgeveil as ev
from edgeveil.defences.defence import DEFENCES, EdgeMechanism
from edgeveil.graph.graph import Graph
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.seeds import Seed, as_generator


@DEFENCES.register("thinned-edgerand")
@dataclass(frozen=True, kw_only=True)
class ThinnedEdgeRand(EdgeMechanism):
    """Thinning, then randomised response."""

    epsilon: float
    keep: float = 0.5

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "an example"

    def perturb(self, graph: Graph, seed: Seed = None) -> Graph:
        """Both steps touch each pair independently of all others."""
        rng = as_generator(seed)
        kept = graph.edge_ranks[rng.random(graph.num_edges) < self.keep]
        thinned = graph.with_edge_ranks(kept)
        return ev.EdgeRand(epsilon=self.epsilon).perturb(thinned, seed=None if seed is None else rng)

    def mechanism_guarantee(self, seed: int | None = None) -> Guarantee:
        """EdgeRand's epsilon, for one undirected edge."""
        noise = SECURE if seed is None else SEEDED
        return Guarantee(status="sound", claimed_epsilon=self.epsilon, randomness=noise, reference=self.reference)


if __name__ == "__main__":
    release = ev.defend(ev.load("cora-twin"), "thinned-edgerand", epsilon=6.0, seed=0)
    print(release, release.utility("test")["accuracy"])
    print(release.guarantee.statement())
