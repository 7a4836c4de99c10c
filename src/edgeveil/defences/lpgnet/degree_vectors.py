"""The only question LPGNet asks of a private graph: noisy cluster-degree vectors (LPGNet Alg. 4).

Counts have L1 sensitivity 2 per undirected edge (`edgeveil.graph.cluster_degrees`), so Laplace noise of scale
2/epsilon on every count makes one query epsilon-differentially private. Counts are whole numbers, hence the default
noise is the discrete Laplace law with the same ratio, which can be drawn exactly. Its L2 sensitivity is the root of 2,
smaller than 2, for which Gaussian noise pays off when many queries are composed (`edgeveil.privacy.gaussian`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.cluster_degrees import (
    CELLS,
    SENSITIVITY,
    check_clusters,
    cluster_degrees_from_file,
    local_cluster_degrees,
)
from edgeveil.graph.edge_chunks import CHUNK
from edgeveil.privacy.budget import Budget, Charge, Gaussian, check_epsilon, exact
from edgeveil.privacy.charges import make_gaussian
from edgeveil.privacy.noise import Noise, noise_for
from edgeveil.seeds import Seed, derive

__all__ = [
    "SLICES",
    "DegreeNoise",
    "NoiseLaw",
    "QueryCost",
    "ask",
    "degree_noise",
    "fill_empty",
    "local_report",
    "noise_scale",
    "noisy_degrees_from_file",
    "query_cost",
]

NoiseLaw = Literal["discrete", "continuous", "gaussian"]
QueryCost = Fraction | float | Gaussian
"""What one query costs: a pure epsilon (infinite: no noise), or the terms of Gaussian noise."""
Vectors = NDArray[np.float64]
SLICES = 5


@dataclass(frozen=True)
class DegreeNoise:
    """The noise of one query: its law and scale, as a read-out model needs to know them. Scale 0 is no noise."""

    law: NoiseLaw
    scale: float


def noise_scale(epsilon: QueryCost) -> Fraction:
    """Scale of the noise of one query: sensitivity 2 over epsilon, 0 for an infinite epsilon, sigma if Gaussian."""
    if isinstance(epsilon, Gaussian):
        return epsilon.scale
    if isinstance(epsilon, float) and math.isinf(epsilon):
        return Fraction(0)
    return SENSITIVITY / exact(epsilon)


def query_cost(budget: Budget, queries: int, law: NoiseLaw) -> QueryCost:
    """Cost of each of so many equal queries on one edge set: a share of the cap, or Gaussian noise that fits it."""
    if budget.unlimited:
        return math.inf
    if law == "gaussian":
        return make_gaussian(budget.gaussian_scale(queries, cells=CELLS), Fraction(CELLS), cells=CELLS)
    return budget.cap / queries


def ask(budget: Budget, cost: QueryCost, what: str, on: str) -> None:
    """Charge one query before it runs."""
    if isinstance(cost, Gaussian):
        budget.enter(Charge(what, None, on, cost))
    else:
        budget.spend(cost, what, on=on)


def degree_noise(noise: Noise, law: NoiseLaw, scale: Fraction, shape: tuple[int, int], *, slices: int = 1) -> Vectors:
    """Independent noise for every node and cluster.

    `slices` > 1 repeats the noise of the first n/slices nodes for the others, as the published code did because a
    random generator was copied into its worker processes. That is not private.
    """
    rows = -(-shape[0] // slices)
    size = rows * shape[1]
    if scale == 0:
        return np.zeros(shape)
    flat: Any
    if law == "continuous":
        flat = noise.laplace(float(scale), size)
    else:
        flat = (noise.discrete_gaussian if law == "gaussian" else noise.discrete_laplace)(scale, size)
    block = np.asarray(flat, np.float64).reshape(rows, shape[1])
    return block if slices == 1 else np.tile(block, (slices, 1))[: shape[0]]


def fill_empty(vectors: Vectors, rng: np.random.Generator) -> Vectors:
    """Published habit: a vector that is all zero gets a 1 at a random cluster."""
    out = vectors.copy()
    empty = np.flatnonzero(~out.any(axis=1))
    out[empty, rng.integers(0, out.shape[1], len(empty))] = 1.0
    return out


def noisy_degrees_from_file(
    path: str | Path,
    clusters: Any,
    num_clusters: int,
    epsilon: float | Fraction,
    budget: Budget,
    *,
    on: str = "graph",
    seed: Seed = None,
    chunk: int = CHUNK,
) -> NDArray[np.int64]:
    """Noisy degree vectors of an edge file, charged to `budget` before the file is opened: one layer's query.

    `on` names the edge set that pays; files that may share an edge must share the name. The noise is discrete, from
    operating-system entropy unless seeded, and seeded noise is not private.
    """
    check_epsilon(epsilon)
    known = check_clusters(clusters, np.size(clusters), num_clusters)
    budget.spend(epsilon, f"cluster-degree vectors of {Path(path).name}", on=on)
    counts = cluster_degrees_from_file(path, known, num_clusters, chunk)
    noise = noise_for(seed).discrete_laplace(noise_scale(epsilon), counts.size)
    return counts + np.asarray(noise, np.int64).reshape(counts.shape)


def local_report(
    neighbours: Iterable[int],
    clusters: Any,
    num_clusters: int,
    epsilon: float,
    seed: int | None = None,
    *,
    node: int | None = None,
    layer: int = 1,
) -> NDArray[np.int64]:
    """What one node sends in the local deployment (LPGNet section 6): its own noisy vector, for one layer.

    The node needs its neighbour list and the public clusters of all nodes, nobody needs the graph. Both ends of an
    edge report it, each with a change of 1 and noise of scale 2/epsilon: one report costs epsilon/2 for an entry of a
    neighbour list, the two reports together epsilon for one undirected edge, the same as the central query. Every
    layer is another report and costs its own epsilon.

    `seed` is for experiments, where one seed serves all nodes: `node` and `layer` then name the stream of this report.
    """
    check_epsilon(epsilon)
    if seed is not None and node is None:
        raise InputError(
            "a seeded report needs node= (this node's number): with one seed all nodes would add the same noise, "
            "which cancels; drop the seed for a real report"
        )
    counts = local_cluster_degrees(neighbours, clusters, num_clusters)
    stream = None if seed is None or node is None else derive(seed, "local report", int(node), layer)
    return counts + noise_for(stream).discrete_laplace(noise_scale(epsilon), num_clusters)
