"""The only question LPGNet asks of a private graph: noisy cluster-degree vectors (LPGNet Alg. 4).

Counts have L1 sensitivity 2 per undirected edge (`edgeveil.graph.cluster_degrees`), so Laplace noise of scale
2/epsilon on every count makes one query epsilon-differentially private. Counts are whole numbers, hence the default
noise is the discrete Laplace law with the same ratio, which can be drawn exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.cluster_degrees import SENSITIVITY, local_cluster_degrees
from edgeveil.privacy.budget import exact
from edgeveil.privacy.noise import Noise, noise_for

__all__ = ["SLICES", "DegreeNoise", "NoiseLaw", "degree_noise", "fill_empty", "local_report", "noise_scale"]

NoiseLaw = Literal["discrete", "continuous"]
Vectors = NDArray[np.float64]
SLICES = 5


@dataclass(frozen=True)
class DegreeNoise:
    """The noise of one query: its law and scale, as a read-out model needs to know them. Scale 0 is no noise."""

    law: NoiseLaw
    scale: float


def noise_scale(epsilon: Fraction | float) -> Fraction:
    """Scale of the noise that makes one query cost `epsilon`: sensitivity 2 over epsilon; 0 for an infinite epsilon."""
    if isinstance(epsilon, float) and math.isinf(epsilon):
        return Fraction(0)
    return SENSITIVITY / exact(epsilon)


def degree_noise(noise: Noise, law: NoiseLaw, scale: Fraction, shape: tuple[int, int], *, slices: int = 1) -> Vectors:
    """Independent noise for every node and cluster.

    `slices` > 1 repeats the noise of the first n/slices nodes for the others, as the published code did because a
    random generator was copied into its worker processes. That is not private.
    """
    rows = -(-shape[0] // slices)
    size = rows * shape[1]
    if scale == 0:
        return np.zeros(shape)
    flat: Any = noise.discrete_laplace(scale, size) if law == "discrete" else noise.laplace(float(scale), size)
    block = np.asarray(flat, np.float64).reshape(rows, shape[1])
    return block if slices == 1 else np.tile(block, (slices, 1))[: shape[0]]


def fill_empty(vectors: Vectors, rng: np.random.Generator) -> Vectors:
    """Published habit: a vector that is all zero gets a 1 at a random cluster."""
    out = vectors.copy()
    empty = np.flatnonzero(~out.any(axis=1))
    out[empty, rng.integers(0, out.shape[1], len(empty))] = 1.0
    return out


def local_report(
    neighbours: Iterable[int], clusters: Any, num_clusters: int, epsilon: float, seed: int | None = None
) -> NDArray[np.int64]:
    """What one node sends in the local deployment (LPGNet section 6): its own noisy vector, for one layer.

    The node needs its neighbour list and the public clusters of all nodes, nobody needs the graph. Both ends of an
    edge report it, each with a change of 1 and noise of scale 2/epsilon: one report costs epsilon/2 for an entry of a
    neighbour list, the two reports together epsilon for one undirected edge, the same as the central query.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(f"a local report needs a finite epsilon > 0, got {epsilon!r}")
    counts = local_cluster_degrees(neighbours, clusters, num_clusters)
    return counts + noise_for(seed).discrete_laplace(noise_scale(epsilon), num_clusters)
