"""Named splits: stored ones (``public``, ``0`` .. ``9``) by name, random ones drawn from a rule and a seed.

Rules: ``a:b:c`` shares of all labelled nodes for training, validation and test; ``a:b`` for training and validation
only; ``k-per-class`` takes k nodes of every class, then 500 for validation and 1,000 for test (LPGNet, App. B).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import GraphError, InputError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Split
from edgeveil.registry import canonical
from edgeveil.seeds import stream

__all__ = ["ALIASES", "apply_split", "draw", "training_graph"]

ALIASES = {
    "lpgnet-text": "20-per-class",  # LPGNet App. B, for Facebook
    "lpgnet-code": "64:16:20",  # what its public code draws for Facebook
    "evolving": "50:25:25",  # Flickr: training uses the part of the graph known so far, inference the whole
    "lpgnet-bipartite": "35:15:50",  # LPGNet App. C.3: halves, 30 % of the training half validate
}
_RATIO = re.compile(r"\d+(\.\d+)?(:\d+(\.\d+)?){1,2}")
_PER_CLASS = re.compile(r"(\d+)-per-class(?:/(\d+)/(\d+))?")
_VAL, _TEST = 500, 1000

Int = NDArray[np.int64]


def apply_split(graph: Graph, split: str | int, seed: int = 0) -> Graph:
    """The graph with that split active: a stored one, or one drawn now and registered under its name."""
    name = canonical(str(split))
    if name in graph.splits:
        return graph.with_split(name)
    return graph.with_split(name, draw(graph, name, seed))


def draw(graph: Graph, split: str, seed: int = 0) -> Split:
    """Draw a split by rule; the same seed gives the same split."""
    name = canonical(split)
    rule = ALIASES.get(name, name)
    rng = stream(seed, "split", rule)
    if _RATIO.fullmatch(rule):
        return _by_ratio(graph, rule, rng)
    match = _PER_CLASS.fullmatch(rule)
    if match:
        k, val, test = (int(g) if g else d for g, d in zip(match.groups(), (0, _VAL, _TEST), strict=True))
        return _per_class(graph, k, val, test, rng)
    rules = ["50:25:25", "64:16:20", "80:20", "20-per-class", *ALIASES]
    raise UnknownNameError(f"split of {graph.name!r}", split, [*graph.splits, *rules])


def _labelled(graph: Graph) -> Int:
    if graph.y is None or graph.y.ndim == 2:
        return np.arange(graph.num_nodes)
    return np.flatnonzero(graph.y >= 0)


def _masks(n: int, parts: Iterable[Int]) -> Split:
    masks = []
    for nodes in parts:
        mask = np.zeros(n, dtype=bool)
        mask[nodes] = True
        masks.append(mask)
    return Split(*masks)


def _by_ratio(graph: Graph, rule: str, rng: np.random.Generator) -> Split:
    shares = [float(part) for part in rule.split(":")]
    if shares[0] <= 0:
        raise InputError(f"split {rule!r} gives training nothing; the first share must be positive")
    nodes = rng.permutation(_labelled(graph))
    ends = [round(len(nodes) * end / sum(shares)) for end in np.cumsum(shares)]
    if ends[0] == 0:
        raise GraphError(
            f"split {rule!r} leaves no training node among {len(nodes)} labelled nodes; raise its first share"
        )
    train, val, *rest = np.split(nodes, ends[:-1])
    return _masks(graph.num_nodes, (train, val, rest[0] if rest else nodes[:0]))


def _per_class(graph: Graph, k: int, val: int, test: int, rng: np.random.Generator) -> Split:
    rule = f"{k}-per-class"
    if graph.y is None or graph.y.ndim == 2:
        raise GraphError(f"split {rule!r} needs one class per node, which {graph.name!r} does not have; use 50:25:25")
    if k < 1:
        raise InputError(f"split {rule!r} gives training nothing; take at least 1 per class")
    order = rng.permutation(_labelled(graph))
    chosen = []
    for label in range(graph.num_classes):
        members = order[graph.y[order] == label]
        if len(members) < k:
            raise GraphError(
                f"split {rule!r} needs {k} nodes of every class, but class {label} of {graph.name!r} has "
                f"{len(members)}; lower the number or use 50:25:25"
            )
        chosen.append(members[:k])
    train = np.concatenate(chosen)
    rest = order[~np.isin(order, train)]
    if len(rest) < val + test:
        raise GraphError(
            f"split {rule!r} needs {val} validation and {test} test nodes besides the {len(train)} for training, "
            f"but {graph.name!r} has only {len(rest)} left; use 50:25:25"
        )
    return _masks(graph.num_nodes, (train, rest[:val], rest[val : val + test]))


def training_graph(graph: Graph, parts: tuple[str, ...] = ("train", "val")) -> Graph:
    """The same nodes with only the edges among the nodes of these parts: what an evolving graph showed at training.

    LPGNet keeps training and validation nodes, LinkTeller training nodes only.
    """
    if graph.masks is None:
        raise GraphError(f"{graph.name!r} has no active split; choose one with split=")
    known = np.zeros(graph.num_nodes, dtype=bool)
    for part in parts:
        if part not in graph.masks._fields:
            raise UnknownNameError("part of a split", part, graph.masks._fields)
        known |= getattr(graph.masks, part)
    u, v = graph.edge_index
    return graph.with_edge_ranks(graph.edge_ranks[known[u] & known[v]])
