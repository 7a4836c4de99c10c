"""Your own PyTorch Geometric model under a defence: train, audit, save, load, attack.

Run:  python examples/own_pyg_model.py
The same model from the command line:  edgeveil audit cora-twin --model examples/own_pyg_model.py:MyGIN --epsilon 8
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Dropout, Linear, Module, ReLU, Sequential
from torch_geometric.nn import GINConv

import edgeveil as ev


class MyGIN(Module):
    """Two GIN layers with BatchNorm. Any module works that is built from (in_dim, out_dim) and called like this."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.first = GINConv(Sequential(Linear(in_dim, 32), BatchNorm1d(32), ReLU()))
        self.dropout = Dropout(0.3)
        self.second = GINConv(Linear(32, out_dim))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of all nodes."""
        return self.second(self.dropout(self.first(x, edge_index)), edge_index)


def small_fit(module: Module, data: object, train_mask: Tensor, val_mask: Tensor, seed: int) -> None:
    """Training of your own, if you want it: called with a PyG `Data` of the graph that the defence shows."""
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(30):
        optimizer.zero_grad()
        logits = module(data.x, data.edge_index)  # type: ignore[attr-defined]
        torch.nn.functional.cross_entropy(logits[train_mask], data.y[train_mask]).backward()  # type: ignore[attr-defined]
        optimizer.step()


MyGINWithOwnTraining = ev.OwnModel(MyGIN, fit=small_fit)


def small_graph(num_nodes: int = 150, seed: int = 0) -> ev.Graph:
    """Three communities with features that hint at them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, num_nodes)
    u, v = rng.integers(0, num_nodes, (2, 12 * num_nodes))
    keep = (y[u] == y[v]) | (rng.random(len(u)) < 0.05)
    x = rng.normal(size=(num_nodes, 12)) + 0.7 * np.eye(12)[y]
    part = rng.permutation(num_nodes)
    masks = {name: np.isin(np.arange(num_nodes), part[a:b]) for name, a, b in _parts(num_nodes)}
    edges = np.stack([u[keep], v[keep]])[:, : 3 * num_nodes]
    return ev.Graph.from_edges(edges, x, y, num_nodes=num_nodes, name="communities", **masks)


def _parts(n: int) -> list[tuple[str, int, int]]:
    return [("train_mask", 0, n // 2), ("val_mask", n // 2, 2 * n // 3), ("test_mask", 2 * n // 3, n)]


def main(folder: Path) -> None:
    """Print what each defence costs this model, and what it saves."""
    graph = small_graph()
    nodes = np.arange(60)
    for defence, asked in (("none", None), ("lapgraph", 6.0)):
        release = ev.defend(graph, defence, epsilon=asked, model=MyGIN, seed=0)
        exact = ev.attack(release, "linkteller", nodes=nodes)  # forward-mode derivative of your module
        truth = graph.has_edges(*exact.pairs)
        auc = ev.metrics.ranking(exact.scores, truth)["auc"]
        accuracy = release.utility("test")["accuracy"]
        epsilon = release.guarantee.epsilon
        print(f"{defence:9} epsilon {epsilon}: accuracy {accuracy:.2f}, LinkTeller AUC {auc:.3f}")
        release.save(folder / defence)
        again = ev.Release.load(folder / defence, modules={release.model: MyGIN})
        assert np.array_equal(again.predict(), release.predict())


if __name__ == "__main__":
    main(Path(tempfile.mkdtemp()))
