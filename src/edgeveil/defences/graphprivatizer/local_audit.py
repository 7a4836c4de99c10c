"""How `edgeveil verify` looks at local mechanisms: the noisy list of one node on tiny graphs, and swapped edges.

The published claims are about lists of one length that differ in one entry (GraphPrivatizer Def. 4.1). The tiny graphs
differ in whom node 0 lists; what is looked at is node 0's noisy list alone, which is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.graphprivatizer.replacement import Candidates, Lists
from edgeveil.defences.job import Job
from edgeveil.defences.trial import trial_job
from edgeveil.graph.graph import Graph
from edgeveil.privacy.experiments import Claim, Coins, Effort, Experiment, Neighbours, OtherUnit, Sight, Stated, Views
from edgeveil.privacy.noise import Noise, noise_for
from edgeveil.seeds import Seed

__all__ = [
    "ALIKE",
    "CountsCertain",
    "edge_or_none",
    "entry_neighbours",
    "node_data",
    "one_entry_apart",
    "options_of",
    "planted_alike",
    "repeated",
    "rewired",
    "swapped_edges",
]

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Weigh = Callable[[Int, Int], Float]
Sent = Callable[[Job], tuple[Sequence[Any], Stated]]
"""The noisy lists (CSR) that one release shows, or a release and its renewal, and what is stated for them."""
ALIKE = 0.1  # share of alike nodes among all
CELLS = 4  # features of a node


@runtime_checkable
class CountsCertain(Protocol):
    """A mechanism that can say how much of a graph it releases with certainty."""

    def certain_entries(self, graph: Graph, seed: Seed = None) -> dict[str, int]:
        """Entries and edges that no noise touches, and why."""
        ...


def _tiny(edges: list[tuple[int, int]], x: NDArray[Any], name: str) -> Graph:
    return Graph.from_edges(np.array(edges).T, x=x, y=np.zeros(len(x), np.int64), num_classes=1, name=name)


def one_entry_apart() -> list[tuple[str, Graph, Graph]]:
    """Node 0 lists 1 or 3; all nodes have equal features, so any neighbour is similar enough."""
    x = np.ones((5, 2), np.float32)
    first = _tiny([(0, 1), (1, 2), (3, 4)], x, "0 lists 1")
    second = _tiny([(0, 3), (1, 2), (3, 4)], x, "0 lists 3")
    return [("the list of node 0 is {1} or {3}, edges 1-2 and 3-4 in both", first, second)]


def rewired() -> list[tuple[str, Graph, Graph]]:
    """Edge 0-1 against 0 and 1 linked elsewhere, in two groups of alike nodes."""
    x = np.zeros((8, 2), np.float32)
    x[[0, 1, 4, 5], 0] = 1.0
    x[[2, 3, 6, 7], 1] = 1.0
    first = _tiny([(0, 1), (2, 3)], x, "0-1")
    second = _tiny([(0, 2), (1, 3)], x, "0-2, 1-3")
    return [("edge 0-1, or 0 and 1 list nodes 2 and 3 instead", first, second)]


def edge_or_none() -> list[tuple[str, Graph, Graph]]:
    """An edge that is there or not, between two alike nodes among others: filling hardly ever names their kind."""
    x = np.eye(2, dtype=np.float32)[[0] * 2 + [1] * 22]
    pair, rest = [(0, 1)], [(2, 3), (4, 5)]
    first, second = (Graph.from_edges(np.array(e).T, x, num_nodes=len(x)) for e in (pair + rest, rest))
    return [("edge 0-1 or none, 24 nodes", first, second)]


def repeated(candidates: Candidates, lists: Lists, node: int, runs: int) -> tuple[Candidates, Int]:
    """The entries of one node's list, `runs` times over: as candidates and as columns [runs * degree]."""
    own = np.arange(lists.indptr[node], lists.indptr[node + 1])
    at = np.tile(own, runs)
    many = Candidates(candidates.pool, candidates.start[at], candidates.count[at], candidates.skip[at])
    return many, lists.column[at]


def options_of(candidates: Candidates, lists: Lists, node: int) -> set[tuple[int, ...]]:
    """Every noisy list of a node that has positive probability, as sorted tuples; for short lists."""
    options = []
    for entry in range(int(lists.indptr[node]), int(lists.indptr[node + 1])):
        pick = np.arange(candidates.count[entry])
        pick += (candidates.skip[entry] >= 0) & (pick >= candidates.skip[entry])
        options.append([int(lists.column[entry]), *map(int, candidates.pool[candidates.start[entry] + pick])])
    return {tuple(sorted(set(chosen))) for chosen in product(*options)}


def entry_neighbours(
    cases: list[tuple[str, Graph, Graph]],
    draw: Callable[[Graph, Noise, int], list[tuple[int, ...]]],
    effort: Effort,
    reachable: Callable[[Graph, tuple[int, ...]], bool] | None = None,
) -> Neighbours:
    """Noisy entries drawn many times over; entries are noised one by one, so a batch is as good as as many runs."""
    ((name, *graphs),) = cases
    noises = [noise_for(None if effort.secure else effort.rng("noise", name, side)) for side in (0, 1)]

    def sample(side: int, count: int) -> Views:
        return {"output": draw(graphs[side], noises[side], count)}

    def possible(side: int, code: Hashable) -> bool:
        assert reachable is not None and isinstance(code, tuple)
        return reachable(graphs[side], code)

    return Neighbours(name, sample, None if reachable is None else possible)


def swapped_edges(name: str, sent: Sent, effort: Effort) -> Coins:
    """Many groups of four nodes a, b, c, d in a graph: a coin links a-b and c-d, or a-c and b-d; degrees stay.

    Looked at are the lists of a and b alone: two entries, those of the edge a-b. Nodes a and b are alike, c and d are.
    """

    def see() -> Sight:
        groups = max(2, effort.canaries // 5)
        coins = effort.rng("coins", name).random(groups) < 0.5
        a, b, c, d = np.arange(4 * groups).reshape(groups, 4).T
        ends = [np.concatenate([a, np.where(coins, c, b)]), np.concatenate([np.where(coins, b, c), d])]
        graph = Graph.from_edges(np.array(ends), np.tile(np.eye(2, dtype=np.float32)[[0, 0, 1, 1]], (groups, 1)))
        shown, stated = sent(trial_job(graph, effort.noise_seed(name)))
        alike = np.isin(np.arange(4 * groups) % 4, (0, 1))
        code = np.zeros(4 * groups, np.int64)
        for directed in shown:
            lists, kinds = directed.tocoo(), np.zeros((4 * groups, 2), np.int64)
            kinds[lists.row, np.where(alike[lists.col], 0, 1)] = 1
            code = 4 * code + kinds @ np.array([1, 2])
        return Sight(coins, {"kinds of nodes in the lists": code[a] + 4 ** len(shown) * code[b]}, stated=stated)

    return Coins(name, see, inserted=False)


def node_data(
    collect: Callable[[Job], Any], effort: Effort, features: tuple[float, str], label: tuple[float, str]
) -> list[Experiment]:
    """What nodes send of themselves, through the release's own step: a coin decides on a node's features or label.

    `features` and `label` are the promised epsilon (infinite: nothing is promised) and its unit.
    """

    def looks(part: str) -> Callable[[], Sight]:
        def see() -> Sight:
            name = f"{part} of nodes by coin"
            coins = effort.rng("coins", name).random(max(4, effort.canaries)) < 0.5
            x = np.repeat(coins[:, None], CELLS, axis=1).astype(np.float32)
            x[0], x[1] = 0.0, 1.0  # the column range is public; these two coins are known
            ends = np.arange(2 * (len(coins) // 2)).reshape(2, -1)
            graph = Graph.from_edges(ends, x, coins.astype(np.int64), num_nodes=len(coins), num_classes=2)
            sent = collect(replace(trial_job(graph, effort.noise_seed(name)), graph=graph, inference=graph))
            told = np.asarray(sent.features.toarray() > 0.5).sum(axis=1) if part == "features" else np.asarray(sent.y)
            return Sight(coins[2:], {part: told[2:].astype(np.int64)})

        return see

    return [
        OtherUnit(Claim(epsilon, 0.0, unit), Coins(f"{part} of nodes by coin", looks(part), inserted=False))
        for part, (epsilon, unit) in (("features", features), ("label", label))
        if not math.isinf(epsilon)
    ]


def planted_alike(name: str, sent: Sent, weigh: Weigh, effort: Effort, graphs: int) -> Coins:
    """Many pairs of alike nodes among nine times as many others, linked by coin, in `graphs` graphs of their own.

    `weigh` says what a list tells: the log-likelihood ratio of "its node has the edge" against "it has none", given
    its length and how many alike nodes it names. An edge shows in both lists, so the two add up. The telling outputs
    (two lists with one alike entry each) are rare, which is why there are more coins than elsewhere.
    """

    def see() -> Sight:
        rng, pairs = effort.rng("coins", name), max(4, effort.canaries)
        coins = rng.random((graphs, pairs)) < 0.5
        told = [_alike_lists(sent, weigh, row, effort.noise_seed(name, turn)) for turn, row in enumerate(coins)]
        lengths, weight = (np.concatenate(part) for part in list(zip(*told, strict=True))[:2])
        step = np.abs(weight).max() / 16 or 1.0
        views = {
            "lengths of the lists": np.minimum(lengths, 20),
            "likelihood of the lists": np.floor(weight / step).astype(np.int64),
        }
        return Sight(coins.ravel(), views, stated=reduce(Stated.least, (said for _, _, said in told)))

    return Coins(name, see)


def _alike_lists(sent: Sent, weigh: Weigh, coins: NDArray[np.bool_], seed: int | None) -> tuple[Int, Float, Stated]:
    """Per pair: the lengths of its lists, added, and what they tell; and what is stated."""
    pairs = len(coins)
    nodes, ends = round(2 * pairs / ALIKE), np.arange(2 * pairs).reshape(pairs, 2)
    alike = np.arange(nodes) < 2 * pairs
    x = np.eye(2, dtype=np.float32)[alike.astype(int)]
    shown, stated = sent(trial_job(Graph.from_edges(ends[coins].T, x, num_nodes=nodes), seed))
    lengths, told = np.zeros(nodes, np.int64), np.zeros(nodes)
    for directed in shown:
        lists = directed.tocoo()
        own = np.bincount(lists.row, alike[lists.col], nodes).astype(np.int64)
        length = np.bincount(lists.row, minlength=nodes)
        lengths, told = lengths + length, told + weigh(length, own)
    return lengths[ends].sum(axis=1), told[ends].sum(axis=1), stated
