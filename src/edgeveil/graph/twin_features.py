"""Features and labels of a synthetic twin: bags of words whose words lean towards the node's class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.graph.twin_edges import from_quantiles, with_sum

__all__ = ["bags", "groups_to_labels", "weighted"]

Int = NDArray[np.int64]


def bags(
    y: Int,
    classes: int,
    num_features: int,
    facts: Mapping[str, Any],
    rng: np.random.Generator,
    words: np.random.Generator,
) -> sp.csr_matrix:
    """Sparse features with an exact number of entries and the original's row lengths and word popularity.

    Out of 1,000 words of a node, `signal` come from the words owned by its class, the others from all words. Which
    class owns which word comes from `words`, so that graphs of one family (Twitch) share the meaning of a column.
    """
    n = len(y)
    popularity = from_quantiles(facts["column_counts"], num_features) + 1
    popularity = popularity[words.permutation(num_features)]
    owner = words.permutation(np.arange(num_features) % classes)
    ends = [np.cumsum(np.where(owner == c, popularity, 0)) for c in range(classes)]
    ends.append(np.cumsum(popularity))
    lengths = from_quantiles(facts["row_lengths"], n)[rng.permutation(n)]
    lengths = with_sum(lengths, int(facts["feature_nnz"]), rng, 0, num_features)
    keys = _fill(y, lengths, ends, num_features, int(facts["signal"]), rng)
    rows, columns = keys // num_features, keys % num_features
    data = _values(len(keys), bool(facts.get("weighted", False)), rng)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return sp.csr_matrix((data, columns.astype(np.int32), indptr), shape=(n, num_features))


def _fill(y: Int, lengths: Int, ends: list[Int], width: int, signal: int, rng: np.random.Generator) -> Int:
    """Sorted keys row*width+word with exactly lengths[row] distinct words per row."""
    taken = np.zeros(len(y) * width, dtype=bool)
    missing = lengths.copy()
    for _ in range(24):
        rows = np.repeat(np.arange(len(y)), missing)
        if not len(rows):
            break
        own = rng.integers(0, 1000, len(rows)) < signal
        words = _words(np.where(own, y[rows], len(ends) - 1), ends, rng)
        keys = rows * width + words
        fresh = np.unique(keys[~taken[keys]])
        taken[fresh] = True
        missing -= np.bincount(fresh // width, minlength=len(y))
    return _complete(np.flatnonzero(taken), missing, width, rng)


def _words(source: Int, ends: list[Int], rng: np.random.Generator) -> Int:
    """One word per entry, drawn by popularity among the words of its source (a class, or all)."""
    words = np.empty(len(source), np.int64)
    for s, end in enumerate(ends):
        at = np.flatnonzero(source == s)
        words[at] = np.searchsorted(end, rng.integers(0, end[-1], len(at)), side="right")
    return words


def _complete(keys: Int, missing: Int, width: int, rng: np.random.Generator) -> Int:
    """Fill rows that ask for nearly every word by choosing among the words they lack."""
    rows = keys // width
    extra = []
    for row in np.flatnonzero(missing):
        have = keys[np.searchsorted(rows, row) : np.searchsorted(rows, row, side="right")] - row * width
        lack = np.setdiff1d(np.arange(width), have, assume_unique=True)
        extra.append(row * width + rng.permutation(lack)[: missing[row]])
    return np.sort(np.concatenate([keys, *extra]))


def _values(count: int, weighted_values: bool, rng: np.random.Generator) -> NDArray[np.float32]:
    if not weighted_values:
        return np.ones(count, np.float32)
    return weighted(count, rng)


def weighted(count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Right-skewed positive weights on a grid of 1/1024, like TF-IDF values."""
    least = np.minimum(rng.integers(1, 128, count), rng.integers(1, 128, count))
    return (least.astype(np.float32) / np.float32(1024)).astype(np.float32)


def groups_to_labels(groups: Int, num_groups: int, labels: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Multi-hot labels: a common rate per label, shifted per hidden group, drawn per node."""
    base = rng.integers(40, 560, labels)
    shift = rng.integers(-350, 351, (num_groups, labels))
    rate = np.clip(base + shift, 20, 950)
    drawn: NDArray[np.uint8] = (rng.integers(0, 1000, (len(groups), labels)) < rate[groups]).astype(np.uint8)
    return drawn
