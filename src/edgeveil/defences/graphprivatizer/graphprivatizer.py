"""GraphPrivatizer (Joshi, Indri & Mishra, TMLR 2024): each neighbour is randomly replaced by a similar node near it.

The published Theorem 4.3 does not hold: whom a neighbour may be replaced by depends on the neighbour, so an output
possible under one list can be impossible under another that differs in one entry. docs/graphprivatizer.md has the
counter-example; `edgeveil verify gp-t` shows it. The method is kept faithfully and marked `refuted`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, Faces
from edgeveil.defences.graphprivatizer.local import ONE_ENTRY, PER_ENTRY, LocalMechanism
from edgeveil.defences.graphprivatizer.local import Lists as Sent
from edgeveil.defences.graphprivatizer.local_audit import entry_neighbours, one_entry_apart, options_of, repeated
from edgeveil.defences.graphprivatizer.replacement import (
    Candidates,
    Lists,
    Strategy,
    draw,
    most_similar,
    overwrite,
    published_candidates,
    threshold,
)
from edgeveil.defences.graphprivatizer.similarity import METRICS, edge_similarity, mixed_similarity
from edgeveil.defences.perturbed import directed_csr
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import check_epsilon, exact
from edgeveil.privacy.experiments import Effort, Experiment
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import Noise
from edgeveil.registry import Places
from edgeveil.seeds import Seed
from edgeveil.values import is_number

__all__ = ["GraphPrivatizer"]

WHY_REFUTED = (
    "Theorem 4.3 assumes that every node can be replaced by every other, but a neighbour is only ever replaced by its "
    "own neighbours, so some outputs are possible under one list and impossible under an adjacent one; entries "
    "without a candidate are released with certainty"
)
WHY_AGGREGATION = (
    "With alpha > 0 the similarities average over true neighbours, a use of edges that Theorem 4.4 does not count"
)


@DEFENCES.register("graphprivatizer", presets={"gp-m": {"strategy": "most-similar"}, "gp-t": {"strategy": "threshold"}})
@dataclass(frozen=True, kw_only=True)
class GraphPrivatizer(LocalMechanism):
    """Algorithm 1 with the most similar neighbour (GP-m, Alg. 3) or all above a threshold (GP-t, Alg. 4).

    alpha: share of the neighbours' mean in the compared features (Eq. 3). delta: least similarity of a candidate; -1
    admits all. variant "published" re-creates the authors' code, where alpha means 1 - alpha (see `similarity`).
    """

    epsilon: float | None = None
    """For one entry of one node's list; inf means no noise."""
    strategy: Strategy = "threshold"
    """threshold (GP-t) or most-similar (GP-m): which neighbours may stand for another."""
    alpha: float = 0.5
    """Share of the neighbours' mean in the compared features (Eq. 3)."""
    delta: float = 0.0
    """Least similarity of a candidate; -1 admits all."""
    metric: str = "cosine"
    """Similarity of features: cosine or euclidean."""
    variant: Literal["correct", "published"] = "correct"
    """``published`` re-creates the authors' code, where alpha means 1 - alpha."""

    status: ClassVar[Status] = "refuted"
    unit: ClassVar[str] = ONE_ENTRY
    reference: ClassVar[str] = "Joshi, Indri & Mishra, GraphPrivatizer, TMLR 2024, Algorithms 1-4"
    faces: ClassVar[Faces] = {
        "graphprivatizer": ("GraphPrivatizer", None), "gp-t": ("GP-t", 6), "gp-m": ("GP-m", 7),
    }  # fmt: skip
    audited: ClassVar[Places] = {"gp-t": 60}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon, infinite=True)
        for what, value, choices in (
            ("strategy", self.strategy, ("most-similar", "threshold")),
            ("similarity metric", self.metric, METRICS),
            ("variant", self.variant, ("correct", "published")),
        ):
            if value not in choices:
                raise UnknownNameError(what, value, choices)
        if not is_number(self.alpha) or not 0.0 <= self.alpha <= 1.0:
            raise InputError(f"alpha is a share between 0 and 1, got {self.alpha!r}")
        if not is_number(self.delta) or not -1.0 <= self.delta <= 1.0:
            raise InputError(f"delta is a similarity between -1 and 1, got {self.delta!r}; -1 admits every neighbour")

    @property
    def hides_edges(self) -> bool:
        """An infinite epsilon replaces nothing."""
        return not math.isinf(check_epsilon(self.epsilon, infinite=True))

    def lists(self, graph: Graph, features: FeatureMatrix, noise: Noise) -> Sent:
        """Alg. 1 for all nodes at once."""
        if not self.hides_edges:
            return graph.adjacency, {}
        lists = Lists(graph.adjacency)
        candidates = self.candidates(graph, features, lists)
        column = draw(candidates, lists.column, exact(check_epsilon(self.epsilon)), noise)
        return self._written(lists, column) if self.variant == "published" else self._sets(lists, column, candidates)

    def candidates(self, graph: Graph, features: FeatureMatrix, lists: Lists) -> Candidates:
        """Who may replace each entry, judged by the noisy features."""
        published = self.variant == "published"
        measure = mixed_similarity if published else edge_similarity
        alike = lists.both_ways(measure(features, graph.adjacency, graph.edge_index, self.alpha, self.metric))
        if published:
            return published_candidates(lists, alike, self.delta, self.strategy)
        choose = most_similar if self.strategy == "most-similar" else threshold
        return choose(lists, alike, self.delta)

    def _sets(self, lists: Lists, column: NDArray[Any], candidates: Candidates) -> Sent:
        directed, repeats = directed_csr(lists.row, column, lists.shape[0])
        return directed, {
            "entries": len(lists),
            "duplicates": repeats,
            "self_loops": 0,
            "kept_for_certain": int((candidates.count == 0).sum()),
            "neighbours_of_degree_one": int((lists.degree[lists.column] == 1).sum()),
        }

    def _written(self, lists: Lists, column: NDArray[Any]) -> Sent:
        """The authors' matrix: rows edited in place, then transposed, so v sends to its noisy list."""
        row, target = overwrite(lists, column)
        directed, _ = directed_csr(target, row, lists.shape[0])
        return directed, {
            "entries": len(lists),
            "duplicates": len(lists) - len(row),
            "self_loops": int((row == target).sum()),
            "neighbours_of_degree_one": int((lists.degree[lists.column] == 1).sum()),
        }

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """No promise for edges; sound promises for features and labels."""
        notes = (PER_ENTRY, WHY_AGGREGATION) if self.alpha > 0 else (PER_ENTRY,)
        notes = (*notes, self.claimed_total(check_epsilon(self.epsilon, infinite=True)))
        noisy = SECURE if seed is None else SEEDED
        also = self.node_guarantees(seed)
        if not self.hides_edges:
            reason = "An infinite epsilon leaves every neighbour list as it is"
            return Guarantee(status="none", reason=reason, randomness=noisy, also=also, reference=self.reference)
        return Guarantee(
            status="refuted", claimed_epsilon=check_epsilon(self.epsilon), reason=WHY_REFUTED, randomness=noisy,
            also=also, notes=notes, reference=self.reference,
        )  # fmt: skip

    def certain_entries(self, graph: Graph, seed: Seed = None) -> dict[str, int]:
        """Entries and edges of this graph that are released with certainty, and why: no noise touches them.

        An edge is given away as soon as one of its two entries is.
        """
        sent = self.perturb(graph, seed)
        assert sent.features is not None
        lists = Lists(graph.adjacency)
        certain = self.candidates(graph, sent.features, lists).count == 0
        lonely = certain & (lists.degree[lists.column] == 1)
        return {
            "edges": graph.num_edges,
            "certain_edges": int((certain | certain[lists.mirror]).sum()) // 2,
            "entries": len(lists),
            "certain": int(certain.sum()),
            "neighbours_of_degree_one": int(lonely.sum()),
            "no_similar_candidate": int((certain & ~lonely).sum()),
        }

    # -- what `edgeveil.privacy.verify` asks for ----------------------------------------------------------------

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Node 0's noisy list on two graphs that differ in its one entry, with public features.

        One output that is impossible on the neighbour is enough, and this is where they occur.
        """
        public = replace(self, epsilon_x=math.inf, epsilon_y=math.inf)
        return [entry_neighbours(one_entry_apart(), public._first_lists, effort, public._reachable)]

    def _audit(self, graph: Graph) -> tuple[Candidates, Lists]:
        lists = Lists(graph.adjacency)
        return self.candidates(graph, FeatureMatrix.wrap(graph.x), lists), lists

    def _first_lists(self, graph: Graph, noise: Noise, runs: int) -> list[tuple[int, ...]]:
        """Noisy lists of node 0."""
        many, column = repeated(*self._audit(graph), 0, runs)
        drawn = draw(many, column, exact(check_epsilon(self.epsilon)), noise).reshape(runs, -1)
        return [tuple(sorted(set(row))) for row in drawn.tolist()]

    def _reachable(self, graph: Graph, outcome: tuple[int, ...]) -> bool:
        """Whether node 0 can send this list."""
        return outcome in options_of(*self._audit(graph), 0)
