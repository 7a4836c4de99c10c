"""Exact influence against finite differences and against torch's own forward mode, for every model and depth."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import edgeveil.models.influence as influences
import edgeveil.models.kernels.attention_tangents as attention_tangents
import edgeveil.models.kernels.tangents as tangents
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.scaling import Scaling
from edgeveil.models.architectures import MODELS
from edgeveil.models.assemble import build, predict_logits
from edgeveil.models.influence import influence
from edgeveil.models.network import Layer
from edgeveil.models.spec import ModelSpec, layers_reach

N = 40


def data(seed=0, directed=False, density=0.06):
    rng = np.random.default_rng(seed)
    a = np.triu(rng.random((N, N)) < density, 1)
    a = (rng.random((N, N)) < density) & ~np.eye(N, dtype=bool) if directed else a | a.T
    a[7] = a[:, 7] = False
    raw = sp.csr_matrix((rng.random((N, 9)) < 0.3) * 1.0)
    return Scaling.fit("standard", raw).apply(raw), sp.csr_matrix(a.astype(np.float32))


def by_query(model, x, a, nodes, targets, delta=1e-7):
    base = predict_logits(model, x, a)
    out = []
    for v in nodes:
        moved = predict_logits(model, x.with_rows([v], x.rows([v]) * (1 + delta)), a)
        out.append(np.linalg.norm((moved - base)[targets] / delta, axis=1))
    return np.array(out)


SPECS = [ModelSpec(name=name, hidden=6, layers=layers, heads=2) for name in MODELS.names() for layers in (1, 2, 3)]
SPECS += [
    ModelSpec(name="gcn", hidden=6, norm=norm, bias=bias, activation=activation)
    for norm, bias, activation in (
        ("first-order", "after", "elu"),
        ("bingge", "before", "relu"),
        ("aug-rwalk", "none", "selu"),
    )
]
SPECS += [ModelSpec(name=name, hidden=6, kprop=2, heads=2) for name in ("gcn", "gat", "sage", "mlp")]
SPECS += [ModelSpec(name=name, hidden=6, skip=True, heads=2) for name in ("gcn", "gat", "gatv2")]
SPECS += [
    ModelSpec(name="gat", hidden=5, layers=2, heads=3, out_heads=2),
    ModelSpec(name="transformer", hidden=5, skip=False),
]


@pytest.mark.parametrize(
    "spec", SPECS, ids=lambda s: f"{s.name}-{s.layers}-{s.norm}-{s.activation}-k{s.kprop}-{s.skip}-{s.heads}"
)
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_equals_the_query_to_one_in_a_million(spec, directed):
    x, a = data(directed=directed)
    model = build(spec, 9, 3, seed=1)
    nodes, targets = np.array([3, 30, 7, 12, 0]), np.arange(0, N, 2)
    exact = influence(model, x, a, nodes, targets).toarray()
    asked = by_query(model, x, a, nodes, targets)
    assert np.abs(exact - asked).max() <= 1e-6 * max(asked.max(), 1e-12)


@pytest.mark.parametrize("name", MODELS.names())
def test_equals_forward_mode_of_the_whole_model(name):
    x, a = data(seed=3)
    model = build(ModelSpec(name=name, hidden=6, heads=2), 9, 3, seed=2).double().eval()
    structure = model.prepare(a)
    dense = torch.tensor(x.toarray())
    exact = influence(model, x, a, np.arange(N)).toarray()
    for v in (0, 5, 7):
        tangent = torch.zeros_like(dense)
        tangent[v] = dense[v]
        _, change = torch.func.jvp(lambda h: model(h, structure), (dense,), (tangent,))
        assert np.allclose(exact[v], change.detach().norm(dim=1).numpy(), atol=1e-12)


@pytest.mark.parametrize("name", MODELS.names())
def test_nodes_may_be_named_twice(name):
    x, a = data(seed=4)
    model = build(ModelSpec(name=name, hidden=6, heads=2), 9, 3, seed=2)
    once = influence(model, x, a, np.arange(N)).toarray()
    senders, targets = np.array([4, 4, 9]), np.array([9, 4, 9, 0, 4])
    assert np.allclose(influence(model, x, a, senders, targets).toarray(), once[np.ix_(senders, targets)], atol=1e-13)


@pytest.mark.parametrize("name", MODELS.names())
def test_nothing_is_stored_beyond_k_hops(name):
    x, a = data(density=0.03)
    spec = ModelSpec(name=name, hidden=6, heads=2)
    got = influence(build(spec, 9, 3, seed=0), x, a, np.arange(N)).toarray()
    reach = np.linalg.matrix_power(np.eye(N) + a.toarray(), layers_reach(spec))
    assert (got[reach == 0] == 0).all()
    assert (reach == 0).any()


def test_an_mlp_gives_no_influence_on_others():
    x, a = data()
    got = influence(build(ModelSpec(name="mlp"), 9, 3, seed=0), x, a, np.arange(10), np.arange(5, 20)).toarray()
    rows, columns = np.nonzero(got)
    assert np.array_equal(rows, columns + 5)


@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "gatv2"])
def test_small_batches_change_nothing(monkeypatch, name):
    x, a = data(density=0.15)
    model = build(ModelSpec(name=name, hidden=6, layers=3, heads=2), 9, 3, seed=0)
    whole = influence(model, x, a, np.arange(N)).toarray()
    for module in (tangents, influences, attention_tangents):
        monkeypatch.setattr(module, "LIMIT", 2000)
    assert np.allclose(influence(model, x, a, np.arange(N)).toarray(), whole, atol=1e-13)


def test_features_may_be_dense_sparse_or_shifted():
    x, a = data()
    model = build(ModelSpec(name="gcn", hidden=6), 9, 3, seed=0)
    dense = influence(model, FeatureMatrix.wrap(x.toarray()), a, np.arange(N)).toarray()
    assert np.allclose(influence(model, x, a, np.arange(N)).toarray(), dense)
    assert np.allclose(influence(model, x, model.prepare(a), np.arange(N)).toarray(), dense)


def test_training_weights_and_mode_are_left_alone():
    x, a = data()
    model = build(ModelSpec(name="gcn", hidden=6), 9, 3, seed=0).train()
    influence(model, x, a, [0, 1])
    assert model.training and next(model.parameters()).dtype == torch.float32


def test_a_layer_without_a_rule_says_so():
    class Other(Layer):
        def forward(self, x, structure):
            return x.dense() if hasattr(x, "dense") else x

    x, a = data()
    model = build(ModelSpec(name="gcn", hidden=6), 9, 3, seed=0)
    model.layers[1] = Other()
    with pytest.raises(InputError, match="mode='query'"):
        influence(model, x, a, [0, 1])
