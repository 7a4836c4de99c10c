"""Exact influence of modules by forward-mode differentiation equals queries, and reaches as far as the module does."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.models.test_module import Net, Plain, made
from torch.nn import Dropout, Linear, Module

import edgeveil as ev
from edgeveil.models.module_influence import groups
from edgeveil.models.reach import reach
from edgeveil.models.settings import TrainSpec

pyg = pytest.importorskip("torch_geometric.nn")


def graph_without_ties(n: int = 90, seed: int = 0) -> ev.Graph:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 6)) + y[:, None]
    train = np.arange(n) % 2 == 0
    return ev.Graph.from_edges(rng.integers(0, n, (2, 100)), x, y, num_nodes=n, train_mask=train, name="plain")


class GraphWide(Module):
    """GraphNorm mixes all nodes also in evaluation mode."""

    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.a, self.norm = pyg.GCNConv(i, o), pyg.GraphNorm(o)

    def forward(self, x, edge_index):
        return self.norm(self.a(x, edge_index))


class Jumping(Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.net = pyg.models.GCN(i, 8, 4, o, jk="cat")

    def forward(self, x, edge_index):
        return self.net(x, edge_index)


@pytest.mark.parametrize("model", ["pyg:GIN", Net, "pyg:GAT", "pyg:PNA", GraphWide, Jumping])
@pytest.mark.parametrize("defence", ["none", "feature-graph-like", "kprop"])
def test_exact_equals_queries(model: object, defence: str) -> None:
    graph = graph_without_ties()
    train = TrainSpec(epochs=4)
    if defence == "kprop":
        release = ev.defend(graph, "gp-t", epsilon=4.0, model=model, seed=0, train=train, scaling="none", steps_x=2,
                            epsilon_y=float("inf"))  # fmt: skip
    else:
        release = ev.defend(graph, "none", model=model, seed=0, train=train, scaling="none")
    if defence == "feature-graph-like":
        weighted = release.predictor.adjacency.copy()
        weighted.data = weighted.data * np.linspace(0.5, 2.0, weighted.nnz)
        release.predictor.adjacency = weighted
    nodes = np.arange(5, 45)
    exact = ev.attack(release, "linkteller", nodes=nodes, mode="exact")
    asked = ev.attack(release, "linkteller", nodes=nodes, mode="query", delta=1e-7)
    assert np.abs(exact.scores - asked.scores).max() <= 1e-6 * asked.scores.max()
    assert exact.queries == 0 and asked.scores.max() > 0


def test_the_probe_finds_how_far_a_module_reaches() -> None:
    assert reach(made(Net)) == 2 and reach(made(Jumping)) == 4 and reach(made(Plain)) == 0
    assert reach(made(GraphWide)) is None
    dead = made(Net)
    with torch.no_grad():
        dead.module.a.bias.fill_(-1e9)  # every unit is dead, yet the path through them is there
    assert reach(dead) == 2


def test_a_part_of_the_graph_gives_what_the_whole_gives() -> None:
    """On a long path only the neighbourhood of the asked nodes is computed, and the figures are the same."""
    n = 300
    rng = np.random.default_rng(1)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)])
    graph = ev.Graph.from_edges(edges, rng.normal(size=(n, 4)), rng.integers(0, 2, n), num_nodes=n)
    release = ev.defend(graph, "none", model=Net, seed=0, train=TrainSpec(epochs=2), scaling="none")
    every = release.influence()[100:110][:, 100:110].toarray()
    np.testing.assert_allclose(release.influence(np.arange(100, 110)).toarray(), every, atol=1e-12)


def test_colours_never_share_a_column() -> None:
    rng = np.random.default_rng(0)
    heard = sp.csr_matrix(rng.random((60, 50)) < 0.05)
    colours = groups(heard)
    for colour in range(colours.max() + 1):
        assert heard[colours == colour].astype(int).sum(axis=0).max() <= 1
    assert ((colours == -1) == (np.diff(heard.indptr) == 0)).all() and colours.max() + 1 < 30


def test_what_cannot_be_differentiated_is_asked_and_said_so() -> None:
    class Restless(Module):
        """Answers differently every time, so it has no derivative."""

        def __init__(self, i: int, o: int) -> None:
            super().__init__()
            self.a, self.drop = Linear(i, o), Dropout(0.5)

        def forward(self, x, edge_index):
            self.drop.train()
            return self.drop(self.a(x))

    class Detached(Module):
        def __init__(self, i: int, o: int) -> None:
            super().__init__()
            self.a, self.b = pyg.GCNConv(i, o), Linear(i, o)

        def forward(self, x, edge_index):
            return self.a(torch.tensor(x.detach().tolist(), dtype=x.dtype), edge_index) + self.b(x)

    graph = graph_without_ties()
    for model in (Restless, Detached):
        release = ev.defend(graph, "none", model=model, seed=0, train=TrainSpec(epochs=2))
        found = ev.attack(release, "linkteller", nodes=np.arange(20))
        assert found.queries == 21 and any("queries" in note for note in found.notes)
