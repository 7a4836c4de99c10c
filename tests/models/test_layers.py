"""Every layer against the PyTorch Geometric layer of the same name, on graphs with isolated nodes and one-way edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.sparse import normalise
from edgeveil.models import ModelSpec, Structure, build
from edgeveil.models.attention import GATLayer, GATv2Layer, TransformerLayer
from edgeveil.models.gcn import GCNLayer
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.kernels.ops import matmul
from edgeveil.models.network import kprop
from edgeveil.models.sage import NeighbourLayer

geometric = pytest.importorskip("torch_geometric.nn")
TOLERANCE = 1e-5


def random_adjacency(seed: int, directed: bool, n: int = 40) -> sp.csr_matrix:
    """A sparse random graph whose last five nodes are isolated."""
    rng = np.random.default_rng(seed)
    a = sp.random(n - 5, n - 5, 0.12, random_state=rng, format="csr")
    a.data[:] = 1.0
    a.setdiag(0)
    a = a if directed else a.maximum(a.T)
    a = sp.csr_matrix(sp.block_diag([a, sp.csr_matrix((5, 5))]))
    a.eliminate_zeros()
    a.sort_indices()
    return a


def edge_index(a: sp.csr_matrix) -> torch.Tensor:
    target, source = a.nonzero()
    return torch.tensor(np.stack([source, target]), dtype=torch.int64)


@pytest.fixture(params=[(0, False), (1, False), (2, True), (3, True)], ids=["sym0", "sym1", "dir0", "dir1"])
def case(request: pytest.FixtureRequest) -> tuple[sp.csr_matrix, torch.Tensor, torch.Tensor]:
    seed, directed = request.param
    a = random_adjacency(seed, directed)
    torch.manual_seed(seed)
    return a, edge_index(a), torch.randn(a.shape[0], 6)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert float((ours - theirs).detach().abs().max()) < TOLERANCE


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    with torch.no_grad():
        target.copy_(source)


def randomise(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for p in module.parameters():
            p.uniform_(-1, 1)


def test_gcn(case):
    a, edges, x = case
    theirs = geometric.GCNConv(6, 4)
    randomise(theirs)
    ours = GCNLayer(6, 4, norm="aug")
    copy(ours.weight, theirs.lin.weight.T)
    copy(ours.bias, theirs.bias)
    close(ours(x, Structure(a)), theirs(x, edges))


@pytest.mark.parametrize("width", [3, 9], ids=["narrowing", "widening"])
def test_gcn_bias_before_aggregation(case, width):
    a, _, x = case
    layer = GCNLayer(6, width, norm="aug-rwalk", bias="before", init="uniform-out")
    dense = torch.tensor(normalise(a, "aug-rwalk").toarray(), dtype=torch.float32)
    close(layer(x, Structure(a)), dense @ (x @ layer.weight + layer.bias))


@pytest.mark.parametrize(("heads", "concat"), [(1, False), (3, True), (3, False)])
@pytest.mark.parametrize("skip", [False, True])
def test_gat(case, heads, concat, skip):
    a, edges, x = case
    theirs = geometric.GATConv(6, 4, heads=heads, concat=concat, residual=skip)
    randomise(theirs)
    ours = GATLayer(6, 4, heads=heads, concat=concat, bias=True, skip=skip)
    copy(ours.weight.weight, theirs.lin.weight.T)
    copy(ours.source, theirs.att_src[0])
    copy(ours.target, theirs.att_dst[0])
    copy(ours.bias, theirs.bias)
    if skip:
        copy(ours.skip.weight, theirs.res.weight.T)
    close(ours(x, Structure(a)), theirs(x, edges))


@pytest.mark.parametrize(("heads", "concat"), [(1, False), (3, True), (3, False)])
def test_gatv2(case, heads, concat, monkeypatch):
    a, edges, x = case
    monkeypatch.setattr("edgeveil.models.kernels.additive._CHUNK", 100)  # several chunks
    theirs = geometric.GATv2Conv(6, 4, heads=heads, concat=concat)
    randomise(theirs)
    ours = GATv2Layer(6, 4, heads=heads, concat=concat, bias=True, skip=False)
    for mine, other in ((ours.source, theirs.lin_l), (ours.target, theirs.lin_r)):
        copy(mine.weight, other.weight.T)
        copy(mine.bias, other.bias)
    copy(ours.vector, theirs.att[0])
    copy(ours.bias, theirs.bias)
    close(ours(x, Structure(a)), theirs(x, edges))


@pytest.mark.parametrize(("heads", "concat"), [(1, False), (3, True), (3, False)])
@pytest.mark.parametrize("skip", [False, True])
def test_transformer(case, heads, concat, skip):
    a, edges, x = case
    theirs = geometric.TransformerConv(6, 4, heads=heads, concat=concat, root_weight=skip)
    randomise(theirs)
    ours = TransformerLayer(6, 4, heads=heads, concat=concat, bias=True, skip=skip)
    pairs = [(ours.query, theirs.lin_query), (ours.key, theirs.lin_key), (ours.value, theirs.lin_value)]
    for mine, other in pairs + ([(ours.skip, theirs.lin_skip)] if skip else []):
        copy(mine.weight, other.weight.T)
        copy(mine.bias, other.bias)
    close(ours(x, Structure(a)), theirs(x, edges))


def test_sage(case):
    a, edges, x = case
    theirs = geometric.SAGEConv(6, 4)
    randomise(theirs)
    ours = NeighbourLayer(6, 4, kind="mean", bias=True, init="uniform-in")
    copy(ours.weight, theirs.lin_l.weight.T)
    copy(ours.own, theirs.lin_r.weight.T)
    copy(ours.bias, theirs.lin_l.bias)
    close(ours(x, Structure(a)), theirs(x, edges))


def test_graphconv(case):
    a, edges, x = case
    theirs = geometric.GraphConv(6, 4)
    randomise(theirs)
    ours = NeighbourLayer(6, 4, kind="sum", bias=True, init="uniform-in")
    copy(ours.weight, theirs.lin_rel.weight.T)
    copy(ours.own, theirs.lin_root.weight.T)
    copy(ours.bias, theirs.lin_rel.bias)
    close(ours(x, Structure(a)), theirs(x, edges))


def test_kprop(case):
    a, edges, x = case
    theirs = geometric.SimpleConv(aggr="sum")
    weights = geometric.conv.gcn_conv.gcn_norm(edges, None, a.shape[0], add_self_loops=False)[1]
    expected = x
    for _ in range(3):
        expected = theirs(expected, edges, weights)
    close(kprop(x, Structure(a), 3), expected)
    sparse = as_operand(FeatureMatrix.wrap(sp.csr_matrix(x.numpy())))
    for structure in (Structure(a), Structure(a, remember=True)):
        close(matmul(kprop(sparse, structure, 3), torch.eye(6)), expected)


def test_kprop_is_stored_where_that_pays():
    dense = sp.csr_matrix(np.ones((60, 60)) - np.eye(60))
    for columns, stored in ((20, True), (20_000, False)):
        x = as_operand(FeatureMatrix.wrap(sp.random(60, columns, 0.02, format="csr", random_state=1)))
        assert Structure(dense, remember=True).worth_propagating(x, "sym", 4) is stored
        assert not Structure(dense).worth_propagating(x, "sym", 4)


@pytest.mark.parametrize("name", ["gcn", "gat", "gatv2", "sage", "graphconv", "transformer"])
def test_weight_gradients_equal_the_oracle(case, name):
    a, edges, x = case
    made = {
        "gcn": (GCNLayer(6, 4, norm="aug"), geometric.GCNConv(6, 4), "weight", "lin.weight"),
        "gat": (GATLayer(6, 4, heads=2, concat=True, bias=True, skip=False), geometric.GATConv(6, 4, heads=2), "", ""),
        "gatv2": (
            GATv2Layer(6, 4, heads=2, concat=True, bias=True, skip=False),
            geometric.GATv2Conv(6, 4, heads=2),
            "",
            "",
        ),
        "sage": (NeighbourLayer(6, 4, kind="mean", bias=True, init="uniform-in"), geometric.SAGEConv(6, 4), "", ""),
        "graphconv": (
            NeighbourLayer(6, 4, kind="sum", bias=True, init="uniform-in"),
            geometric.GraphConv(6, 4),
            "",
            "",
        ),
        "transformer": (
            TransformerLayer(6, 4, heads=2, concat=True, bias=True, skip=True),
            geometric.TransformerConv(6, 4, heads=2),
            "",
            "",
        ),
    }
    ours, theirs, *_ = made[name]
    pairs = {
        "gcn": [("weight", "lin.weight"), ("bias", "bias")],
        "gat": [("weight.weight", "lin.weight"), ("source", "att_src"), ("target", "att_dst"), ("bias", "bias")],
        "gatv2": [
            ("source.weight", "lin_l.weight"), ("source.bias", "lin_l.bias"), ("target.weight", "lin_r.weight"),
            ("target.bias", "lin_r.bias"), ("vector", "att"), ("bias", "bias"),
        ],
        "sage": [("weight", "lin_l.weight"), ("own", "lin_r.weight"), ("bias", "lin_l.bias")],
        "graphconv": [("weight", "lin_rel.weight"), ("own", "lin_root.weight"), ("bias", "lin_rel.bias")],
        "transformer": [
            (f"{m}.{p}", f"lin_{m}.{p}") for m in ("query", "key", "value", "skip") for p in ("weight", "bias")
        ],
    }[name]  # fmt: skip
    randomise(theirs)
    mine, other = dict(ours.named_parameters()), dict(theirs.named_parameters())
    for a_name, b_name in pairs:
        copy(mine[a_name], oriented(other[b_name], mine[a_name], b_name))
    weights = torch.randn(a.shape[0], 1)
    (ours(x, Structure(a)).tanh() * weights).sum().backward()
    (theirs(x, edges).tanh() * weights).sum().backward()
    for a_name, b_name in pairs:
        grad = oriented(other[b_name].grad, mine[a_name], b_name)
        torch.testing.assert_close(mine[a_name].grad, grad, atol=2e-5, rtol=1e-4)


def oriented(value: torch.Tensor, like: torch.Tensor, name: str) -> torch.Tensor:
    """PyG keeps linear weights [out, in] and attention vectors [1, heads, width]."""
    return value.T if name.endswith("weight") else value.reshape(like.shape)


@pytest.mark.parametrize("name", ["gcn", "gat", "gatv2", "sage", "graphconv", "transformer", "mlp"])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_whole_models_run_sparse_dense_and_in_both_precisions(case, name, layers):
    a, _, x = case
    model = build(ModelSpec(name=name, layers=layers, hidden=5, kprop=1), 6, 3, seed=1).eval()
    structure = model.prepare(a)
    dense = model(x, structure)
    assert dense.shape == (a.shape[0], 3)
    sparse = FeatureMatrix.wrap(sp.csr_matrix(x.numpy()))
    torch.testing.assert_close(model(as_operand(sparse, "float32"), structure), dense, rtol=1e-4, atol=1e-5)
    double = model.double()(as_operand(sparse, "float64"), structure)
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), dense, rtol=1e-4, atol=1e-5)
