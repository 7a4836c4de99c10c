"""Edge-private graphs as transforms of a PyTorch Geometric pipeline."""

from __future__ import annotations

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.errors import BudgetExceeded, GraphError

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric", reason="extra pyg is not installed")
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.transforms import BaseTransform, Compose, ToUndirected  # noqa: E402

from edgeveil import pyg  # noqa: E402


def data(n: int = 30) -> Data:
    rng = np.random.default_rng(0)
    graph = ev.Graph.from_edges(rng.integers(0, n, (2, 60)), np.eye(n), np.arange(n) % 2, num_nodes=n)
    return ev.to_pyg(graph)


def test_noisy_edges_are_one_line_in_a_pipeline() -> None:
    before = data()
    before.edge_weight = torch.ones(before.num_edges)
    transform = pyg.LapGraph(epsilon=8)
    assert isinstance(transform, BaseTransform) and "epsilon=8" in repr(transform)
    out = Compose([transform, ToUndirected()])(before)
    assert out.guarantee.status == "sound" and out.guarantee.epsilon == 8 and "edge_weight" not in out
    assert torch.equal(out.x, before.x) and torch.equal(out.y, before.y)
    assert out.is_undirected() and "guarantee" not in before


def test_the_edges_are_the_mechanisms() -> None:
    want = ev.EdgeRand(epsilon=2.0).perturb(ev.from_pyg(data()), seed=5)
    out = pyg.EdgeRand(epsilon=2.0, seed=5)(data())
    assert ev.from_pyg(out).edge_index.tolist() == want.edge_index.tolist()
    assert "seeded" in out.guarantee.randomness and "not private" in out.guarantee.randomness


def test_the_same_edges_are_never_drawn_twice_under_one_epsilon() -> None:
    transform = pyg.LapGraph(epsilon=1.0)
    transform(data())
    with pytest.raises(BudgetExceeded, match="pre_transform"):
        transform(data())
    seeded = pyg.LapGraph(epsilon=1.0, seed=0)
    assert torch.equal(seeded(data()).edge_index, seeded(data()).edge_index)


def test_nodes_that_only_edges_name_are_refused() -> None:
    with pytest.raises(GraphError, match="read off its edges"):
        pyg.LapGraph(epsilon=1.0)(Data(edge_index=torch.tensor([[0, 1], [1, 4]])))
