"""How `edgeveil verify` looks at local mechanisms: the noisy list of one node on tiny graphs, and planted edges.

The published claims are about lists of one length that differ in one entry (GraphPrivatizer Def. 4.1). The tiny graphs
differ in whom node 0 lists; what is looked at is node 0's noisy list alone, which is post-processing.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.replacement import Candidates, Lists
from edgeveil.graph.graph import Graph
from edgeveil.seeds import Seed, as_generator

__all__ = ["canary_scores", "one_entry_apart", "options_of", "repeated", "rewired"]

Int = NDArray[np.int64]


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


def canary_scores(mechanism: Any, graph: Graph, pairs: Int, rng: Seed) -> NDArray[np.float64]:
    """How often a planted pair shows up in the two noisy lists (1, 2), or -1 for never.

    A graph without features gets random ones, as the methods compare nodes by theirs.
    """
    if graph.x is None:
        graph = graph.with_features(as_generator(rng).random((graph.num_nodes, 16), np.float32))
    sent = mechanism.perturb(graph, seed=rng)
    shown = np.asarray(sent.directed[pairs[0], pairs[1]] + sent.directed[pairs[1], pairs[0]], np.float64).ravel()
    return np.where(shown > 0, shown, -1.0)
