from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.scaling import Scaling
from edgeveil.models import ModelSpec, Structure, TrainSpec, build, fit
from edgeveil.models.blocks import Blocks, small_blocks
from edgeveil.models.kernels.operand import as_operand

MODELS = ["gcn", "gat", "gatv2", "sage", "graphconv", "transformer"]


def sparse_graph(n: int = 60, seed: int = 0) -> tuple[FeatureMatrix, Structure]:
    rng = np.random.default_rng(seed)
    a = (sp.random(n, n, 0.03, random_state=rng) != 0).astype(float).tocsr()
    x = sp.random(n, 9, 0.3, format="csr", random_state=rng)
    return Scaling.fit("standard", x).apply(x), Structure(a)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_blocks_give_the_logits_and_gradients_of_the_whole_graph(name, layers):
    x, whole = sparse_graph()
    skip = True if name in ("gcn", "gat", "gatv2") else None
    bias = "before" if name == "gcn" else "after"
    model = (
        build(ModelSpec(name=name, layers=layers, hidden=4, heads=2, skip=skip, bias=bias), 9, 3, seed=0)
        .double()
        .eval()
    )
    nodes = np.array([3, 17, 40])
    blocks = Blocks(whole, nodes, layers)
    expected = model(as_operand(x, "float64"), whole)[nodes]
    found = model(as_operand(x.take(blocks.inputs), "float64"), blocks)
    torch.testing.assert_close(found, expected)
    weights = list(model.parameters())
    for a, b in zip(
        torch.autograd.grad(found.square().sum(), weights),
        torch.autograd.grad(expected.square().sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_blocks_read_only_the_neighbourhood():
    path = sp.diags([1.0, 1.0], [-1, 1], shape=(20, 20), format="csr")
    blocks = small_blocks(Structure(path), np.array([10]), 2)
    assert list(blocks.inputs) == [8, 9, 10, 11, 12]
    assert small_blocks(Structure(path), np.arange(20), 2) is None


def test_sampling_works_inside_blocks():
    x, whole = sparse_graph()
    model = build(ModelSpec(name="sage", hidden=4, fanout=1), 9, 3, seed=0).train()
    blocks = Blocks(whole, np.array([3, 17]), 2)
    assert model(as_operand(x.take(blocks.inputs)), blocks).shape == (2, 3)


@pytest.mark.parametrize("name", MODELS)
def test_training_on_blocks_equals_training_on_the_graph(name, monkeypatch):
    x, whole = sparse_graph()
    y = np.random.default_rng(1).integers(0, 3, 60)
    train, val = np.arange(60) < 5, (np.arange(60) >= 5) & (np.arange(60) < 12)
    spec = TrainSpec(epochs=15, keep="best-val-loss")

    def run() -> list[float]:
        model = build(ModelSpec(name=name, hidden=4, dropout=0.0), 9, 3, seed=0)
        history = fit(model, x, whole, y, train, val, spec, seed=0)
        return history.train_loss + history.val_loss

    cut = run()
    monkeypatch.setattr("edgeveil.models.train.small_blocks", lambda *_: None)
    assert cut == pytest.approx(run(), rel=1e-4, abs=1e-5)
