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


def test_nothing_that_might_tell_of_edges_passes_by_the_noise() -> None:
    """Link splits, adjacencies, walks and other attributes used to travel along untouched, under a sound guarantee."""
    before = data()
    before.edge_label_index, before.train_pos_edge_index = before.edge_index[:, :20], before.edge_index
    before.adj, before.random_walk_pe = torch.eye(30).to_sparse(), torch.rand(30, 4)
    before.train_mask, before.club = torch.arange(30) < 9, list(range(30))
    out = pyg.LapGraph(epsilon=1.0)(before)
    assert set(out.keys()) == {"x", "y", "num_nodes", "edge_index", "train_mask", "guarantee"}
    assert "club" in pyg.LapGraph(epsilon=1.0, keep=["club"])(before) and "adj" in before


def test_a_copy_in_another_process_does_not_draw_for_the_same_edges_again() -> None:
    transform = pyg.LapGraph(epsilon=1.0)
    transform._process -= 1  # as in a loader's worker, which holds a copy of what was drawn before it started
    with pytest.raises(BudgetExceeded, match="another process"):
        transform(data())
