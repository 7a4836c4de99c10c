"""The checks behind a graph, on their own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from edgeveil.errors import GraphError
from edgeveil.graph.validate import (
    MAX_NODES,
    Collapsed,
    Split,
    check_features,
    check_labels,
    check_split,
    collapse_edges,
    freeze,
)


def test_keys_fit_in_64_bits_up_to_the_stated_size() -> None:
    assert (MAX_NODES - 1) * MAX_NODES + MAX_NODES - 1 <= np.iinfo(np.int64).max < (MAX_NODES + 1) ** 2
    keys, lost = collapse_edges([[MAX_NODES - 1], [MAX_NODES - 2]], MAX_NODES)
    assert keys.tolist() == [(MAX_NODES - 2) * MAX_NODES + MAX_NODES - 1] and lost == Collapsed()
    with pytest.raises(GraphError, match=f"{MAX_NODES + 1} nodes"):
        collapse_edges([[0], [1]], MAX_NODES + 1)


def test_whole_floats_and_unsigned_edges_are_fine() -> None:
    assert collapse_edges(np.array([[0.0], [1.0]]), 2)[0].tolist() == [1]
    assert collapse_edges(np.array([[0], [1]], np.uint8), 2)[0].tolist() == [1]
    with pytest.raises(GraphError, match="whole node numbers"):
        collapse_edges(np.array([[0.0], [np.nan]]), 2)
    with pytest.raises(GraphError, match=r"\[2, E\], got \(3,\)"):
        collapse_edges([0, 1, 2], 3)


def test_sparse_features_are_canonical() -> None:
    raw = sp.csr_matrix(([1.0, 2.0, 0.0, 3.0], ([0, 0, 1, 1], [2, 2, 0, 1])), shape=(2, 3))
    raw = sp.csr_matrix((raw.data, raw.indices, raw.indptr), shape=(2, 3))
    x = check_features(raw, 2)
    assert x.toarray().tolist() == [[0, 0, 3], [0, 3, 0]] and (x.data != 0).all() and x.has_sorted_indices
    assert check_features(np.array([[True], [False]]), 2).dtype == np.float32
    assert check_features(np.array([[1], [2]]), 2).dtype == np.float32
    assert check_features(np.array([[1.5], [2]]), 2).dtype == np.float64
    with pytest.raises(GraphError, match=r"\[3, F\], got shape \(2, 1\)"):
        check_features(np.ones((2, 1)), 3)


def test_labels() -> None:
    y, classes = check_labels([0.0, 2.0, -1.0], 3, None)
    assert y.tolist() == [0, 2, -1] and classes == 3
    assert check_labels(np.array([True, False]), 2, 5)[1] == 5
    with pytest.raises(GraphError, match=r"one entry per node \(3\), got shape \(2,\)"):
        check_labels([0, 1], 3, None)


def test_splits_are_checked_and_frozen() -> None:
    split = check_split(Split(*np.eye(3, dtype=bool)), 3, None, "s")
    with pytest.raises(ValueError, match="read-only"):
        split.train[0] = False
    with pytest.raises(GraphError, match=r"val mask of split 's' must be boolean of shape \[3\]"):
        check_split({"val": np.zeros(2, bool)}, 3, None, "s")


def test_freeze_reaches_the_parts_of_a_matrix() -> None:
    matrix = freeze(sp.csr_matrix(np.eye(2)))
    for part in (matrix.data, matrix.indices, matrix.indptr):
        assert not part.flags.writeable
