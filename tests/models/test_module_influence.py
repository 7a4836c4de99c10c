"""Exact influence of modules by forward-mode differentiation equals queries, and reaches as far as the module does."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.models.test_module import Net, Plain, made
from torch.nn import Dropout, Linear, Module

import edgeveil as ev
from edgeveil.models.module_influence import groups, tangent_map
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


@pytest.mark.fast(
    "none-pyg:GIN",
    "none-pyg:PNA",
    "none-Jumping",
    "feature-graph-like-Net",
    "feature-graph-like-pyg:GAT",
    "kprop-pyg:GIN",
    "kprop-GraphWide",
)
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


def test_the_module_runs_a_fixed_number_of_times() -> None:
    """Directions repeat the linear part only: forty senders cost no more runs than four."""
    runs = []

    class Counted(Net):
        def forward(self, x, edge_index, edge_weight=None):
            runs.append(len(x))
            return super().forward(x, edge_index, edge_weight)

    graph = graph_without_ties()
    release = ev.defend(graph, "none", model=Counted, seed=0, train=TrainSpec(epochs=2), scaling="none")
    counts = []
    for nodes in (np.arange(4), np.arange(40)):
        runs.clear()
        release.influence(nodes)
        counts.append(len(runs))
    assert counts[0] == counts[1] < 12


@pytest.mark.parametrize("fault", ["none", "backward raises", "backward is wrong"])
def test_derivatives_that_exist_forward_only_are_taken_forward(fault: str) -> None:
    class Cube(torch.autograd.Function):
        generate_vmap_rule = False

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, move):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * move

        @staticmethod
        def backward(ctx, grad):
            if fault == "backward raises":
                raise NotImplementedError("forward only")
            (x,) = ctx.saved_tensors
            return (2 if fault == "backward is wrong" else 3) * x**2 * grad

    generator = torch.Generator().manual_seed(0)
    x, moves = (torch.randn(n, 5, dtype=torch.float64, generator=generator) for n in (1, 3))
    change = tangent_map(Cube.apply, x[0], moves[0])
    for move in moves:
        torch.testing.assert_close(change(move), 3 * x[0] ** 2 * move, rtol=1e-12, atol=0)


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
