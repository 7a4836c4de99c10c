"""The short way through an MLP's epochs gives the same bits as autograd."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from edgeveil.graph.features import FeatureMatrix
from edgeveil.models import train
from edgeveil.models.assemble import build
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.release.predictors import no_edges

N, CLASSES = 60, 3


def trained(x, spec, settings, val):
    y = np.random.default_rng(1).integers(0, CLASSES, N)
    mask = np.arange(N) < 25
    model = build(spec, x.shape[1], CLASSES, seed=4)
    history = train.fit(model, FeatureMatrix.wrap(x), no_edges(N), y, mask, val, settings, seed=2)
    return model, history


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("layers", "bias", "dropout"), [(1, "after", 0.0), (2, "none", 0.5), (3, "after", 0.2)])
@pytest.mark.parametrize("settings", [
    TrainSpec(lr=0.05, epochs=12, weight_decay=5e-4, schedule="linear", keep="best-val-loss"),
    TrainSpec(lr=0.05, epochs=12, keep="last"),
    TrainSpec(lr=0.05, epochs=30, keep="best-val-score", patience=3),
])  # fmt: skip
def test_same_bits_as_autograd(monkeypatch, sparse, layers, bias, dropout, settings):
    x = np.random.default_rng(0).normal(size=(N, 9)).astype(np.float32)
    x = sp.csr_matrix(np.where(x > 0.5, x, 0)) if sparse else x
    spec = ModelSpec(name="mlp", hidden=7, layers=layers, bias=bias, dropout=dropout)
    val = np.arange(N) >= 40
    short = trained(x, spec, settings, val)
    monkeypatch.setattr(train, "suits", lambda *_: False)
    long = trained(x, spec, settings, val)
    for mine, theirs in zip(short[0].parameters(), long[0].parameters(), strict=True):
        assert torch.equal(mine, theirs)
    for name in ("train_loss", "val_loss", "val_score", "kept_epoch", "stopped_early"):
        assert np.array_equal(getattr(short[1], name), getattr(long[1], name), equal_nan=True), name


def test_the_short_way_is_taken(monkeypatch):
    def refuse(*_):
        raise AssertionError("autograd was asked")

    monkeypatch.setattr(train, "_Work", refuse)
    x = np.random.default_rng(0).normal(size=(N, 9)).astype(np.float32)
    trained(x, ModelSpec(name="mlp", hidden=7), TrainSpec(epochs=2, keep="last"), None)
