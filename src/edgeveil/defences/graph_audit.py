"""Experiments on mechanisms that release a noisy graph: planted pairs on several graphs, and tiny neighbours.

The auditor knows every edge but the ones in question. Planted pairs are dense enough that the audited epsilon shows
(`matched_nodes`); tiny neighbours show whatever else the output depends on, above all the number of edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.job import Job, Setting
from edgeveil.defences.trial import trial_job
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs, sample_distinct
from edgeveil.graph.upper_triangle import has_pairs
from edgeveil.privacy.canaries import (
    Canaries,
    degree_strata,
    heavy_tailed_graph,
    matched_nodes,
    plant_pairs,
    synthetic_graph,
)
from edgeveil.privacy.experiments import Coins, Effort, Experiment, Neighbours, Sight, Views

__all__ = ["Design", "NoiseStage", "NoisyGraphs", "graph_experiments", "heavy_design", "neighbouring_graphs"]

Int = NDArray[np.int64]
DENSE_NODES = 2_000
VIEWS = (
    "pair itself",
    "output",
    "pair with the number of edges",
    "pair with the degrees of its ends",
    "likeness of the two outputs",
)


class NoisyGraphs(Protocol):
    """What the noise stage of a graph mechanism hands to training."""

    @property
    def train(self) -> Graph:
        """The noisy training graph."""
        ...

    @property
    def inference(self) -> Graph:
        """The noisy graph that answers."""
        ...


NoiseStage = Callable[[Job], NoisyGraphs]


class Design(NamedTuple):
    """A graph without planted pairs, and how many to plant in it."""

    known: Graph
    canaries: int


def graph_experiments(stage: NoiseStage, epsilon: float, effort: Effort) -> list[Experiment]:
    """All experiments; the last ones look at the streams of a seeded run even where the noise itself is secure."""
    coins = partial(_coins, stage, effort)
    flat, heavy = partial(_flat, epsilon, effort), partial(heavy_design, epsilon, effort)
    found: list[Experiment] = [
        coins("planted pairs, flat graph", flat, _one_graph, effort.secure),
        coins("planted pairs, dense graph", partial(_dense, epsilon, effort), _one_graph, effort.secure),
        coins("planted pairs, heavy-tailed graph that grows", heavy, _growing, effort.secure),
        coins("planted pairs, heavy-tailed graph beside another", heavy, _two_graphs, effort.secure),
    ]
    if effort.secure:
        found.append(coins("planted pairs beside another graph, seeded streams", heavy, _two_graphs, False))
    if effort.graph is not None:
        own = partial(_own, effort.graph, effort)
        found.append(coins(f"planted pairs in {effort.graph.name}", own, _one_graph, effort.secure))
    for number, (name, first, second, pair) in enumerate(neighbouring_graphs()):
        beside = first if number == 0 else None
        found.append(Neighbours(name, _sampler(stage, effort, name, (first, second), pair, beside)))
    return found


# -- planted pairs ----------------------------------------------------------------------------------------------------


def _flat(epsilon: float, effort: Effort) -> Design:
    return Design(synthetic_graph(matched_nodes(epsilon, effort.canaries // 2), 0), effort.canaries)


def _dense(epsilon: float, effort: Effort) -> Design:
    """The mirror image of the flat graph: all other pairs are edges, so that a missing one tells most."""
    n = min(matched_nodes(epsilon, effort.canaries // 2), max(DENSE_NODES, 2 * math.isqrt(effort.canaries) + 2))
    free = sample_distinct(num_pairs(n), min(effort.canaries, num_pairs(n)), effort.rng("dense"))
    edges = np.delete(np.arange(num_pairs(n)), free)
    return Design(synthetic_graph(n, 0).with_edge_ranks(edges, name="dense synthetic"), len(free))


def heavy_design(epsilon: float, effort: Effort) -> Design:
    """A third of the edges is known and has hubs."""
    base = effort.canaries // 4
    nodes = matched_nodes(epsilon, base + effort.canaries // 2)
    return Design(heavy_tailed_graph(nodes, base, effort.seed), effort.canaries)


def _own(graph: Graph, effort: Effort) -> Design:
    return Design(graph, min(effort.canaries, max(graph.num_edges, 100)))


def _coins(
    stage: NoiseStage,
    effort: Effort,
    name: str,
    design: Callable[[], Design],
    look: Callable[[NoiseStage, Canaries, int | None], dict[str, Int]],
    secure: bool,
) -> Coins:
    seed = replace(effort, secure=secure).noise_seed(name)

    def see() -> Sight:
        known, count = design()
        planted = plant_pairs(known, count, effort.rng("coins", name))
        return Sight(planted.coins, look(stage, planted, seed), [degree_strata(known, planted.pairs)])

    return Coins(name, see)


def _shown(graph: Graph, planted: Canaries) -> Int:
    return has_pairs(graph, *planted.pairs).astype(np.int64)


def _one_graph(stage: NoiseStage, planted: Canaries, seed: int | None) -> dict[str, Int]:
    return {"pair itself": _shown(stage(trial_job(planted.graph, seed)).inference, planted)}


def _growing(stage: NoiseStage, planted: Canaries, seed: int | None) -> dict[str, Int]:
    """All edges are old ones, so that each stands in the training and in the inference graph."""
    noisy = stage(trial_job(planted.graph, seed, setting="inductive-evolving"))
    inside, later = (_shown(g, planted) for g in (noisy.train, noisy.inference))
    return {"pair in the last graph": later, "pair in both graphs": inside + 2 * later}


def _two_graphs(stage: NoiseStage, planted: Canaries, seed: int | None) -> dict[str, Int]:
    """The other graph is known to the auditor: whatever noise it shows must say nothing about this one."""
    n = planted.graph.num_nodes
    other = synthetic_graph(n, min(planted.graph.num_edges, n * (n - 1) // 4))
    noisy = stage(trial_job(planted.graph, seed, inference=other, setting="inductive-different"))
    lied = _shown(noisy.inference, planted) ^ _shown(other, planted)
    mine = _shown(noisy.train, planted)
    return {"pair itself": mine, "pair and the lie about it in the other graph": mine + 2 * lied}


# -- tiny neighbours --------------------------------------------------------------------------------------------------


def neighbouring_graphs() -> list[tuple[str, Graph, Graph, tuple[int, int]]]:
    """Pairs of graphs that differ in one edge, and that edge."""
    path, full = [(0, 1), (1, 2), (2, 3)], [(u, v) for u in range(5) for v in range(u)]
    return [
        ("4 nodes, path or broken path, beside the path", _graph(path, 4), _graph([path[0], path[2]], 4), (1, 2)),
        ("6 nodes, one edge or none", _graph([(0, 1)], 6), _graph([], 6), (0, 1)),
        ("5 nodes, complete or one edge less", _graph(full, 5), _graph(full[1:], 5), (0, 1)),
    ]


def _graph(edges: list[tuple[int, int]], n: int) -> Graph:
    return Graph.from_edges(np.array(edges, np.int64).reshape(-1, 2).T, num_nodes=n, name=f"{n} nodes")


def _sampler(
    stage: NoiseStage,
    effort: Effort,
    name: str,
    graphs: tuple[Graph, Graph],
    pair: tuple[int, int],
    beside: Graph | None,
) -> Callable[[int, int], Views]:
    """`beside`: train on one of the graphs, answer on this known one, and look at both outputs."""
    kind: Setting = "transductive" if beside is None else "inductive-different"
    jobs = [trial_job(g, None, inference=beside, setting=kind) for g in graphs]
    rngs = [effort.rng("noise", name, side) for side in (0, 1)]

    def sample(side: int, count: int) -> Views:
        outputs: dict[str, list[Hashable]] = {view: [] for view in VIEWS}
        for _ in range(count):
            seed = None if effort.secure else int(rngs[side].integers(2**62))
            noisy = stage(replace(jobs[side], seed=seed))
            for view, code in zip(VIEWS, _codes(noisy.train, pair), strict=False):
                outputs[view].append(code)
            outputs[VIEWS[-1]].append(beside is not None and noisy.train == noisy.inference)
        return outputs

    return sample


def _codes(noisy: Graph, pair: tuple[int, int]) -> tuple[Hashable, ...]:
    shown, degrees = bool(noisy.has_edges(*pair)[0]), noisy.degrees
    whole = noisy.indptr.tobytes() + noisy.indices.tobytes()
    return shown, whole, (shown, noisy.num_edges), (shown, int(degrees[pair[0]]), int(degrees[pair[1]]))
