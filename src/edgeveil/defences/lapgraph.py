"""LapGraph: Laplace noise on every node pair, keep the T largest (LinkTeller Algorithm 4, Theorem 5).

A small part of epsilon buys a noisy edge count T, the rest noises the cells. The dense version touches n^2 cells;
this one is exact in O(E log E + T), see `edgeveil.privacy.topcells`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, EdgeMechanism, Faces
from edgeveil.defences.renewal import Renewal, perturb_again
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs, sample_non_edges
from edgeveil.graph.upper_triangle import UpperBuilder, edge_ranks
from edgeveil.privacy.budget import Charge, check_epsilon, exact
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import SecureNoise, noise_for
from edgeveil.privacy.topcells import ContinuousCells, GridCells, keep_top
from edgeveil.registry import Places
from edgeveil.seeds import Seed, as_generator

if TYPE_CHECKING:
    from edgeveil.graph.stored.graph_in_files import StoredGraph

__all__ = ["LapGraph", "expected_false_share"]


@DEFENCES.register("lapgraph")
@dataclass(frozen=True, kw_only=True)
class LapGraph(EdgeMechanism):
    """Noisy adjacency cut to a noisy edge count: eps-DP for one undirected edge.

    The count gets `count_share` of epsilon, or `count_epsilon` outright when that is given.
    """

    epsilon: float | None = None
    """What one undirected edge may cost; inf means no noise."""
    count_share: float = 0.01
    count_epsilon: float | None = None

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "Wu et al., LinkTeller, IEEE S&P 2022, Algorithm 4 and Theorem 5"
    faces: ClassVar[Faces] = {"lapgraph": ("LapGraph", 3)}
    audited: ClassVar[Places] = {"lapgraph": 30}
    advised: ClassVar[Places] = {"lapgraph": 20}

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not 0 < self.count_share < 1:
            raise InputError(f"count_share must lie strictly between 0 and 1, got {self.count_share!r}")
        if self.count_epsilon is not None:
            check_epsilon(self.count_epsilon)
        count, cells = self.split
        if cells <= 0:
            raise InputError(
                f"the edge count asks for epsilon {float(count):g} of {self.epsilon:g}, which leaves nothing for the "
                "cells; lower count_epsilon or raise epsilon"
            )

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        """Exact epsilon of the count and of the cells; they sum to epsilon."""
        total = exact(check_epsilon(self.epsilon))
        count = total * exact(self.count_share) if self.count_epsilon is None else exact(self.count_epsilon)
        return count, total - count

    def perturb(self, graph: Graph, seed: Seed = None) -> Graph:
        """The graph of the T largest noisy cells; no seed means secure, exact noise."""
        graph.check_public_nodes()
        edges, total = edge_ranks(graph), num_pairs(graph.num_nodes)
        count_epsilon, cell_epsilon = self.split
        cells: GridCells | ContinuousCells
        if seed is None:
            noise = SecureNoise()
            cells = GridCells(cell_epsilon, noise)
            count = len(edges) + int(noise.discrete_laplace(1 / count_epsilon, 1)[0])
        else:
            rng = as_generator(seed, "lapgraph")
            cells = ContinuousCells(float(cell_epsilon), rng)
            count = round(len(edges) + rng.laplace(0.0, 1 / float(count_epsilon)))
        kept = keep_top(len(edges), total - len(edges), min(max(count, 0), total), cells)
        false = sample_non_edges(graph.num_nodes, edges, kept.zeros, cells.uniform)
        builder = UpperBuilder(graph.num_nodes)
        builder.add(np.sort(np.concatenate([edges[kept.ones], false]), kind="stable"))  # merges two sorted runs
        return graph.with_upper(*builder.finish())

    def noisy_chunks(self, graph: StoredGraph, seed: int | None, scratch: Path) -> Iterator[NDArray[np.int64]]:
        """The same law from files, on the grid of the exact sampler."""
        from edgeveil.defences.stored.streamed_noise import stream_lapgraph

        return stream_lapgraph(self, graph, noise_for(seed, "lapgraph"), scratch)

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What one perturbed graph promises."""
        count, cells = self.split
        return Guarantee(
            status="sound",
            claimed_epsilon=float(count + cells),
            charges=(Charge("noisy number of edges", count), Charge("Laplace noise on every node pair", cells)),
            composition="sequential: the two charges add up; keeping the largest cells is post-processing and free",
            randomness=SECURE if seed is None else SEEDED,
            reference=self.reference,
        )

    def renewal(self, seed: int | None = None) -> Renewal:
        """The new graph is perturbed once."""
        return perturb_again(self)


def expected_false_share(epsilon: float, num_nodes: int, num_edges: int, count_epsilon: float | None = None) -> float:
    """Share of false edges when T equals the true count, in the large-graph limit where the cut is a fixed level.

    The level t solves (N - E) P(Lap > t) + E P(1 + Lap > t) = E; found by bisection. `count_epsilon` is what the
    count takes away from the cells (default 1 % of epsilon).
    """
    cells = epsilon - (0.01 * epsilon if count_epsilon is None else count_epsilon)
    zeros = num_pairs(num_nodes) - num_edges
    low, high = -60.0 / cells, 1 + 60.0 / cells
    for _ in range(200):
        level = (low + high) / 2
        above = zeros * _tail(cells * level) + num_edges * _tail(cells * (level - 1))
        low, high = (level, high) if above > num_edges else (low, level)
    return zeros * _tail(cells * high) / max(num_edges, 1)


def _tail(x: float) -> float:
    """P(standard Laplace > x)."""
    return float(0.5 * np.exp(-x)) if x >= 0 else float(1 - 0.5 * np.exp(x))
