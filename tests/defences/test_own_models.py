"""Every registered defence with a user's module: it trains it, or says in one sentence that it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.zoo import PLAIN, toy
from torch.nn import LayerNorm, Linear, Module

import edgeveil as ev
from edgeveil.defences.defence import DEFENCES
from edgeveil.errors import InputError
from edgeveil.models.own_models import OwnModel
from edgeveil.models.settings import TrainSpec

pyg = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("short_read_outs")


class Residual(Module):
    """LayerNorm, a residual and jumping knowledge; takes no weights."""

    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.inner, self.a, self.b = Linear(i, 8), pyg.SAGEConv(8, 8), pyg.SAGEConv(8, 8)
        self.norm, self.jump, self.out = LayerNorm(8), pyg.JumpingKnowledge("cat"), Linear(16, o)

    def forward(self, x, edge_index):
        first = self.inner(x)
        second = first + self.norm(self.a(first, edge_index)).relu()
        third = second + self.norm(self.b(second, edge_index)).relu()
        return self.out(self.jump([second, third]))


class Weighted(Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.a, self.b = pyg.GCNConv(i, 8), pyg.GCNConv(8, o)

    def forward(self, x, edge_index, edge_weight=None):
        return self.b(self.a(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


def release_of(defence: str, model: object) -> ev.Release:
    epsilon = None if defence in PLAIN else 8.0
    return ev.defend(toy(), defence, epsilon=epsilon, model=model, seed=0, train=TrainSpec(epochs=3))


@pytest.mark.parametrize("model", [Residual, pytest.param(Weighted, marks=pytest.mark.slow)])
@pytest.mark.parametrize("defence", DEFENCES.names())
def test_every_defence_trains_it_or_says_so(defence: str, model: type[Module], tmp_path: Path) -> None:
    release = release_of(defence, model)
    words = " ".join(release.notes)
    if release.model != f"{model.__module__}:{model.__qualname__}":
        assert "own model" in words or "is ignored" in words or "MLP" in words, (release.model, words)
    again = ev.Release.load(release.save(tmp_path / "r"))
    np.testing.assert_array_equal(again.predict(), release.predict())
    found = ev.attack(again, "linkteller", nodes=np.arange(15))
    assert np.isfinite(found.scores).all()


@pytest.mark.parametrize("defence", DEFENCES.names())
def test_own_training_is_used_or_refused(defence: str) -> None:
    """A fit function never sees labels that a defence randomises, and never the private graph."""
    seen = []

    def train(module, data, train_mask, val_mask, seed):
        seen.append(data)
        loss = torch.nn.functional.cross_entropy(module(data.x, data.edge_index)[train_mask], data.y[train_mask])
        loss.backward()

    try:
        release = release_of(defence, OwnModel(Residual, fit=train))
    except InputError as error:
        assert "randomises labels" in str(error) and not seen
        return
    assert seen or "MLP" in " ".join(release.notes) or "is ignored" in " ".join(release.notes)
    private = {tuple(e) for e in np.argwhere(toy().adjacency.toarray())}
    for data in seen if release.guarantee.status == "sound" and release.guarantee.epsilon == 8.0 else []:
        assert {tuple(e) for e in data.edge_index.T.tolist()} != private
