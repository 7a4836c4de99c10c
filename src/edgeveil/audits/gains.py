"""Does a release beat what can be had without edges? Paired node by node, over nodes and runs, with its error split.

For every candidate the utility of its runs is compared with the edge-free baselines of the same seeds on the same test
nodes. The variance of the mean difference has two parts: test nodes (a node counts once, however many runs tested it)
and runs (weights, noise, split), the latter pooled over candidates, because two or three runs say little by themselves.
A claim is made at level ALPHA / (looks * candidates): Bonferroni over everything that could have been starred.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from edgeveil.graph.graph import Graph
from edgeveil.graph.splits import draw
from edgeveil.metrics.node_scores import node_scores
from edgeveil.runs.details import labelled_nodes, unpacked
from edgeveil.runs.records import Record

__all__ = [
    "ALPHA",
    "LOOKS",
    "MIN_TEST",
    "Gain",
    "Measurement",
    "Spread",
    "gain_rows",
    "gains",
    "measurements",
    "spreads",
]

ALPHA = 0.05
LOOKS = 4
MIN_TEST = 50  # fewer test nodes decide nothing
Float = NDArray[np.float64]
Int = NDArray[np.int64]
Key = tuple[str, float | None]


@dataclass(frozen=True, eq=False)
class Measurement:
    """One run of one release: a score for every test node, whose mean is its utility."""

    key: Key
    seed: int
    nodes: Int
    scores: Float


@dataclass(frozen=True)
class Gain:
    """Utility of a release minus that of the better edge-free baseline, with the interval that looks and candidates
    leave. NaN bounds: one run, or too few test nodes, cannot be judged."""

    defence: str
    epsilon: float | None
    value: float
    low: float
    high: float
    runs: int
    nodes: int
    against: str

    @property
    def helps(self) -> bool:
        """Better than every edge-free baseline, beyond the noise."""
        return self.low > 0

    @property
    def decided(self) -> bool:
        """Beyond the noise on either side."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Spread:
    """Utility of one release with the two parts of its standard error; NaN where it cannot be judged."""

    defence: str
    epsilon: float | None
    value: float
    over_nodes: float
    over_runs: float
    freedom: int

    def interval(self, level: float = ALPHA) -> tuple[float, float]:
        """The two-sided confidence interval that is wrong with probability `level`."""
        if not self.freedom:
            return math.nan, math.nan
        nodes = float(ndtri(1 - level / 2)) * self.over_nodes
        half = math.hypot(nodes, float(stdtrit(self.freedom, 1 - level / 2)) * self.over_runs)
        return self.value - half, self.value + half


def measurements(records: Sequence[Record], graph: Graph, part: str = "test") -> list[Measurement]:
    """What the finished runs said about the nodes of a part of their split."""
    out = []
    for record in records if graph.y is not None else ():
        row, packed = record.rows[0], record.details.get("answers" if part == "test" else f"answers_{part}")
        if packed is None or row.get("utility_metric") is None:
            continue
        assert graph.y is not None
        nodes = _asked(record.config, graph, part)
        said = unpacked(packed, graph.y.shape[1] if graph.multilabel else None)
        scores = node_scores(said, graph.y[nodes], graph.num_classes, row["utility_metric"])
        out.append(Measurement((row["defence"], row["epsilon"]), int(row["seed"] or 0), nodes, scores))
    return out


def _asked(config: Mapping[str, Any], graph: Graph, part: str) -> Int:
    split = config.get("split", "given")
    masks = None if split == "given" else draw(graph, split, config.get("split_seed", 0))
    return labelled_nodes(graph, part, masks)


def gains(found: Sequence[Measurement], candidates: Sequence[Key], looks: int = LOOKS) -> list[Gain]:
    """Every candidate against the edge-free baselines; it must beat each of them, so the smaller gain counts."""
    by_key: dict[Key, dict[int, Measurement]] = {}
    for one in found:
        by_key.setdefault(one.key, {})[one.seed] = one
    bases = {key: runs for key, runs in by_key.items() if key[1] == 0.0}  # no edge was read
    pairs = [(c, b, _differences(by_key[c], bases[b])) for c in candidates if c in by_key for b in bases]
    spread, freedom = _pooled([p for _, _, p in pairs])
    freedom //= max(len(bases), 1)  # a candidate's runs count once, however many baselines they are compared with
    level = ALPHA / (max(looks, 1) * max(len(candidates), 1))
    worst: dict[Key, Gain] = {}
    for candidate, base, part in pairs:
        if part:
            gain = _gain(candidate, base[0], part, spread, freedom, level)
            held = worst.get(candidate)
            if held is None or _order(gain) < _order(held):
                worst[candidate] = gain
    return list(worst.values())


def _order(gain: Gain) -> float:
    return gain.value if math.isnan(gain.low) else gain.low


def _differences(ours: Mapping[int, Measurement], theirs: Mapping[int, Measurement]) -> list[tuple[Int, Float]]:
    return [(ours[s].nodes, ours[s].scores - theirs[s].scores) for s in sorted(ours.keys() & theirs.keys())]


def _pooled(pairs: Sequence[Sequence[tuple[Int, Float]]]) -> tuple[float, int]:
    """Variance of a run's mean difference beyond what its own test nodes explain, over all comparisons, and its
    degrees of freedom. With one fixed test set nothing is taken off: its nodes do not vary from run to run."""
    total, freedom = 0.0, 0
    for part in pairs:
        if len(part) > 1:
            means = np.array([d.mean() for _, d in part])
            redrawn = any(not np.array_equal(part[0][0], nodes) for nodes, _ in part[1:])
            explained = np.mean([d.var() / max(len(d), 1) for _, d in part]) if redrawn else 0.0
            total += (len(part) - 1) * (means.var(ddof=1) - explained)
            freedom += len(part) - 1
    return (max(total / freedom, 0.0) if freedom else math.nan), freedom


def _gain(
    candidate: Key, base: str, part: Sequence[tuple[Int, Float]], spread: float, freedom: int, level: float
) -> Gain:
    runs, size = len(part), min(len(nodes) for nodes, _ in part)
    value = float(np.mean([d.mean() for _, d in part]))
    half = math.nan
    if runs > 1 and size >= MIN_TEST and freedom:
        over_runs = float(stdtrit(freedom, 1 - level)) * math.sqrt(spread / runs)
        half = math.hypot(float(ndtri(1 - level)) * math.sqrt(_over_nodes(part)), over_runs)
    return Gain(*candidate, value, value - half, value + half, runs, size, base)


def _over_nodes(part: Sequence[tuple[Int, Float]]) -> float:
    """Variance of the mean difference over test nodes, each node with all its runs as one draw."""
    nodes = np.concatenate([ids for ids, _ in part])
    shares = np.concatenate([(d - d.mean()) / (len(d) * len(part)) for _, d in part])
    _, place = np.unique(nodes, return_inverse=True)
    sums = np.bincount(place, weights=shares)
    return float(sums @ sums)


def spreads(found: Sequence[Measurement], least: int = MIN_TEST) -> list[Spread]:
    """Every release's utility and its noise, unknown below `least` nodes; that of the runs is pooled over releases."""
    by_key: dict[Key, list[tuple[Int, Float]]] = {}
    for one in found:
        by_key.setdefault(one.key, []).append((one.nodes, one.scores))
    wobble, freedom = _pooled(list(by_key.values()))
    out = []
    for key, part in by_key.items():
        known = len(part) > 1 and min(len(nodes) for nodes, _ in part) >= least
        value = float(np.mean([s.mean() for _, s in part]))
        nodes, over_runs = (math.sqrt(_over_nodes(part)), math.sqrt(wobble / len(part))) if known else (math.nan,) * 2
        out.append(Spread(*key, value, nodes, over_runs, freedom if known else 0))
    return out


def gain_rows(found: Sequence[Gain] | Sequence[Spread]) -> list[dict[str, Any]]:
    """Plain dictionaries for a file; bounds that are not known are None."""
    rows = [asdict(g) for g in found]
    return [{k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows]
