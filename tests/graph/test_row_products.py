"""Products of listed rows are the same whichever way they are computed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from edgeveil.graph import row_products as module
from edgeveil.graph.row_products import row_products


@pytest.mark.parametrize("filled", [0.02, 0.6])
@pytest.mark.parametrize("count", [0, 7, 5_000])
def test_sparse_and_dense_rows_give_the_plain_products(filled: float, count: int) -> None:
    rng = np.random.default_rng(count)
    rows = sp.random(120, 90, filled, format="csr", random_state=1)
    u, v = rng.integers(0, 120, (2, count))
    expected = (rows.toarray()[u] * rows.toarray()[v]).sum(axis=1)
    for given in (rows, rows.toarray(), rows.astype(np.float32)):
        np.testing.assert_allclose(row_products(given, u, v), expected, atol=1e-5)


def test_few_pairs_gather_and_many_take_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, asked = sp.random(600, 80, 0.3, format="csr", random_state=0), []
    for name in ("_few", "_blocks"):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, real=real, name=name: (asked.append(name), real(*a))[1])
    every = np.triu_indices(600, 1)
    some = row_products(rows, every[0][:3], every[1][:3])
    np.testing.assert_allclose(some, row_products(rows, *every)[:3], rtol=1e-5)
    assert asked == ["_few", "_blocks"]


def test_blocks_need_no_order_of_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 7)
    rows = np.random.default_rng(2).random((40, 5))
    u, v = np.random.default_rng(3).integers(0, 40, (2, 3_000))
    np.testing.assert_allclose(module._blocks(rows, rows.T, u, v), (rows[u] * rows[v]).sum(axis=1))
