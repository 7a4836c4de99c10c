"""Public buckets of similar nodes, from features alone: no edge is read, so no epsilon is spent on them.

Features are embedded by a truncated SVD (seeded, deterministic), centred and scaled to unit length, then clustered by
k-means. The number of buckets and the split of the budget are chosen by a figure that also needs features only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.defences.graphprivatizer.similarity import Vectors
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.seeds import stream

__all__ = ["Plan", "choose_plan", "embed", "expected_likeness", "k_means"]

Int = NDArray[np.int64]
Float = NDArray[np.float64]
WIDTH = 32
COUNTS = (2, 4, 8, 16, 32, 64, 128)
SHARES = (1.0, 0.75, 0.5, 0.25)


def embed(x: FeatureMatrix, width: int = WIDTH) -> Float:
    """Unit vectors [n, width]: the leading left singular directions of the centred features, row by row."""
    vectors = Vectors.of(_weighted(x))
    n, features = vectors.values.shape
    width = min(width, features, n)
    rng = stream(0, "public buckets")
    basis = rng.standard_normal((features, width))
    for _ in range(4):
        basis, _ = np.linalg.qr(_transposed(vectors, np.linalg.qr(_times(vectors, basis))[0]))
    out = _times(vectors, basis)
    length = np.linalg.norm(out, axis=1, keepdims=True)
    return np.asarray(np.divide(out, length, out=np.zeros_like(out), where=length > 0))


def _weighted(x: FeatureMatrix) -> FeatureMatrix:
    """Bags of words with rare words weighing more (inverse document frequency); other features as they are."""
    if not x.is_sparse or x.shift is not None or (x.values.data < 0).any():
        return x
    filled = np.bincount(x.values.indices, minlength=x.shape[1])
    weight = np.log((1 + x.shape[0]) / (1 + filled)) + 1
    length = np.sqrt(np.asarray((x.values @ sp.diags(weight)).power(2).sum(axis=1)).ravel())
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    return FeatureMatrix((sp.diags(scale) @ x.values @ sp.diags(weight)).tocsr())


def _times(v: Vectors, m: Float) -> Float:
    """Centred features times m."""
    out = np.asarray(v.values @ m, np.float64)
    if v.shift is not None:
        out = out - np.outer(v.column, v.shift @ m)
    return np.asarray(out - out.mean(axis=0))


def _transposed(v: Vectors, q: Float) -> Float:
    """Transposed centred features times q."""
    q = q - q.mean(axis=0)
    out = np.asarray(v.values.T @ q, np.float64)
    return out if v.shift is None else out - np.outer(v.shift, v.column @ q)


def k_means(points: Float, count: int, rounds: int = 20) -> Int:
    """Bucket of every point; k-means++ start from a fixed public seed, never an empty bucket."""
    n = len(points)
    if not 1 <= count <= n:
        raise InputError(f"cannot form {count} buckets of {n} nodes; choose between 1 and {n}")
    rng = stream(0, "public buckets", count)
    centres = _spread(points, count, rng)
    squares = (points**2).sum(axis=1)
    bucket = np.zeros(n, np.int64)
    for _ in range(rounds):
        gap = squares[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
        new = gap.argmin(axis=1)
        _fill(new, gap, count)
        if np.array_equal(new, bucket):
            break
        bucket = new
        total = sp.csr_matrix((np.ones(n), (bucket, np.arange(n))), shape=(count, n)) @ points
        centres = total / np.bincount(bucket, minlength=count)[:, None]
    return bucket


def _spread(points: Float, count: int, rng: np.random.Generator) -> Float:
    chosen = [int(rng.integers(len(points)))]
    nearest = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        weight = np.maximum(nearest, 1e-12)
        chosen.append(int(rng.choice(len(points), p=weight / weight.sum())))
        nearest = np.minimum(nearest, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return points[chosen].copy()


def _fill(bucket: Int, gap: Float, count: int) -> None:
    """Give each empty bucket the point that fits its own bucket worst, out of buckets that can spare one."""
    sizes = np.bincount(bucket, minlength=count)
    for empty in np.flatnonzero(sizes == 0):
        own = gap[np.arange(len(bucket)), bucket].copy()
        own[sizes[bucket] < 2] = -np.inf
        at = int(own.argmax())
        sizes[bucket[at]] -= 1
        sizes[empty] += 1
        bucket[at] = empty


class Plan(NamedTuple):
    """Buckets and the share of epsilon that protects the choice of bucket; the rest protects the member."""

    bucket: Int
    share: float
    likeness: float


def expected_likeness(points: Float, bucket: Int, first: float, second: float) -> float:
    """Mean cosine between a node and its replacement when every node is replaced once (two-level response).

    `first`, `second`: epsilon of the bucket and of the member. A node from another bucket counts as unrelated (0).
    """
    sizes = np.bincount(bucket)
    sums = sp.csr_matrix((np.ones(len(bucket)), (bucket, np.arange(len(bucket)))), shape=(len(sizes), len(bucket)))
    squares = ((sums @ points) ** 2).sum(axis=1) - sums @ (points**2).sum(axis=1)
    within = squares / np.maximum(sizes * (sizes - 1), 1)
    same = 1 / (1 + (len(sizes) - 1) * math.exp(-first))
    itself = 1 / (1 + (sizes - 1) * math.exp(-second))
    return float(same * ((itself + (1 - itself) * within) * sizes).sum() / len(bucket))


def _shares(count: int, share: float | None) -> tuple[float, ...]:
    if share is not None:
        return (share,)
    return SHARES if count > 1 else (0.0,)


def choose_plan(x: FeatureMatrix, epsilon: float, count: int | None = None, share: float | None = None) -> Plan:
    """The plan with the highest expected likeness at this epsilon per list entry; given parts are kept.

    Small epsilons end with the whole budget on the bucket (share 1), because a member of a large bucket is kept with
    a probability near 1/size whatever is spent on it. A single bucket needs no protection and gets share 0.
    """
    points = embed(x)
    counts = [count] if count is not None else [c for c in COUNTS if 4 * c <= len(points)] or [1]
    best: Plan | None = None
    for c in counts:
        bucket = k_means(points, c)
        for s in _shares(c, share):
            found = Plan(bucket, s, expected_likeness(points, bucket, s * epsilon, (1 - s) * epsilon))
            best = found if best is None or found.likeness > best.likeness + 1e-12 else best
    assert best is not None
    return best
