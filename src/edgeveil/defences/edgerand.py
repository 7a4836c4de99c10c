"""EdgeRand: randomised response on every node pair (LinkTeller Algorithm 3, Theorem 4).

Each unordered pair keeps its bit with probability 1 - s and shows a fair coin otherwise, s = 2/(e^eps + 1). So a bit
lies with probability s/2 = 1/(e^eps + 1). The cost is O(edges + output), because lies on non-edges are found by
geometric skips instead of one coin per pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, EdgeMechanism, Faces
from edgeveil.defences.renewal import Renewal, perturb_again
from edgeveil.errors import InputError, TooLarge
from edgeveil.graph.graph import Graph
from edgeveil.graph.memory import available_memory
from edgeveil.graph.pairs import num_pairs
from edgeveil.graph.upper_triangle import CHUNK, UpperBuilder, edge_ranks
from edgeveil.privacy.budget import Charge, check_epsilon, exact
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import Noise, noise_for
from edgeveil.privacy.probability import Probability, logistic
from edgeveil.privacy.skips import successes
from edgeveil.registry import Places
from edgeveil.seeds import Seed

if TYPE_CHECKING:
    from edgeveil.graph.stored.graph_in_files import StoredGraph

__all__ = [
    "EdgeRand",
    "epsilon_from_s",
    "expected_density",
    "expected_false_share",
    "noisy_ranks",
    "s_from_epsilon",
    "smallest_feasible_epsilon",
]

Int = NDArray[np.int64]
BYTES_PER_EDGE = 16  # columns, the copy while they are joined, and room for one pass of a model over them
ALWAYS_FINE = 1 << 26


def s_from_epsilon(epsilon: float) -> float:
    """The share of cells that are re-drawn: s = 2/(e^eps + 1)."""
    return 2 / (math.exp(check_epsilon(epsilon)) + 1)


def epsilon_from_s(s: float) -> float:
    """Theorem 4 read backwards: eps = ln(2/s - 1), for 0 < s < 1."""
    if not 0 < s < 1:
        raise InputError(f"EdgeRand's s must lie strictly between 0 and 1, got {s!r}; s = 1 is epsilon 0")
    return math.log(2 / s - 1)


def expected_density(epsilon: float, density: float) -> float:
    """Density of the perturbed graph: (1 - s) k + s/2."""
    s = s_from_epsilon(epsilon)
    return (1 - s) * density + s / 2


def expected_false_share(epsilon: float, density: float) -> float:
    """Share of the perturbed graph's edges that are not edges of the private graph (ratio of expectations)."""
    return (1 - density) * s_from_epsilon(epsilon) / 2 / expected_density(epsilon, density)


def smallest_feasible_epsilon(graph: Graph, memory: int) -> float:
    """The least epsilon, rounded up to two digits, whose expected output fits into `memory` bytes; inf if none does."""
    free = num_pairs(graph.num_nodes) - 2 * graph.num_edges
    room = memory / BYTES_PER_EDGE - graph.num_edges
    if room <= 0:
        return math.inf
    lies = min(room / max(free, 1), 0.5)
    return math.ceil(100 * max(math.log(1 / lies - 1), 0.01)) / 100


@DEFENCES.register("edgerand")
@dataclass(frozen=True, kw_only=True)
class EdgeRand(EdgeMechanism):
    """Randomised response on the adjacency matrix: eps-DP for one undirected edge."""

    epsilon: float | None = None
    """What one undirected edge may cost; inf means no noise."""

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "Wu et al., LinkTeller, IEEE S&P 2022, Algorithm 3 and Theorem 4"
    fills: ClassVar[bool] = True
    faces: ClassVar[Faces] = {"edgerand": ("EdgeRand", 2)}
    advised: ClassVar[Places] = {"edgerand": 10}

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def flip(self) -> Probability:
        """The chance that a bit lies, 1/(e^eps + 1), as an exact real number."""
        return logistic(exact(check_epsilon(self.epsilon)))

    def check_size(self, graph: Graph) -> None:
        """The expected output against the memory that is free."""
        _check_size(graph, check_epsilon(self.epsilon), None)

    def perturb(self, graph: Graph, seed: Seed = None, *, memory: int | None = None) -> Graph:
        """The graph with every pair's bit randomised; no seed means secure, exact noise.

        `memory` caps the bytes that the output may need (default: what the machine has free).
        """
        graph.check_public_nodes()
        _check_size(graph, check_epsilon(self.epsilon), memory)
        noise = noise_for(seed, "edgerand")
        builder = UpperBuilder(graph.num_nodes)
        for ranks in noisy_ranks(graph, self.flip, noise):
            builder.add(ranks)
        return graph.with_upper(*builder.finish())

    def noisy_chunks(self, graph: StoredGraph, seed: int | None, scratch: Path) -> Iterator[Int]:
        """The same draws from files."""
        from edgeveil.defences.stored.streamed_noise import stream_edgerand

        return stream_edgerand(graph, self.flip, noise_for(seed, "edgerand"))

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What one perturbed graph promises."""
        epsilon = exact(check_epsilon(self.epsilon))
        return Guarantee(
            status="sound",
            claimed_epsilon=float(epsilon),
            charges=(Charge("randomised response on every node pair", epsilon),),
            composition="one charge; everything computed from the noisy graph is post-processing and free",
            randomness=SECURE if seed is None else SEEDED,
            reference=self.reference,
        )

    def renewal(self, seed: int | None = None) -> Renewal:
        """The new graph is perturbed once."""
        return perturb_again(self)


def noisy_ranks(graph: Graph, flip: Probability, noise: Noise) -> Iterator[Int]:
    """Sorted chunks of the output's ranks: the edges that told the truth, merged with the non-edges that lied."""
    edges = edge_ranks(graph)
    kept = edges[~noise.bernoulli(flip, len(edges))]
    free = num_pairs(graph.num_nodes) - len(edges)
    below = edges - np.arange(len(edges))
    done = 0
    for places in successes(noise, flip, free, CHUNK):
        lies = places + np.searchsorted(below, places, side="right")
        upto = int(np.searchsorted(kept, lies[-1])) if len(lies) else done
        yield _merge(kept[done:upto], lies)
        done = upto
    yield kept[done:]


def _merge(a: Int, b: Int) -> Int:
    """Two sorted disjoint arrays as one."""
    return np.insert(b, np.searchsorted(b, a), a) if len(a) else b


def _check_size(graph: Graph, epsilon: float, memory: int | None) -> None:
    pairs = num_pairs(graph.num_nodes)
    edges = expected_density(epsilon, graph.density) * pairs
    need = edges * BYTES_PER_EDGE
    if memory is None:
        memory = available_memory() if need > ALWAYS_FINE else None
    if memory is None or need <= memory:
        return
    least = smallest_feasible_epsilon(graph, memory)
    raise TooLarge(
        f"EdgeRand at epsilon {epsilon:g} turns {graph.num_edges:,} edges into about {edges:,.0f} of {pairs:,} pairs "
        f"({need / 1e9:,.1f} GB), but {memory / 1e9:,.1f} GB are free. The smallest epsilon that fits is {least:g}; "
        "LapGraph keeps the number of edges and has no such limit."
    )
