"""A repaired relative of GraphPrivatizer: neighbours are replaced by similar nodes under true differential privacy.

Nodes lie in public buckets. Each entry u of a list, in bucket b of size n_b, goes through a two-level randomised
response: keep the bucket with probability e^e1/(e^e1 + m - 1), else another bucket uniformly; in a kept bucket keep u
with probability e^e2/(e^e2 + n_b - 1), else another member uniformly; in a changed bucket any member uniformly. Every
node can come out of every node, and the likelihood ratio is at most e^(e1 + e2) (proof: docs/graphprivatizer.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, Faces
from edgeveil.defences.graphprivatizer.buckets import Plan, choose_plan
from edgeveil.defences.graphprivatizer.local import BOTH, FEATURES, LABEL, ONE_ENTRY, Lists, LocalMechanism
from edgeveil.defences.graphprivatizer.local_audit import entry_neighbours, node_data, rewired, swapped_edges
from edgeveil.defences.job import Job
from edgeveil.defences.perturbed import directed_csr
from edgeveil.defences.renewal import SNAPSHOT, Renewal, Renewed, Snapshot, composed
from edgeveil.defences.renewal_audit import at_half, graph_twice
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import Budget, Charge, check_epsilon, exact
from edgeveil.privacy.experiments import Effort, Experiment, Stated
from edgeveil.privacy.guarantee import DERIVED_FEATURES, SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.kary import keep_probability, ragged_coins, ragged_uniform, respond
from edgeveil.privacy.multibit import check_unit_range, multi_bit
from edgeveil.privacy.noise import Noise, noise_for
from edgeveil.release.predictors import GraphPredictor
from edgeveil.seeds import Seed
from edgeveil.values import is_number, is_whole

__all__ = ["BucketResponse", "response_matrix", "two_level_response"]

Int = NDArray[np.int64]
BOTH_ENTRIES = "the two list entries of one edge, given the length of every list"
LISTS = "lists of the same lengths in which the two entries of one undirected edge become any other nodes"
NO_EDGE_NOTE = (
    "No epsilon for one undirected edge follows: an edge more or less changes the lengths of two lists, which are "
    "released as they are, and whoever knows all other edges knows the last one from them; gp-edge has noisy lengths"
)
SWAP_NOTE = (
    "With list lengths public, two undirected graphs differ in at least two edges (a swap, four entries), which costs "
    "twice this epsilon"
)


def two_level_response(values: Int, bucket: Int, first: Fraction, second: Fraction, noise: Noise) -> Int:
    """Each value (a node) through the two-level response over `bucket` (0..m-1, none empty)."""
    sizes = np.bincount(bucket)
    members = np.argsort(bucket, kind="stable")
    start = np.cumsum(sizes) - sizes
    place = np.empty(len(bucket), np.int64)
    place[members] = np.arange(len(bucket)) - start[bucket[members]]
    own = bucket[values]
    new = respond(noise, first, own, len(sizes))
    inside = new == own
    within = np.empty(len(values), np.int64)
    within[~inside] = ragged_uniform(noise, sizes[new[~inside]])
    here, at = sizes[own[inside]], place[values[inside]]
    kept = ragged_coins(noise, second, here)
    other = ragged_uniform(noise, here - 1)
    within[inside] = np.where(kept, at, other + (other >= at))
    out: Int = members[start[new] + within]
    return out


def response_matrix(bucket: Int, first: float, second: float) -> NDArray[np.float64]:
    """P(w | u) of one entry as a dense matrix [u, w]; the oracle that tests hold draws against, for small node sets."""
    sizes = np.bincount(bucket)
    keep = float(keep_probability(exact(first), len(sizes)))
    change = (1 - keep) / max(len(sizes) - 1, 1)
    other = 1 / (math.exp(second) + sizes - 1)
    same = bucket[:, None] == bucket
    out = np.where(same, keep * other[bucket][None, :], change / sizes[bucket][None, :])
    np.fill_diagonal(out, keep * math.exp(second) * other[bucket])
    return out


@DEFENCES.register("gp-sound")
@dataclass(frozen=True, kw_only=True)
class BucketResponse(LocalMechanism):
    """`epsilon` is for the two list entries of one edge, epsilon/2 each, given the length of every list.

    That is no promise for one undirected edge, which changes lengths; `gp-edge` makes one.
    Features are public by default and the buckets come from them; with a finite epsilon_x the nodes send noisy
    features and the buckets come from those. buckets, share: number of buckets and the share of epsilon spent on the
    choice of bucket; None chooses both from the features and epsilon, never from edges. prune: the server keeps only
    entries that came out in the receiver's own bucket, where the noisy lists show that links prefer it.
    """

    epsilon: float | None = None
    epsilon_x: float = math.inf
    epsilon_y: float = math.inf
    buckets: int | None = None
    """Number of buckets; none chooses it from features and epsilon, never from edges."""
    share: float | None = None
    """Share of epsilon that the choice of bucket gets; none chooses it likewise."""
    prune: bool = True
    """Keep only entries that came out in the receiver's own bucket, where the noisy lists show that links prefer it."""

    unit: ClassVar[str] = BOTH_ENTRIES
    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "edgeveil, docs/graphprivatizer.md; after Joshi, Indri & Mishra, TMLR 2024"
    faces: ClassVar[Faces] = {"gp-sound": ("GP-sound", None)}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)
        share, buckets = self.share, self.buckets
        if share is not None and not (is_number(share) and 0.0 <= share <= 1.0):
            raise InputError(f"share is a part of epsilon between 0 and 1, got {share!r}; None chooses one")
        if buckets is not None and not (is_whole(buckets) and buckets >= 1):
            raise InputError(f"buckets must be a whole number >= 1, got {buckets!r}; None chooses one")

    @property
    def per_entry(self) -> Fraction:
        """Epsilon of one list entry."""
        return exact(check_epsilon(self.epsilon)) / 2

    def lists(self, graph: Graph, features: FeatureMatrix, noise: Noise) -> Lists:
        """All entries of all lists; pruning, self-loops and repeats that are dropped afterwards are post-processing."""
        plan = choose_plan(features, float(self.per_entry), self.buckets, self.share)
        row, entry = self.entries(graph, noise)
        column = self.respond(entry, plan, noise)
        count = int(plan.bucket.max()) + 1
        same = plan.bucket[row] == plan.bucket[column]
        plausible = same if self.prune and same.any() and same.mean() > 1 / count else np.ones(len(row), dtype=bool)
        keep = plausible & (row != column)
        directed, repeats = directed_csr(row[keep], column[keep], graph.num_nodes)
        return directed, {
            "entries": len(row),
            "duplicates": repeats,
            "self_loops": int((plausible & (row == column)).sum()),
            "pruned": int((~plausible).sum()),
            "buckets": count,
            "share_percent": round(100 * plan.share),
        }

    def respond(self, entries: Int, plan: Plan, noise: Noise) -> Int:
        """Every entry of every list goes through this, in a release and in an audit."""
        first = self.per_entry * exact(plan.share)
        return two_level_response(entries, plan.bucket, first, self.per_entry - first, noise)

    def entries(self, graph: Graph, noise: Noise) -> tuple[Int, Int]:
        """Who lists (row) and whom (entry), before the response; here the lists as they are."""
        a = graph.adjacency
        return np.repeat(np.arange(graph.num_nodes), np.diff(a.indptr)), a.indices.astype(np.int64)

    def shown(self) -> tuple[str, ...]:
        """Which data of a node are sent as they are."""
        sent = (("node features", self.epsilon_x), ("node labels", self.epsilon_y))
        return tuple(what for what, epsilon in sent if math.isinf(epsilon))

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """Sound in two units, both given the lists' lengths: the entries of one edge (epsilon) and one (half of it)."""
        noisy, entry = SECURE if seed is None else SEEDED, self.per_entry
        hidden = ("the length of every neighbour list (each node's degree)", "the set of nodes")
        per_entry = Guarantee(
            status="sound", claimed_epsilon=float(entry), unit=ONE_ENTRY, randomness=noisy,
            neighbouring="two lists of the same length that differ in one entry", not_protected=hidden,
        )  # fmt: skip
        return Guarantee(
            status="sound",
            claimed_epsilon=float(2 * entry),
            unit=BOTH_ENTRIES,
            neighbouring=LISTS,
            not_protected=(*hidden, *self.shown()),
            charges=tuple(Charge("two-level randomised response", entry, "graph") for _ in range(2)),
            composition="an undirected edge stands in the lists of both its ends, so it pays twice; the rest is "
            "post-processing",
            randomness=noisy,
            also=(per_entry, *self.node_guarantees(seed)),
            notes=("Buckets are formed from features alone", NO_EDGE_NOTE, SWAP_NOTE, DERIVED_FEATURES),
            reference=self.reference,
        )

    def renewal(self, seed: int | None = None) -> Renewal:
        """The new lists are sent once; new features of a release with private ones go through their noise first."""
        return self._sent_again()

    def _sent_again(self) -> Renewal:
        return Renewal(exact(check_epsilon(self.epsilon)), self._renew, self._check_renewal)

    def _check_renewal(self, snapshot: Snapshot) -> None:
        if snapshot.fresh and not math.isinf(self.epsilon_x):
            check_unit_range(snapshot.x)

    def _renew(self, snapshot: Snapshot) -> Renewed:
        """Features the release has stored were paid for; buckets of either kind are made of what was sent."""
        x, old = snapshot.x, snapshot.release
        assert isinstance(old.predictor, GraphPredictor)
        spent = {ONE_ENTRY: self.per_entry}
        if snapshot.fresh and not math.isinf(self.epsilon_x):
            x = multi_bit(x, self.epsilon_x, noise_for(snapshot.noise_seed("features")))
            spent |= dict.fromkeys((FEATURES, BOTH), exact(self.epsilon_x))
        directed, _ = self.lists(snapshot.graph, x, noise_for(snapshot.noise_seed("lists")))
        budget = Budget(exact(check_epsilon(self.epsilon)))
        for charge in self.mechanism_guarantee(snapshot.seed).charges:
            budget.enter(charge._replace(on=SNAPSHOT))
        guarantee = composed(old.guarantee, budget, snapshot.seed)
        also = tuple(_with_snapshot(g, spent.get(g.unit), guarantee.randomness) for g in guarantee.also)
        predictor = GraphPredictor(old.predictor.spec, old.predictor.model, directed)
        return Renewed(predictor, x, replace(guarantee, also=also))

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Lists of one length that differ in the two entries of one edge; with public features, which decide nothing.

        An edge planted by coin would lengthen two lists, and list lengths are public here; edges are swapped instead.
        """
        public = replace(self, epsilon_x=math.inf, epsilon_y=math.inf)
        few = replace(public, buckets=None if self.buckets is None else min(self.buckets, 4))
        return [
            swapped_edges("swapped edges, lists of two nodes", public.sent_once, effort),
            swapped_edges("swapped edges, lists of two nodes, renewed", at_half(public).sent_twice, effort),
            entry_neighbours(rewired(), lambda graph, noise, runs: few._entries(graph, noise, runs), effort),
            *self.node_experiments(effort),
        ]

    def node_experiments(self, effort: Effort) -> list[Experiment]:
        """On the promises for a node's own features and label, where there are any."""
        return node_data(lambda job: self._collect(job)[1], effort, (self.epsilon_x, FEATURES), (self.epsilon_y, LABEL))

    def sent_once(self, job: Job) -> tuple[Sequence[Any], Stated]:
        """The lists of one release."""
        return [self._collect(job)[1].directed], Stated()

    def sent_twice(self, job: Job) -> tuple[Sequence[Any], Stated]:
        """The lists of a release and of its renewal, and what the renewal states."""
        told = graph_twice(self, job)
        return [told.first, told.second], told.stated

    def _entries(self, graph: Graph, noise: Noise, runs: int) -> list[tuple[int, ...]]:
        """The noisy entries of nodes 0 and 1, the two that the undirected edge 0-1 would fill, many times over."""
        plan = choose_plan(FeatureMatrix.wrap(graph.x), float(self.per_entry), self.buckets, self.share)
        values = np.concatenate([np.repeat(graph.neighbours(node), runs) for node in (0, 1)])
        return list(map(tuple, self.respond(values, plan, noise).reshape(2, runs).T.tolist()))


def _with_snapshot(promise: Guarantee, spent: Fraction | None, randomness: str) -> Guarantee:
    """A promise in another unit after a snapshot spent on it too (None: it did not)."""
    if spent is None:
        return promise
    assert promise.claimed_epsilon is not None
    total = exact(promise.claimed_epsilon) + spent
    said = "; ".join(filter(None, [promise.composition, f"{float(spent):g} more for the snapshot, which adds up"]))
    return replace(promise, claimed_epsilon=float(total), composition=said, randomness=randomness)
