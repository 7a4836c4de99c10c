"""The feature graph is what a plain double loop over all pairs would find, and approximate search finds most of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.errors import InputError
from edgeveil.graph import feature_neighbours as module
from edgeveil.graph.feature_neighbours import feature_neighbours, unit_rows


def naive(rows: np.ndarray, count: int) -> set[tuple[int, int]]:
    cosine = rows @ rows.T
    np.fill_diagonal(cosine, -np.inf)
    pairs = set()
    for i in range(len(rows)):
        for j in np.argsort(-cosine[i], kind="stable")[:count]:
            if cosine[i, j] > 0:
                pairs.add((min(i, int(j)), max(i, int(j))))
    return pairs


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 40), st.integers(1, 8), st.integers(0, 2**31))
def test_dense_features_agree_with_a_double_loop(n: int, count: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)
    found = feature_neighbours(x, count)
    rows = x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    assert {tuple(p) for p in np.argwhere(sp.triu(found).toarray() > 0).tolist()} == naive(rows, count)
    assert (abs(found - found.T) > 1e-12).nnz == 0 and not found.diagonal().any()
    entries = found.tocoo()
    np.testing.assert_allclose(entries.data, np.einsum("ij,ij->i", rows[entries.row], rows[entries.col]), atol=1e-5)


def test_bags_of_words_are_weighed_by_rarity() -> None:
    x = sp.csr_matrix(np.array([[1.0, 1, 0], [1, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]))
    rows = unit_rows(x).toarray()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    assert rows[0, 1] > rows[0, 0], "the rare word counts more than the common one"


def test_scaling_a_row_changes_nothing() -> None:
    x = sp.random(30, 12, 0.3, "csr", random_state=1)
    scaled = (sp.diags(np.linspace(0.1, 9, 30)) @ x).tocsr()
    assert (abs(feature_neighbours(x, 4) - feature_neighbours(scaled, 4)) > 1e-6).nnz == 0


def test_empty_rows_and_single_nodes_have_no_neighbours() -> None:
    x = sp.csr_matrix(np.array([[0.0, 0], [1, 0], [1, 0]]))
    found = feature_neighbours(x, 2)
    assert found[0].nnz == 0 and found[1, 2] == pytest.approx(1.0)
    assert feature_neighbours(np.ones((1, 3)), 4).nnz == 0
    with pytest.raises(InputError, match="at least one neighbour"):
        feature_neighbours(x, 0)


@pytest.mark.parametrize("sparse", [False, True])
def test_approximate_search_finds_nearly_all_near_pairs(sparse: bool) -> None:
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    centres = rng.random((12, 90)) * (rng.random((12, 90)) < 0.2)
    x = np.maximum(centres[rng.integers(12, size=1500)] + 0.05 * rng.normal(size=(1500, 90)), 0)
    x = sp.csr_matrix(x) if sparse else x
    exact, near = feature_neighbours(x, 5, exact=True), feature_neighbours(x, 5, exact=False)
    same_cosine = np.sort(exact.data)[-len(near.data) :].mean() - near.data.mean()
    assert (near > 0).nnz >= 0.8 * (exact > 0).nnz and abs(same_cosine) < 0.05
    again = feature_neighbours(x, 5, exact=False)
    assert (near != again).nnz == 0


def test_a_feature_graph_is_computed_once_per_content(monkeypatch: pytest.MonkeyPatch) -> None:
    computed, real = [], module._neighbours
    monkeypatch.setattr(module, "_neighbours", lambda *a: (computed.append(1), real(*a))[1])
    x = np.random.default_rng(7).random((50, 6))
    first = feature_neighbours(x, 4)
    assert feature_neighbours(x.copy(), 4) is first and len(computed) == 1
    with pytest.raises(ValueError, match="read-only"):
        first.data[0] = 1.0
    other = x.copy()
    other[0, 0] += 1e-3
    feature_neighbours(other, 4)
    feature_neighbours(x, 5)
    assert len(computed) == 3
    for shift in range(module.RECENT):
        feature_neighbours(x + shift + 1, 4)
    assert len(module._RECENT) == module.RECENT
