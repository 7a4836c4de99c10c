"""PyTorch Geometric both ways."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from edgeveil.errors import GraphError, MissingExtra
from edgeveil.graph.graph import Graph
from edgeveil.graph.pyg_data import from_pyg, to_pyg
from edgeveil.graph.validate import Collapsed

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric", reason="extra pyg is not installed")
from torch_geometric.data import Data, HeteroData  # noqa: E402
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


def test_losses_are_counted_and_weights_and_kinds_refused() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 2, 0]])
    graph = from_pyg(Data(edge_index=edges, edge_weight=torch.ones(5), num_nodes=3))
    assert graph.collapsed == Collapsed(self_loops=1, reversed=1, one_way=2)
    once = from_pyg(Data(edge_index=edges[:, 1:3], num_nodes=3))
    assert once.collapsed.one_way == 2
    with pytest.raises(GraphError, match="no edge_index"):
        from_pyg(Data(x=torch.eye(2)))
    with pytest.raises(GraphError, match="edge_weight = None"):
        from_pyg(Data(edge_index=edges, edge_weight=torch.tensor([1.0, 2, 1, 1, 1]), num_nodes=3))
    mixed = HeteroData()
    mixed["author"].x, mixed["paper"].x = torch.eye(2), torch.eye(3)
    with pytest.raises(GraphError, match="several kinds"):
        from_pyg(mixed)


def test_index_masks_nan_labels_and_ids() -> None:
    edges = torch.tensor([[0, 1], [1, 2]])
    y = torch.tensor([0.0, float("nan"), 1.0])
    data = Data(edge_index=edges, y=y, train_mask=torch.tensor([0, 2]), test_idx=torch.tensor([1]))
    data.node_ids = ["ann", "bob", "eve"]
    graph = from_pyg(data)
    assert graph.y.tolist() == [0, -1, 1] and graph.num_classes == 2 and graph.num_nodes == 3
    assert graph.train_mask.tolist() == [True, False, True] and not graph.test_mask.any()  # no label, no test
    assert graph.node_ids.tolist() == ["ann", "bob", "eve"] and to_pyg(graph).node_ids == ["ann", "bob", "eve"]
    bits = from_pyg(Data(edge_index=edges, num_nodes=3, train_mask=torch.tensor([1, 0, 1], dtype=torch.uint8)))
    assert bits.train_mask.tolist() == [True, False, True]
    with pytest.raises(GraphError, match=r"node numbers 0\.\.2"):
        from_pyg(Data(edge_index=edges, num_nodes=3, train_mask=torch.tensor([0, 7])))


def test_features_are_float32_unless_asked() -> None:
    graph = Graph.from_edges([[0], [1]], np.eye(2))
    assert to_pyg(graph).x.dtype == torch.float32 and to_pyg(graph, dtype="float64").x.dtype == torch.float64
    wide = to_pyg(graph, dtype="float64")
    assert from_pyg(wide).x.dtype == np.float32 and from_pyg(wide, dtype="float64").x.dtype == np.float64


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(MissingExtra, match=r"edgeveil\[pyg\]"):
        to_pyg(toy())


def test_a_dataset_in_place_of_its_graph_is_explained() -> None:
    data = to_pyg(Graph.from_edges([[0, 1], [1, 2]], num_nodes=3))
    with pytest.raises(GraphError, match=r"takes one torch_geometric.data.Data, got list.*dataset\[0\]"):
        from_pyg([data])
