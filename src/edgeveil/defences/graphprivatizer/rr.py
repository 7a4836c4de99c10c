"""The baseline of GraphPrivatizer §5.1: binary randomised response on each node's 2-hop list.

Whom a list covers is itself decided by private edges: a node outside it is never shown as a neighbour, so the
guarantee of randomised response does not carry over, and the status is `refuted`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, Faces
from edgeveil.defences.graphprivatizer.local import ONE_ENTRY, PER_ENTRY, Lists, LocalMechanism
from edgeveil.defences.graphprivatizer.local_audit import entry_neighbours, one_entry_apart
from edgeveil.defences.perturbed import directed_csr
from edgeveil.errors import UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import check_epsilon, exact
from edgeveil.privacy.experiments import Effort, Experiment
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import Noise
from edgeveil.privacy.probability import logistic
from edgeveil.seeds import Seed

__all__ = ["TwoHopResponse", "two_hop_blocks"]

WHY_REFUTED = (
    "Randomised response covers only the nodes within two hops, and which nodes those are is decided by private "
    "edges: a node shown as a neighbour is certainly within two hops"
)
_BLOCK = 1 << 22  # two-hop paths walked at once


def two_hop_blocks(adjacency: Any, *, own: bool) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Any]]:
    """Blocks of (v, w, whether w is a neighbour of v) over all w within two hops of v; `own` lets w = v in."""
    a = sp.csr_matrix(adjacency, dtype=np.int32)
    paths = np.cumsum(a @ np.diff(a.indptr))
    cuts = np.unique(np.searchsorted(paths, np.arange(_BLOCK, paths[-1] if len(paths) else 0, _BLOCK)) + 1)
    edges = np.concatenate([[0], cuts[cuts < a.shape[0]], [a.shape[0]]])
    for low, high in pairwise(edges):
        rows = a[low:high]
        # A direct link counts 2^40, more than there can be paths of length two.
        both = (rows.astype(np.int64) * (1 << 40) + (rows @ a).astype(np.int64)).tocoo()
        v, w = both.row.astype(np.int64) + low, both.col.astype(np.int64)
        keep = np.ones(len(v), dtype=bool) if own else v != w
        yield v[keep], w[keep], (both.data >= (1 << 40))[keep]


@DEFENCES.register("rr")
@dataclass(frozen=True, kw_only=True)
class TwoHopResponse(LocalMechanism):
    """Each node flips each bit of its 2-hop list with probability 1/(e^eps + 1). Degrees are not kept.

    variant "published": a node is in its own list, and messages run from v to its noisy list.
    """

    epsilon: float | None = None
    """For one entry of one node's list; inf means no noise."""
    variant: Literal["correct", "published"] = "correct"
    """``published``: a node is in its own list, and messages run from it to its noisy list."""

    status: ClassVar[Status] = "refuted"
    unit: ClassVar[str] = ONE_ENTRY
    reference: ClassVar[str] = "Joshi, Indri & Mishra, GraphPrivatizer, TMLR 2024, section 5.1"
    faces: ClassVar[Faces] = {"rr": ("2-hop RR", None)}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon, infinite=True)
        if self.variant not in ("correct", "published"):
            raise UnknownNameError("variant", self.variant, ("correct", "published"))

    @property
    def hides_edges(self) -> bool:
        """An infinite epsilon flips nothing."""
        return not math.isinf(check_epsilon(self.epsilon, infinite=True))

    def lists(self, graph: Graph, features: FeatureMatrix, noise: Noise) -> Lists:
        """Flip the bits of all 2-hop lists, some rows at a time."""
        if not self.hides_edges:
            return graph.adjacency, {}
        published = self.variant == "published"
        flip = logistic(exact(check_epsilon(self.epsilon)))
        rows, columns, covered = [], [], 0
        for v, w, linked in two_hop_blocks(graph.adjacency, own=published):
            shown = linked ^ noise.bernoulli(flip, len(v))
            rows.append(v[shown])
            columns.append(w[shown])
            covered += len(v)
        row, column = np.concatenate(rows), np.concatenate(columns)
        loops = int((row == column).sum())
        if published:
            row, column = column, row
        directed, _ = directed_csr(row, column, graph.num_nodes)
        return directed, {"entries": covered, "duplicates": 0, "self_loops": loops}

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """No promise for edges; sound promises for features and labels."""
        noisy, also = SECURE if seed is None else SEEDED, self.node_guarantees(seed)
        if not self.hides_edges:
            reason = "An infinite epsilon leaves every neighbour list as it is"
            return Guarantee(status="none", reason=reason, randomness=noisy, also=also, reference=self.reference)
        return Guarantee(
            status="refuted", claimed_epsilon=check_epsilon(self.epsilon), reason=WHY_REFUTED, randomness=noisy,
            also=also, notes=(PER_ENTRY,), reference=self.reference,
        )  # fmt: skip

    # -- what `edgeveil.privacy.verify` asks for ----------------------------------------------------------------

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Node 0's noisy list on two graphs that differ in its one entry."""
        return [entry_neighbours(one_entry_apart(), self._first_lists, effort, self._reachable)]

    def _covered(self, graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        blocks = list(two_hop_blocks(graph.adjacency, own=self.variant == "published"))
        v, w, linked = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return w[v == 0], linked[v == 0]

    def _first_lists(self, graph: Graph, noise: Noise, runs: int) -> list[tuple[int, ...]]:
        """Noisy 2-hop lists of node 0."""
        nodes, linked = self._covered(graph)
        flips = noise.bernoulli(logistic(exact(check_epsilon(self.epsilon))), runs * len(nodes))
        shown = linked ^ flips.reshape(runs, -1)
        return [tuple(nodes[row].tolist()) for row in shown]

    def _reachable(self, graph: Graph, outcome: tuple[int, ...]) -> bool:
        """Whether all shown nodes lie within two hops of node 0."""
        return set(outcome) <= set(self._covered(graph)[0].tolist())
