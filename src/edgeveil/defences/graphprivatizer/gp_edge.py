"""gp-sound with noisy list lengths: differential privacy for one undirected edge that is there or not.

gp-sound's lists keep their length, and an edge more or less changes two of them. Here every node first gets a noisy
length, paid for out of epsilon; its list is then cut to that length or filled up with entries that are uniform nodes.
Cut or filled, the lists of two neighbouring graphs differ in the response of one entry at each end of the edge
(proof: docs/theory.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, Faces
from edgeveil.defences.graphprivatizer.buckets import choose_plan
from edgeveil.defences.graphprivatizer.gp_sound import BucketResponse
from edgeveil.defences.graphprivatizer.local_audit import ALIKE, edge_or_none, entry_neighbours, planted_alike
from edgeveil.defences.renewal import Renewal
from edgeveil.defences.renewal_audit import at_half
from edgeveil.errors import InputError, TooLarge
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.memory import available_memory
from edgeveil.privacy.budget import Charge, check_epsilon, exact
from edgeveil.privacy.experiments import Effort, Experiment
from edgeveil.privacy.guarantee import EDGE_NEIGHBOURS, ONE_EDGE, Guarantee
from edgeveil.privacy.noise import Noise
from edgeveil.seeds import Seed
from edgeveil.values import is_number

__all__ = ["EdgeBucketResponse", "resized"]

Int = NDArray[np.int64]
_BYTES_PER_ENTRY = 64  # rows, entries, keys, orders and responses while lists are made
_ALWAYS_FINE = 10**8
GRAPHS = 5  # with planted pairs: what tells most is rare here


def resized(indptr: Int, entry: Int, length: Int, num_nodes: int, noise: Noise) -> tuple[Int, Int]:
    """Lists (CSR) cut or filled to the given lengths, as rows and entries.

    What stays in a list that is cut has the smallest random keys, ties by node number: one more member then either
    changes nothing or takes the place of one other, whatever the keys are, which is all that privacy needs.
    """
    degree = np.diff(indptr)
    row = np.repeat(np.arange(len(degree)), degree)
    keys = np.asarray(noise.integers(0, 2**62, len(row)), np.int64)
    order = np.lexsort((entry, keys, row))
    place = np.arange(len(row)) - indptr[:-1][row]
    kept = order[place < length[row]]
    filled = np.repeat(np.arange(len(degree)), np.maximum(length - degree, 0))
    fill = np.asarray(noise.integers(0, num_nodes, len(filled)), np.int64)
    return np.concatenate([row[kept], filled]), np.concatenate([entry[kept], fill])


@DEFENCES.register("gp-edge")
@dataclass(frozen=True, kw_only=True)
class EdgeBucketResponse(BucketResponse):
    """`epsilon` is for one undirected edge: `length_share` of it for noisy lengths, the rest for its two entries."""

    length_share: float = 0.25

    unit: ClassVar[str] = ONE_EDGE
    reference: ClassVar[str] = "edgeveil, docs/theory.md; after Joshi, Indri & Mishra, TMLR 2024"
    faces: ClassVar[Faces] = {"gp-edge": ("GP-edge", None)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.length_share) or not 0 < self.length_share < 1:
            raise InputError(
                f"length_share is a part of epsilon strictly between 0 and 1, got {self.length_share!r}; "
                "gp-sound publishes lengths as they are"
            )

    @property
    def length_epsilon(self) -> Fraction:
        """Epsilon of all noisy lengths together: one edge changes two of them by one."""
        return exact(check_epsilon(self.epsilon)) * exact(self.length_share)

    @property
    def per_entry(self) -> Fraction:
        """Epsilon of one list entry."""
        return (exact(check_epsilon(self.epsilon)) - self.length_epsilon) / 2

    def entries(self, graph: Graph, noise: Noise) -> tuple[Int, Int]:
        """Lists of noisy lengths."""
        self.check_size(graph)
        a, n = graph.adjacency, graph.num_nodes
        length = self.lengths(np.diff(a.indptr).astype(np.int64), n, noise)
        return resized(a.indptr.astype(np.int64), a.indices.astype(np.int64), length, n, noise)

    def lengths(self, degrees: Int, num_nodes: int, noise: Noise) -> Int:
        """Degrees with discrete Laplace noise for an L1 sensitivity of 2, cut to what a list can have."""
        noisy = degrees + noise.discrete_laplace(2 / self.length_epsilon, len(degrees))
        out: Int = np.clip(noisy, 0, num_nodes - 1)
        return out

    def check_size(self, graph: Graph) -> None:
        """Noise fills lists by scale/2 entries a node on average; refuse by sizes alone what would not fit."""
        filled = graph.num_nodes * min(float(1 / self.length_epsilon), graph.num_nodes)
        need = filled * _BYTES_PER_ENTRY
        free = available_memory() if need > _ALWAYS_FINE else None
        if free is not None and need > free:
            raise TooLarge(
                f"gp-edge at epsilon {self.epsilon:g} fills the lists of {graph.num_nodes:,} nodes with about "
                f"{filled:,.0f} entries of noise ({need / 1e9:,.1f} GB), more than is free; "
                "raise epsilon or length_share"
            )

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """Sound for one undirected edge."""
        base = super().mechanism_guarantee(seed)
        return replace(
            base,
            claimed_epsilon=float(exact(check_epsilon(self.epsilon))),
            unit=ONE_EDGE,
            neighbouring=EDGE_NEIGHBOURS,
            not_protected=(*self.shown(), "the set of nodes", "the number of nodes"),
            charges=(Charge("noisy list lengths", self.length_epsilon, "graph"), *base.charges),
            composition="sequential: the noisy lengths, then one entry in the list of either end; cutting, filling and "
            "all the rest are post-processing",
            also=self.node_guarantees(seed),
            notes=("Buckets are formed from features alone",),
        )

    def renewal(self, seed: int | None = None) -> Renewal:
        """New lengths and new lists are sent once."""
        return self._sent_again()

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Planted pairs of alike nodes, and an edge that is there or not.

        With public features, without pruning, and in two buckets, the alike and the others, where an entry tells most.
        """
        public = replace(self, epsilon_x=math.inf, epsilon_y=math.inf, prune=False, buckets=2)
        half = at_half(public)
        return [
            planted_alike("planted pairs of alike nodes", public.sent_once, public._weigh, effort, graphs=GRAPHS),
            planted_alike("planted pairs of alike nodes, renewed", half.sent_twice, half._weigh, effort, graphs=1),
            entry_neighbours(edge_or_none(), public._lists_of_pair, effort),
            *self.node_experiments(effort),
        ]

    def _weigh(self, length: Int, alike: Int) -> NDArray[np.float64]:
        """ln P(list | one edge, to an alike node) / P(list | none), of lists without other edges.

        A list is longer than nothing by e^(ε_l/2) times more often; one of its entries, any of them, is the edge's.
        """
        first = float(self.per_entry) * (1.0 if self.share is None else self.share)
        keep = 1 / (1 + math.exp(-first))
        filled = ALIKE * keep + (1 - ALIKE) * (1 - keep)
        entries = alike * keep / filled + (length - alike) * (1 - keep) / (1 - filled)
        named = np.log(entries / np.maximum(length, 1), where=length > 0, out=np.zeros(len(length)))
        return named + np.where(length > 0, 1, -1) * float(self.length_epsilon) / 2

    def _lists_of_pair(self, graph: Graph, noise: Noise, runs: int) -> list[tuple[int, ...]]:
        """Of nodes 0 and 1: the noisy length of the list, and how many alike nodes it names, many times over."""
        n = graph.num_nodes
        plan = choose_plan(FeatureMatrix.wrap(graph.x), float(self.per_entry), self.buckets, self.share)
        columns = []
        for node in (0, 1):
            mine = graph.neighbours(node)
            length = self.lengths(np.full(runs, len(mine)), n, noise)
            indptr = len(mine) * np.arange(runs + 1)
            row, entry = resized(indptr, np.tile(mine, runs), length, n, noise)
            alike = row[plan.bucket[self.respond(entry, plan, noise)] == plan.bucket[node]]
            columns += [length, np.bincount(alike, minlength=runs)]
        return list(map(tuple, np.stack(columns, axis=1).tolist()))
