"""PyTorch Geometric both ways, and mechanisms as transforms."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from edgeveil.defences.lapgraph import LapGraph
from edgeveil.errors import GraphError, MissingExtra
from edgeveil.graph.graph import Graph
from edgeveil.graph.pyg import as_transform, from_pyg, to_pyg
from edgeveil.graph.validate import Collapsed

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric", reason="extra pyg is not installed")
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.transforms import Compose, ToUndirected  # noqa: E402
from torch_geometric.utils import contains_self_loops, is_undirected  # noqa: E402


def toy(sparse: bool = False) -> Graph:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    masks = {"train_mask": np.array([1, 0, 0, 0], bool), "test_mask": np.array([0, 0, 1, 1], bool)}
    return Graph.from_edges([[0, 1, 0], [1, 2, 3]], sp.csr_matrix(x) if sparse else x, [0, 1, 1, 0], **masks)


@pytest.mark.parametrize("sparse", [False, True])
def test_round_trip(sparse: bool) -> None:
    graph = toy(sparse)
    data = to_pyg(graph)
    assert data.validate() and is_undirected(data.edge_index) and not contains_self_loops(data.edge_index)
    assert data.num_edges == 6 and data.train_mask.tolist() == [True, False, False, False]
    back = from_pyg(data)
    assert back == graph and back.collapsed == Collapsed(reversed=3)


def test_nodes_are_public_only_if_the_data_knows_them_without_its_edges() -> None:
    edges = torch.tensor([[0, 1], [1, 4]])
    alone = from_pyg(Data(edge_index=edges))
    assert alone.num_nodes == 5 and not alone.public_nodes and not from_pyg(to_pyg(alone)).public_nodes
    for known in ({"num_nodes": 6}, {"x": torch.ones(6, 2)}, {"y": torch.zeros(6, dtype=torch.long)}):
        graph = from_pyg(Data(edge_index=edges, **known))
        assert graph.num_nodes == 6 and graph.public_nodes and from_pyg(to_pyg(graph)).public_nodes
    with pytest.raises(GraphError, match="read off its edges"):
        as_transform(LapGraph(epsilon=1.0))(Data(edge_index=edges))


def test_multilabel_sparse_features_and_many_masks() -> None:
    masks = torch.tensor([[True, False], [False, True], [False, False]])
    x = torch.eye(3).to_sparse()
    data = Data(
        edge_index=torch.tensor([[0, 1], [1, 2]]), x=x, y=torch.tensor([[0, 1], [1, 1], [0, 0]]), train_mask=masks
    )
    graph = from_pyg(data, name="toy")
    assert graph.multilabel and list(graph.splits) == ["0", "1"] and sp.issparse(graph.x)
    assert graph.with_split("1").train_mask.tolist() == [False, True, False]
    column = from_pyg(Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([[2], [0]]), num_nodes=2))
    assert column.y.tolist() == [2, 0] and column.x is None
    assert from_pyg(to_pyg(toy()._replace(is_twin=True))).is_twin


def test_losses_are_counted() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 2, 0]])
    graph = from_pyg(Data(edge_index=edges, edge_weight=torch.tensor([1.0, 2, 1, 1, 1]), num_nodes=3))
    assert graph.collapsed == Collapsed(self_loops=1, reversed=1, weights=True, one_way=2)
    with pytest.raises(GraphError, match="no edge_index"):
        from_pyg(Data(x=torch.eye(2)))


class Reverse:
    """Keeps exactly the pairs that were not edges."""

    def perturb(self, graph: Graph, seed: int | None = None) -> Graph:
        n = graph.num_nodes
        return graph.with_edge_ranks(np.setdiff1d(np.arange(n * (n - 1) // 2), graph.edge_ranks))


def test_a_mechanism_is_a_transform() -> None:
    data = to_pyg(toy())
    data.edge_weight = torch.ones(6)
    out = Compose([ToUndirected(), as_transform(Reverse(), seed=0)])(data)
    assert out.num_edges == 6 and "edge_weight" not in out and data.num_edges == 6
    assert from_pyg(out).edge_index.tolist() == [[0, 1, 2], [2, 3, 3]]
    assert torch.equal(out.x, data.x) and torch.equal(out.train_mask, data.train_mask)
    assert "Reverse" in repr(as_transform(Reverse()))


def test_a_shipped_mechanism_is_a_transform() -> None:
    from edgeveil.defences.edgerand import EdgeRand

    data = to_pyg(toy())
    out = as_transform(EdgeRand(epsilon=30.0), seed=0)(data)
    assert torch.equal(out.edge_index, data.edge_index)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(MissingExtra, match=r"edgeveil\[pyg\]"):
        to_pyg(toy())
    with pytest.raises(MissingExtra):
        as_transform(Reverse())
