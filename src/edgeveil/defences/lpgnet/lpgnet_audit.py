"""Experiments on LPGNet's noise stage: what an auditor reads off the noisy cluster-degree vectors.

The auditor is as strong as differential privacy allows for: it chooses the clusters of every layer and phase, which in
a release come from earlier answers, and knows every edge but the planted ones. An edge {u, v} raises two counts of
each query by one. Training on the vectors is post-processing and cannot add to what they show.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import Defence
from edgeveil.defences.job import Job, Setting
from edgeveil.defences.lpgnet.degree_vectors import SLICES
from edgeveil.defences.lpgnet.lpgnet_stack import Phase, ask_again, distinct, make_phases, stack_settings
from edgeveil.defences.renewal_audit import RENEWED, at_half, is_renewable, renew_untrained
from edgeveil.defences.trial import trial_job
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.models.assemble import build
from edgeveil.privacy.canaries import degree_strata, heavy_tailed_graph, plant, synthetic_graph
from edgeveil.privacy.experiments import Coins, Effort, Experiment, Neighbours, Rounds, Sight, Stated, Views
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.lpgnet_predictor import LPGNetPredictor, row_logits, stack_features
from edgeveil.seeds import Seed

__all__ = [
    "CLASSES",
    "Auditor",
    "NoiseStage",
    "Query",
    "Reasked",
    "VectorDefence",
    "counts_of_edge",
    "reasked_stack",
    "renewed_vectors",
    "vector_experiments",
]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
NoiseStage = Callable[[Job, Sequence[Phase], Callable[[int], None]], object]
"""LPGNet's own: asks every phase in every layer, and calls back after each layer for the next clusters."""
CLASSES = 3
NEAR = 1e-6
LEAVES = 90
HUB_PAIRS = 50


class VectorDefence(Defence):
    """A defence whose noise stage asks for vectors."""

    @abstractmethod
    def noise_stage(self, job: Job, phases: Sequence[Phase], learn: Callable[[int], None]) -> object:
        """Ask every phase in every layer."""

    @abstractmethod
    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What one release promises."""


D = TypeVar("D", bound=VectorDefence)


class Query(NamedTuple):
    """One query's answer [n, C], the auditor's clusters, and the counts without planted edges."""

    vectors: Float
    clusters: Int
    expected: Int


def vector_experiments(stage: NoiseStage, effort: Effort, *, gaussian: bool = False) -> list[Experiment]:
    """Planted pairs in one graph and in one that grows, flat and heavy-tailed, tiny neighbours, and rounds of hubs.

    The last are for Gaussian noise, whose claim is a curve. One experiment looks at the streams of a seeded run even
    where the noise itself is secure.
    """
    nodes = int(2.5 * effort.canaries) + 20
    flat, heavy = partial(synthetic_graph, nodes, 3 * nodes), partial(heavy_tailed_graph, nodes, 3 * nodes)
    coins = partial(_coins, stage, effort)
    found: list[Experiment] = [
        coins("planted pairs, flat graph", flat, "transductive", effort.secure),
        coins("planted pairs, heavy-tailed graph", heavy, "transductive", effort.secure),
        coins("planted pairs, heavy-tailed graph that grows", heavy, "inductive-evolving", effort.secure),
    ]
    if effort.secure:
        found.append(coins("planted pairs, seeded streams", flat, "inductive-evolving", False))
    if effort.graph is not None:
        own = effort.graph
        found.append(coins(f"planted pairs in {own.name}", lambda: own, "transductive", effort.secure))
    for name, first, second in _neighbouring_graphs():
        found.append(Neighbours(name, _sampler(stage, effort, name, (first, second))))
    if gaussian:
        found.insert(1, _hub_rounds(stage, effort))
    return found


def _coins(
    stage: NoiseStage, effort: Effort, name: str, design: Callable[[], Graph], setting: Setting, secure: bool
) -> Coins:
    seed = replace(effort, secure=secure).noise_seed(name)

    def see() -> Sight:
        known = design()
        planted = plant(known, min(effort.canaries, int(0.45 * known.num_nodes)), effort.rng("coins", name))
        job = trial_job(planted.graph, seed, setting=setting, classes=CLASSES)
        queries = Auditor(known, effort.rng("clusters", name)).ask(stage, job)
        seen = _Residuals.of(queries, planted.pairs)
        counts = np.minimum(queries[0].expected[planted.pairs[0], queries[0].clusters[planted.pairs[1]]], 7)
        return Sight(planted.coins, seen.views(), [degree_strata(known, planted.pairs), counts])

    return Coins(name, see)


class Auditor:
    """Chooses clusters, once for every layer and phase, and knows the counts that they give without planted edges."""

    def __init__(self, known: Graph, rng: np.random.Generator) -> None:
        self._known, self._rng = known, rng
        self._chosen: dict[tuple[int, int], tuple[Int, Float, Int]] = {}

    def _choice(self, layer: int, phase: int) -> tuple[Int, Float, Int]:
        if (layer, phase) not in self._chosen:
            clusters = self._rng.integers(0, CLASSES, self._known.num_nodes)
            counts = cluster_degrees(self._known, clusters, CLASSES)
            self._chosen[layer, phase] = clusters, np.eye(CLASSES)[clusters], counts
        return self._chosen[layer, phase]

    def ask(self, stage: NoiseStage, job: Job) -> list[Query]:
        """Run the stage with these clusters."""
        phases = make_phases(job)
        every = distinct(phases)

        def choose(layer: int) -> None:
            for number, phase in enumerate(every):
                phase.logits = self._choice(layer, number)[1]

        choose(0)
        stage(job, phases, choose)
        out = []
        for number, phase in enumerate(every):
            for layer, vectors in enumerate(phase.vectors):
                clusters, _, counts = self._choice(layer, number)
                out.append(Query(vectors, clusters, counts))
        return out


class _Residuals(NamedTuple):
    """Answers less what is known, in the rows of the planted pairs' ends."""

    rows: Float  # [Q, 2, m, C]
    targets: Int  # [Q, 2, m]: the column that a pair's edge would raise
    shown: NDArray[np.bool_]  # where the released number is positive, so nothing was cut off
    low_bits: Int
    repeats: Int

    @classmethod
    def of(cls, queries: Sequence[Query], pairs: Int) -> _Residuals:
        rows = np.stack([(q.vectors - q.expected)[pairs] for q in queries])
        targets = np.stack([q.clusters[pairs[::-1]] for q in queries])
        shown = np.stack([q.vectors[pairs] > 0 for q in queries])
        first = queries[0]
        bits = _low_bits(first.vectors[pairs[0], first.clusters[pairs[1]]])
        return cls(
            rows, targets, shown, bits, sum((_repeats(q, pairs) for q in queries), np.zeros(pairs.shape[1], int))
        )

    def views(self) -> dict[str, Int]:
        """Evidence for each pair's edge, read in several ways; a sound release shows only what the first two see."""
        at = np.take_along_axis(self.rows, self.targets[..., None], axis=-1)[..., 0]  # [Q, 2, m]
        sides = np.rint(2 * np.clip(2 * at - 1, -1, 1).sum(axis=(0, 1))).astype(np.int64)
        total = (at - 0.5).sum(axis=(0, 1))
        width = max(1.0, float(total.std()) / 8)
        return {
            "sides on which the counts lie": sides,
            "sum of the counts": np.clip(np.rint(total / width), -40, 40).astype(np.int64),
            "differences between queries": self._contrasts(between=True),
            "differences between clusters": self._contrasts(between=False),
            "differences between nodes": self.repeats,
            "last bits of a count": self.low_bits,
        }

    def _contrasts(self, *, between: bool) -> Int:
        """Votes of cells that would share noise: 1 apart speaks for the edge, 0 apart against it, else nothing.

        The cell that the edge raises is compared with a cell of the same row that it does not: the same column of
        another query, or another column of the same query.
        """
        votes = np.zeros(self.rows.shape[2], np.int64)
        columns = np.arange(CLASSES)
        for q, r in np.ndindex(len(self.rows), len(self.rows)):
            if (q != r) != between:
                continue
            target = self.targets[q][..., None]
            mine = np.take_along_axis(self.rows[q], target, axis=-1)
            seen = self.shown[r] & np.take_along_axis(self.shown[q], target, axis=-1)
            other = (columns == target) & (self.targets[r][..., None] != target) if between else columns != target
            gap = mine - self.rows[r]
            vote = (np.abs(gap - 1) < NEAR).astype(np.int64) - (np.abs(gap) < NEAR)
            votes += np.where(other & seen, vote, 0).sum(axis=(0, 2))
        return votes


def _low_bits(values: Float) -> Int:
    """Place of the last binary digit behind the point, 0 for whole numbers: floating-point noise shows there."""
    mantissa, exponent = np.frexp(values)
    whole = (mantissa * 2.0**53).astype(np.int64)
    last = np.where(whole == 0, 0.0, np.log2(np.maximum((whole & -whole).astype(np.float64), 1.0)))
    place = 53 - exponent - last
    return np.where(whole == 0, 0, np.clip(place, 0, 80)).astype(np.int64)


def _repeats(query: Query, pairs: Int) -> Int:
    """Votes of counts whose noise would be that of the same place in another slice of the nodes (published code)."""
    rows, columns = pairs, query.clusters[pairs[::-1]]
    n = len(query.vectors)
    noise: Float = np.where(query.vectors > 0, query.vectors - query.expected, np.inf)
    step = -(-n // SLICES)
    copies = np.stack([noise[np.minimum(rows % step + k * step, n - 1), columns] for k in range(SLICES)])
    copies[np.arange(SLICES)[:, None, None] == rows // step] = np.inf
    mine = noise[rows, columns]
    gap = np.abs(np.where(np.isinf(copies) | np.isinf(mine), 9.0, copies) - np.where(np.isinf(mine), 0.0, mine))
    present, absent = np.abs(gap - 1).min(axis=0) < NEAR, gap.min(axis=0) < NEAR
    out: Int = (present.astype(np.int64) - absent).sum(axis=0)
    return out


# -- a release that is renewed -----------------------------------------------------------------------------------------


class Reasked(NamedTuple):
    """What a renewal asked (vectors and the clusters they count), and what it states for the release and itself."""

    queries: Sequence[tuple[Float, Int]]
    stated: Stated


def renewed_vectors(
    mechanism: D, effort: Effort, again: Callable[[D, Job, Sequence[Float]], Reasked]
) -> list[Experiment]:
    """Planted pairs in the vectors of a release and of its renewal; none where the method has no renewal.

    `again` renews, on the same graph, a release that stores these vectors.
    """
    if not is_renewable(mechanism):
        return []
    half = at_half(mechanism)

    def see() -> Sight:
        known = heavy_tailed_graph(int(2.5 * effort.canaries) + 20, int(7.5 * effort.canaries))
        planted = plant(known, effort.canaries, effort.rng("coins", RENEWED))
        job = trial_job(planted.graph, effort.noise_seed(RENEWED), classes=CLASSES)
        first = Auditor(known, effort.rng("clusters", RENEWED)).ask(half.noise_stage, job)
        told = again(half, job, [q.vectors for q in first])
        second = [Query(vectors, c, cluster_degrees(known, c, CLASSES)) for vectors, c in told.queries]
        views = _Residuals.of([*first, *second], planted.pairs).views()
        return Sight(planted.coins, views, [degree_strata(known, planted.pairs)], stated=told.stated)

    return [Coins(RENEWED, see)]


def reasked_stack(mechanism: VectorDefence, job: Job, vectors: Sequence[Float]) -> Reasked:
    """LPGNet's renewal; its clusters follow from the public features, weights and earlier answers."""
    claim = mechanism.mechanism_guarantee(job.seed)
    fresh = renew_untrained(mechanism, job, _untrained(job, vectors), claim)
    stack, out = fresh.predictor, list[tuple[Float, Int]]()
    assert isinstance(stack, LPGNetPredictor) and stack.noise is not None
    stored = stack.vectors

    def repeat(clusters: Int, layer: int) -> Float:
        out.append((stored[layer - 1], clusters))
        return stored[layer - 1]

    ask_again(stack, job.train_features, repeat, stack.noise)
    return Reasked(out, Stated.of(fresh.guarantee))


def _untrained(job: Job, vectors: Sequence[Float]) -> LPGNetPredictor:
    """A stack with fresh weights: which clusters it gives does not matter to privacy."""
    spec = stack_settings(job)[0]
    models = [build(spec, job.train_features.shape[1], CLASSES, seed=0).eval()]
    logits, features = row_logits(models[0], job.train_features), None
    for layer, asked in enumerate(vectors, start=1):
        features = stack_features(features, logits, asked)
        models.append(build(spec, features.shape[1], CLASSES, seed=layer).eval())
        logits = row_logits(models[-1], FeatureMatrix.wrap(features))
    return LPGNetPredictor(spec, models, list(vectors))


# -- tiny neighbours --------------------------------------------------------------------------------------------------


def _neighbouring_graphs() -> list[tuple[str, Graph, Graph]]:
    """Graphs with and without the edge {0, 1}; the counts of hubs are so high that cutting below zero hides nothing."""
    hubs = [(hub, leaf) for hub in (0, 1) for leaf in range(2, LEAVES + 2)]
    return [
        ("6 nodes, one edge or none", _graph([(0, 1)], 6), _graph([], 6)),
        (f"two hubs of {LEAVES} leaves, linked or not", _graph([(0, 1), *hubs], LEAVES + 2), _graph(hubs, LEAVES + 2)),
    ]


def _graph(edges: list[tuple[int, int]], n: int) -> Graph:
    return Graph.from_edges(np.array(edges, np.int64).reshape(-1, 2).T, num_nodes=n, name=f"{n} nodes")


def _sampler(stage: NoiseStage, effort: Effort, name: str, graphs: tuple[Graph, Graph]) -> Callable[[int, int], Views]:
    rngs = [effort.rng("noise", name, side) for side in (0, 1)]
    auditor = Auditor(graphs[1], effort.rng("clusters", name))
    jobs = [trial_job(g, None, classes=CLASSES) for g in graphs]

    def sample(side: int, count: int) -> Views:
        codes: dict[str, list[Any]] = {"sides on which the counts lie": [], "sum of the counts": [], "output": []}
        for _ in range(count):
            seed = None if effort.secure else int(rngs[side].integers(2**62))
            queries = auditor.ask(stage, jobs[side] if seed is None else replace(jobs[side], seed=seed))
            at = np.array([counts_of_edge(q) for q in queries])
            codes["sides on which the counts lie"].append(round(2 * float(np.clip(2 * at - 1, -1, 1).sum())))
            codes["sum of the counts"].append(round(float(at.sum())))
            codes["output"].append(b"".join(q.vectors.tobytes() for q in queries))
        return codes

    return sample


# -- rounds of fresh coins --------------------------------------------------------------------------------------------


def _hub_rounds(stage: NoiseStage, effort: Effort) -> Rounds:
    """Coins link hubs two by two; their counts are so high that cutting below zero hides nothing."""
    name = f"{HUB_PAIRS} pairs of hubs, fresh coins in every round"
    hubs = 2 * HUB_PAIRS
    known = _graph([(hub, leaf) for hub in range(hubs) for leaf in range(hubs, hubs + LEAVES)], hubs + LEAVES)
    pairs = np.arange(hubs, dtype=np.int64).reshape(2, HUB_PAIRS)
    auditor, rng = Auditor(known, effort.rng("clusters", name)), effort.rng("coins", name)

    def play() -> dict[str, float]:
        coins = rng.random(HUB_PAIRS) < 0.5
        linked = known.with_edges(np.hstack([known.edge_index, pairs[:, coins]]))
        seed = None if effort.secure else int(rng.integers(2**62))
        seen = _Residuals.of(auditor.ask(stage, trial_job(linked, seed, classes=CLASSES)), pairs)
        return {
            name: float(np.where(code == 0, 0.5, (code > 0) == coins).mean()) for name, code in seen.views().items()
        }

    return Rounds(name, play)


def counts_of_edge(query: Query) -> tuple[float, float]:
    """The two counts that the edge {0, 1} would raise, less what is known."""
    first, second = (0, query.clusters[1]), (1, query.clusters[0])
    return query.vectors[first] - query.expected[first], query.vectors[second] - query.expected[second]
