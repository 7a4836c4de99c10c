from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from edgeveil.errors import GraphError, InputError, UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.scaling import Scaling
from edgeveil.graph.sparse import normalise
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.kernels.spmm import SparseMatrix


def bag_of_words(seed: int = 0, rows: int = 30, columns: int = 12) -> sp.csr_matrix:
    x = sp.random(rows, columns, 0.2, format="csr", random_state=np.random.default_rng(seed))
    x = x.tolil()
    x[:, 3] = 0  # never used
    x[:, 4] = 2.5  # constant
    x[5] = 0
    return sp.csr_matrix(x)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(("kind", "oracle"), [("standard", StandardScaler), ("minmax", MinMaxScaler)])
def test_scalings_equal_scikit_learn(kind, oracle, sparse):
    train, other = bag_of_words(0), bag_of_words(1)
    expected = oracle().fit(train.toarray()).transform(other.toarray())
    fitted = Scaling.fit(kind, train if sparse else train.toarray())
    scaled = fitted.apply(other if sparse else other.toarray())
    assert scaled.is_sparse == sparse
    assert np.allclose(scaled.toarray(), expected)


def test_standard_scaling_of_a_column_that_is_constant_up_to_rounding():
    x = np.full((1000, 1), 0.1)
    assert np.allclose(Scaling.fit("standard", x).apply(x).toarray(), 0.0)
    assert np.allclose(Scaling.fit("standard", sp.csr_matrix(x)).apply(x).toarray(), 0.0, atol=1e-12)


def test_scaling_can_be_fitted_on_training_rows_only():
    x = bag_of_words()
    rows = np.arange(30) < 20
    expected = StandardScaler().fit(x.toarray()[rows]).transform(x.toarray())
    assert np.allclose(Scaling.fit("standard", x, rows).apply(x).toarray(), expected)


def test_row_scaling_sums_to_one_and_leaves_empty_rows():
    sums = Scaling.fit("row", None).apply(bag_of_words()[:, 5:]).toarray().sum(1)
    assert np.allclose(sums[sums > 0], 1.0)
    assert sums[5] == 0.0


@pytest.mark.parametrize("kind", ["none", "standard"])
@pytest.mark.parametrize("sparse", [True, False])
def test_replaced_rows_replace_and_share(kind, sparse):
    raw = bag_of_words()
    x = Scaling.fit(kind, raw).apply(raw if sparse else raw.toarray())
    expected = x.toarray()
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 12)), rng.random((2, 12))
    changed = x.with_rows([7, 2], first).with_rows([2, 9], second)
    expected[7], expected[2], expected[9] = first[0], second[0], second[1]
    assert np.allclose(changed.toarray(), expected)
    assert changed.values is x.values
    assert changed.base is x
    assert np.allclose(changed.take([9, 0, 2]).toarray(), expected[[9, 0, 2]])
    weight = torch.randn(12, 4, dtype=torch.float64)
    torch.testing.assert_close(as_operand(changed, "float64").matmul(weight), torch.tensor(expected) @ weight)
    torch.testing.assert_close(as_operand(changed, "float64").dense(), torch.tensor(expected))
    assert not np.shares_memory(x.public(), x.values) if not sparse else True


@pytest.mark.parametrize("kind", ["none", "standard"])
@pytest.mark.parametrize("sparse", [True, False])
def test_propagation_of_operands_equals_dense(kind, sparse):
    raw = bag_of_words()
    x = Scaling.fit(kind, raw).apply(raw if sparse else raw.toarray())
    a = (sp.random(30, 30, 0.1, random_state=np.random.default_rng(1)) != 0).astype(float)
    matrix = SparseMatrix(normalise(a, "aug-rwalk"))
    p = torch.tensor(matrix.csr.toarray())
    base = as_operand(x, "float64")
    once = base.propagated(matrix)
    twice = once.propagated(matrix)
    torch.testing.assert_close(twice.dense(), p @ p @ torch.tensor(x.toarray()))
    changed = x.with_rows([3], np.ones((1, 12)))
    step = as_operand(changed, "float64").propagated(matrix, once)
    torch.testing.assert_close(step.dense(), p @ torch.tensor(changed.toarray()))
    step = step.propagated(matrix, twice)
    torch.testing.assert_close(step.dense(), p @ p @ torch.tensor(changed.toarray()))


def test_the_operand_is_made_once_per_dtype():
    x = FeatureMatrix.wrap(bag_of_words())
    assert as_operand(x, "float32") is as_operand(x, torch.float32)
    assert as_operand(x, "float32") is not as_operand(x, "float64")
    assert as_operand(x.with_rows([0], np.zeros((1, 12))), "float32").base is as_operand(x, "float32")


def test_public_features_are_a_copy():
    x = FeatureMatrix.wrap(bag_of_words())
    shown = x.public()
    assert sp.issparse(shown)
    shown.data[:] = 0
    assert x.values.data.any()
    assert isinstance(Scaling.fit("standard", x.values).apply(x.values).public(), np.ndarray)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(1, 6))
def test_products_equal_dense_products(seed, rows, columns):
    rng = np.random.default_rng(seed)
    raw = sp.random(rows, columns, 0.3, format="csr", random_state=rng)
    x = Scaling.fit("standard", raw).apply(raw)
    weight = torch.tensor(rng.standard_normal((columns, 3)))
    torch.testing.assert_close(as_operand(x, "float64").matmul(weight), torch.tensor(x.toarray()) @ weight)


def test_errors():
    x = FeatureMatrix.wrap(bag_of_words())
    with pytest.raises(InputError, match="12 features"):
        x.with_rows([0], np.zeros((1, 3)))
    with pytest.raises(InputError, match="repeated"):
        x.with_rows([0, 0], np.zeros((2, 12)))
    with pytest.raises(InputError, match=r"0\.\.29"):
        x.with_rows([30], np.zeros((1, 12)))
    with pytest.raises(UnknownNameError, match="standard"):
        Scaling.fit("standrad", x.values)
    with pytest.raises(GraphError, match="no features"):
        FeatureMatrix.wrap(None)
    with pytest.raises(InputError, match="fitted on 12"):
        Scaling.fit("standard", x.values).apply(np.zeros((2, 3)))
