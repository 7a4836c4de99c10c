"""LSA2 (He et al., USENIX Security 2021): linked nodes have similar posteriors (``post``) or attributes (``attr``).

No edge is probed: what these attacks find is similarity, which the graph shares with its labels (homophily).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.release.target import AttackerView, Target

__all__ = [
    "DISTANCES", "TWO_CLASSES", "Lsa2", "best_pairs", "block_ends", "pair_distance", "posteriors", "rows_of_pairs",
]  # fmt: skip

Float = NDArray[np.float64]
Int = NDArray[np.int64]
DISTANCES = (
    "correlation", "cosine", "euclidean", "sqeuclidean", "chebyshev", "braycurtis", "canberra", "cityblock",
)  # fmt: skip
VARIANTS = ("correct", "published")
TWO_CLASSES = (
    "two-class answers: every correlation is +1 or -1, so this baseline only tells whether two nodes lean the same "
    "way; its ranking within either group is void"
)
BLOCK = 2**22  # numbers held per block of rows or pairs


@ATTACKS.register("lsa2-post", presets={"lsa2-attr": {"source": "attr"}})
@dataclass(frozen=True, kw_only=True)
class Lsa2(Attack):
    """Score = minus the distance of two nodes' posteriors (`source="post"`) or features (``attr``).

    ``variant="published"`` is the form behind LinkTeller's and LPGNet's tables: the cosine of vectors centred per
    column over the attacked nodes. `keep`: how many best pairs a whole-graph run lists (default 20 per node).
    """

    source: str = "post"
    distance: str = "correlation"
    """How far two vectors are apart: correlation, cosine, euclidean, sqeuclidean, chebyshev, braycurtis ..."""
    variant: str = "correct"
    keep: int | None = None

    reference: ClassVar[str] = "He et al., Stealing Links from Graph Neural Networks, USENIX Security 2021"
    strength: ClassVar[int] = 1
    assumes: ClassVar[str] = "sees every node's answer once"

    @property
    def needed(self) -> frozenset[str]:
        """Features where they are what is compared."""
        return self.needs | ({"features"} if self.source == "attr" else set())

    @property
    def assumed(self) -> str:
        """Answers are not needed where features are compared."""
        return self.assumes if self.source == "post" else "asks nothing, compares features"

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """One query (``post``) or none (``attr``), then all pairs in blocks."""
        self._check_parameters()
        notes: tuple[str, ...] = ()
        if self.source == "post":
            vectors = posteriors(target, view.nodes)
            if vectors.shape[1] == 2 and (self.variant == "published" or self.distance == "correlation"):
                notes = (TWO_CLASSES,)
        else:
            vectors = view.rows(np.arange(len(view.nodes)))
        if self.variant == "published":
            vectors = vectors - vectors.mean(axis=0)
        metric = "cosine" if self.variant == "published" else self.distance
        access: Any = "black-box" if self.source == "post" else "none"
        if view.whole_graph:
            return best_pairs(((at, -d) for at, d in rows_of_pairs(vectors, metric)), view, self.keep, access, notes)
        if view.pairs is None:
            scores = np.concatenate([-block for _, block in rows_of_pairs(vectors, metric)])
        else:
            scores = -pair_distance(vectors, *view.pair_positions(), metric)
        return Scored(scores, access=access, notes=notes)

    def _check_parameters(self) -> None:
        if self.source not in ("post", "attr"):
            raise UnknownNameError("source of lsa2", self.source, ("post", "attr"))
        if self.variant not in VARIANTS:
            raise UnknownNameError("variant of lsa2", self.variant, VARIANTS)
        if self.distance not in DISTANCES:
            raise UnknownNameError("distance", self.distance, DISTANCES)
        if self.keep is not None and self.keep < 1:
            raise InputError(f"keep must be at least 1, got {self.keep!r}")


def posteriors(target: Target, nodes: Int) -> Float:
    """One query for these nodes: a row of class probabilities each, whatever kind of answer the target gives."""
    answer = target.query(nodes=nodes)
    if target.answer_kind == "labels":
        return np.asarray(np.eye(int(answer.max()) + 1)[answer], np.float64)
    if target.answer_kind == "logits":
        exp = np.exp(answer - answer.max(axis=1, keepdims=True))
        answer = exp / exp.sum(axis=1, keepdims=True)
    return np.asarray(answer, np.float64)


def _defined(distance: Float, metric: str) -> Float:
    """Undefined similarity (a constant or zero vector) counts as none: distance 1; 0/0 of Bray-Curtis is equality."""
    fill = 1.0 if metric in ("correlation", "cosine") else 0.0
    return np.asarray(np.nan_to_num(distance, nan=fill, posinf=fill, neginf=fill), np.float64)


def _unit(vectors: Float, metric: str) -> Float:
    if metric == "correlation":
        vectors = vectors - vectors.mean(axis=1, keepdims=True)
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    out: Float = np.divide(vectors, norm, out=np.full_like(vectors, np.nan), where=norm > 0)
    return out


def rows_of_pairs(vectors: Float, metric: str) -> Iterator[tuple[int, Float]]:
    """Distances of the pairs i < j in order, a block of rows i at a time: (first i, distances)."""
    n = len(vectors)
    product = metric in ("correlation", "cosine")
    unit = _unit(vectors, metric) if product else vectors
    step = max(1, BLOCK // max(n, 1))
    for start in range(0, n, step):
        rows = unit[start : start + step]
        block = 1 - rows @ unit[start:].T if product else cdist(rows, unit[start:], metric)
        block = _defined(block, metric)
        later = np.arange(block.shape[1]) > np.arange(len(rows))[:, None]
        yield start, block[later]


def pair_distance(vectors: Float, i: Int, j: Int, metric: str) -> Float:
    """Distances of the given pairs of rows, a block of pairs at a time."""
    out = np.empty(len(i))
    product = metric in ("correlation", "cosine")
    unit = _unit(vectors, metric) if product else vectors
    step = max(1, BLOCK // max(vectors.shape[1], 1))
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        a, b = unit[i[part]], unit[j[part]]
        out[part] = 1 - (a * b).sum(axis=1) if product else _ELEMENTWISE[metric](a, b)
    return _defined(out, metric)


def _ratio(a: Float, b: Float) -> Float:
    out: Float = np.divide(a, b, out=np.zeros_like(a), where=b > 0)
    return out


_ELEMENTWISE: dict[str, Callable[[Float, Float], Float]] = {
    "euclidean": lambda a, b: np.linalg.norm(a - b, axis=1),
    "sqeuclidean": lambda a, b: ((a - b) ** 2).sum(axis=1),
    "chebyshev": lambda a, b: np.abs(a - b).max(axis=1),
    "cityblock": lambda a, b: np.abs(a - b).sum(axis=1),
    "braycurtis": lambda a, b: _ratio(np.abs(a - b).sum(axis=1), np.abs(a + b).sum(axis=1)),
    "canberra": lambda a, b: _ratio(np.abs(a - b), np.abs(a) + np.abs(b)).sum(axis=1),
}


def block_ends(n: int, start: int) -> tuple[Int, Int]:
    """Which pairs (i, j) a block of `rows_of_pairs` that begins at row `start` holds."""
    rows = min(max(1, BLOCK // n), n - start)
    count = np.arange(n - 1 - start, n - 1 - start - rows, -1)
    i = start + np.repeat(np.arange(rows), count)
    return i, i + 1 + np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count)


def best_pairs(
    blocks: Iterable[tuple[int, Float]], view: AttackerView, keep: int | None, access: Any, notes: tuple[str, ...]
) -> Scored:
    """The `keep` best pairs of a whole graph; memory is that of one block plus twice the result."""
    n = len(view.nodes)
    total = n * (n - 1) // 2
    keep = min(20 * n if keep is None else keep, total)
    best = np.empty(0)
    ends = np.empty((2, 0), np.int64)
    for start, scores in blocks:
        best, ends = np.concatenate([best, scores]), np.concatenate([ends, np.stack(block_ends(n, start))], axis=1)
        if len(best) > keep:
            top = np.sort(np.argpartition(-best, keep - 1)[:keep])
            best, ends = best[top], ends[:, top]
    note = f"{len(best):,} best of {total:,} pairs are listed; figures beyond them (AUC) need pairs= or nodes="
    floor = float(best.min()) if len(best) else 0.0
    return Scored(best, view.nodes[ends], access, (*notes, note), {}, total - len(best), floor)
