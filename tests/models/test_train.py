from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from edgeveil.errors import InputError, StorageError, TrainingError, UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models import (
    CrossEntropy,
    EvalSet,
    ModelSpec,
    Structure,
    TrainSpec,
    build,
    fit,
    load_arrays,
    predict_logits,
    state_arrays,
)
from edgeveil.models.drop import Drop
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.network import Model
from edgeveil.models.objective import score
from edgeveil.models.train import _Work


def planted(seed: int = 0, n: int = 90, classes: int = 3):
    """Homophilous blocks with weak features: learnable with edges, harder without."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    same = y[:, None] == y[None, :]
    upper = np.triu(rng.random((n, n)) < np.where(same, 0.15, 0.01), 1)
    a = sp.csr_matrix((upper | upper.T).astype(float))
    x = sp.csr_matrix(
        (rng.random((n, 20)) < 0.1 + 0.2 * (np.arange(20)[None, :] % classes == y[:, None])).astype(float)
    )
    part = rng.permutation(n)
    masks = [np.isin(np.arange(n), part[i : i + n // 3]) for i in (0, n // 3, 2 * (n // 3))]
    return FeatureMatrix.wrap(x), Structure(a), y, *masks


def trained(spec: TrainSpec, model_spec: ModelSpec | None = None, seed: int = 0, **options):
    x, structure, y, train, val, test = planted()
    model = build(model_spec or ModelSpec(hidden=8), 20, 3, seed)
    history = fit(model, x, structure, y, train, val, spec, seed=seed, **options)
    return model, history, (x, structure, y, train, val, test)


SHORT = TrainSpec(epochs=30, lr=0.02)


LENDING = [
    ModelSpec(name=name, hidden=6, heads=2, kprop=1, activation=activation)
    for name in ("gcn", "gat", "sage", "transformer")
    for activation in ("relu", "selu")
]


@pytest.mark.fast(
    "cross-entropy-gcn-relu",
    "cross-entropy-gat-selu",
    "cross-entropy-transformer-relu",
    "cross-entropy-sage-relu1",
    "drop-gcn-selu",
    "drop-sage-relu0",
    "drop-gat-relu",
)
@pytest.mark.parametrize(
    "model", [*LENDING, ModelSpec(name="sage", fanout=2)], ids=lambda m: f"{m.name}-{m.activation}"
)
@pytest.mark.parametrize("goal", ["cross-entropy", "drop"])
def test_validation_lends_its_first_layer_to_the_next_step_unchanged(monkeypatch, model, goal):
    x, structure, y, train, val, _ = planted()
    spec, calls = replace(SHORT, keep="best-val-loss", epochs=12), []
    first = Model.first
    monkeypatch.setattr(Model, "first", lambda *args: calls.append(1) or first(*args))

    def run():
        objective = Drop(y, train, val, structure, classes=3, epsilon=3.0, steps=1) if goal == "drop" else None
        made = build(model, 20, 3, 0)
        return fit(made, x, structure, y, train, val, spec, seed=0, objective=objective), state_arrays(made)

    history, weights = run()
    lent = len(calls)
    monkeypatch.setattr(_Work, "_whole", lambda work: work._forward(work.x, work.structure))
    expected, plain = run()
    assert lent == (2 * spec.epochs if model.fanout else spec.epochs + 1)
    assert len(calls) - lent == 2 * spec.epochs
    assert history.train_loss == expected.train_loss
    assert history.val_loss == expected.val_loss
    assert all(np.array_equal(weights[k], plain[k]) for k in plain)


@pytest.mark.parametrize("name", ["gcn", "gat", "gatv2", "sage", "graphconv", "transformer", "mlp"])
def test_every_model_learns(name):
    spec = TrainSpec(epochs=60, lr=0.02, keep="best-val-score")
    model, history, (x, structure, y, _, _, test) = trained(spec, ModelSpec(name=name, hidden=8, heads=2))
    assert history.train_loss[-1] < 0.7 * history.train_loss[0]
    logits = predict_logits(model, x, structure)
    assert (logits.argmax(1) == y)[test].mean() > (0.4 if name == "mlp" else 0.5)


def test_same_seed_same_weights_and_the_global_generator_is_untouched():
    torch.manual_seed(123)
    before = torch.get_rng_state()
    first, *_ = trained(SHORT)
    assert torch.equal(torch.get_rng_state(), before)
    second, *_ = trained(SHORT)
    other, *_ = trained(SHORT, seed=1)
    a, b, c = state_arrays(first), state_arrays(second), state_arrays(other)
    assert all((a[k] == b[k]).all() for k in a)
    assert any((a[k] != c[k]).any() for k in a)


def test_sampled_neighbours_train_and_full_neighbours_answer():
    spec = ModelSpec(name="sage", hidden=8, fanout=2)
    model, _, (x, structure, *_) = trained(SHORT, spec)
    assert (predict_logits(model, x, structure) == predict_logits(model, x, structure)).all()
    torch.manual_seed(0)
    drawn = structure.sampled_mean(2).csr
    lengths = np.diff(structure.adjacency.indptr)
    assert (np.diff(drawn.indptr) == np.minimum(lengths, 2)).all()
    assert ((structure.adjacency != 0).multiply(drawn != 0).nnz) == drawn.nnz  # a subset of the edges
    assert np.allclose(np.asarray(drawn.sum(1)).ravel(), lengths > 0)


def test_every_neighbour_is_sampled_equally_often():
    star = sp.csr_matrix(([1.0] * 6, ([0] * 6, range(1, 7))), shape=(7, 7))
    torch.manual_seed(0)
    counts = sum(np.asarray((Structure(star).sampled_mean(2).csr != 0).todense())[0].astype(int) for _ in range(3000))
    # each of six neighbours with probability 1/3: six standard deviations
    assert np.abs(counts[1:] - 1000).max() < 6 * np.sqrt(3000 * 2 / 9)


@pytest.mark.parametrize("keep", ["best-val-loss", "best-val-score"])
def test_kept_weights_are_those_of_the_best_epoch(keep):
    model, history, (x, structure, y, _, val, _) = trained(replace(SHORT, keep=keep))
    best = int(np.argmin(history.val_loss)) if keep == "best-val-loss" else int(np.argmax(history.val_score))
    assert history.kept_epoch == best + 1
    logits = torch.tensor(predict_logits(model, x, structure, "float32"))
    measured = CrossEntropy(y, np.empty(0, int), np.flatnonzero(val)).validate(logits)
    assert measured[0] == pytest.approx(history.val_loss[best], rel=1e-4)


def test_least_train_loss_keeps_the_weights_that_had_it():
    spec = replace(SHORT, keep="least-train-loss", lr=0.3)
    model, history, (x, structure, y, train, _, _) = trained(spec, ModelSpec(hidden=8, dropout=0.0))
    assert history.kept_epoch == int(np.argmin(history.train_loss))
    logits = torch.tensor(predict_logits(model, x, structure, "float32"))
    loss = CrossEntropy(y, np.flatnonzero(train)).train_loss(logits)
    assert float(loss) == pytest.approx(min(history.train_loss), rel=1e-4)


def test_early_stopping_waits_patience_epochs():
    spec = TrainSpec(epochs=500, lr=0.1, weight_decay=0.0, keep="best-val-loss", patience=7)
    _, history, _ = trained(spec)
    assert history.stopped_early
    assert history.epochs == history.kept_epoch + 7


def test_linear_schedule_ends_near_zero():
    steps = []

    def watch(done, planned, figures):
        steps.append((done, planned))

    _, history, _ = trained(replace(SHORT, schedule="linear"), progress=watch)
    assert steps == [(i + 1, 30) for i in range(30)]
    assert not np.isnan(history.val_loss).any()


def test_mini_batches_equal_full_batches_in_size_one_run_and_learn():
    model_spec = ModelSpec(name="mlp", hidden=16, dropout=0.0)
    full, _, (x, structure, *_) = trained(SHORT, model_spec)
    whole, _, _ = trained(replace(SHORT, batch_size=1000), model_spec)
    assert np.array_equal(predict_logits(full, x, structure), predict_logits(whole, x, structure))
    _, history, _ = trained(replace(SHORT, batch_size=7), model_spec)
    assert history.train_loss[-1] < history.train_loss[0]


def test_features_on_disk_are_read_in_pieces(tmp_path, monkeypatch):
    """Training and prediction of an MLP on a memory map whose whole is never loaded."""
    rng = np.random.default_rng(0)
    path = tmp_path / "x.npy"
    np.save(path, rng.standard_normal((500, 20)).astype(np.float32))
    x = FeatureMatrix.wrap(np.load(path, mmap_mode="r"))
    y = (np.asarray(x.values)[:, 0] > 0).astype(int)
    monkeypatch.setattr("edgeveil.models.assemble._PIECE", 64)
    monkeypatch.setattr(FeatureMatrix, "toarray", lambda self: pytest.fail("loaded whole"))
    model = build(ModelSpec(name="mlp"), 20, 2, seed=0)
    empty = Structure(sp.csr_matrix((500, 500)))
    fit(model, x, empty, y, np.ones(500, bool), None, TrainSpec(epochs=10, batch_size=50), seed=0)
    assert not x._operands  # the torch form of all rows was never made
    assert (predict_logits(model, x, empty).argmax(1) == y).mean() > 0.9
    assert not x._operands


def test_l2_can_be_limited_to_the_first_layer():
    heavy = replace(SHORT, epochs=200, weight_decay=0.5)
    both, _, _ = trained(heavy)
    first, _, _ = trained(replace(heavy, l2_first_layer_only=True))
    a, b = state_arrays(both), state_arrays(first)
    assert np.abs(b["layers.1.weight"]).sum() > np.abs(a["layers.1.weight"]).sum()


def test_class_weights_equal_the_formula():
    y = np.array([0, 0, 0, 1])
    logits = torch.randn(4, 2)
    loss = CrossEntropy(y, np.arange(4), class_weights=True).train_loss(logits)
    weights = torch.tensor([4 / (2 * 3), 4 / 2])
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, torch.tensor(y), weight=weights))


def test_multilabel_training():
    x, structure, y, train, val, _ = planted()
    labels = np.eye(3, dtype=np.uint8)[y]
    labels[:, 0] |= labels[:, 1]
    model = build(ModelSpec(name="sage", hidden=16), 20, 3, seed=0)
    spec = TrainSpec(epochs=80, lr=0.02, keep="best-val-score")
    history = fit(model, x, structure, labels, train, val, spec, seed=0, multilabel=True)
    assert max(history.val_score) > 0.6
    assert score(torch.tensor([[1.0, -1.0]]), torch.tensor([[1.0, 1.0]])) == pytest.approx(2 / 3)


def test_validation_on_another_graph():
    x, structure, y, train, _, _ = planted()
    x2, structure2, y2, _, val2, _ = planted(seed=5)
    model = build(ModelSpec(hidden=8), 20, 3, seed=0)
    other = EvalSet(x2, structure2, y2, val2)
    history = fit(model, x, structure, y, train, None, replace(SHORT, keep="best-val-loss"), seed=0, validation=other)
    assert np.isfinite(history.val_loss).all()


def test_stored_propagation_does_not_change_training():
    """The same run with and without a stored P X, up to rounding."""
    x, structure, y, train, val, _ = planted()
    dense = FeatureMatrix.wrap(x.toarray())  # dense features: storing pays
    assert structure.remembering().worth_storing(as_operand(dense), "aug")
    one = build(ModelSpec(hidden=8, dropout=0.0), 20, 3, seed=0)
    fit(one, dense, structure, y, train, val, SHORT, seed=0)
    two = build(ModelSpec(hidden=8, dropout=0.0), 20, 3, seed=0)
    optimizer = torch.optim.Adam(two.parameters(), lr=SHORT.lr, weight_decay=SHORT.weight_decay)
    for _ in range(SHORT.epochs):
        optimizer.zero_grad()
        CrossEntropy(y, np.flatnonzero(train)).train_loss(two(as_operand(dense), structure)).backward()
        optimizer.step()
    assert np.allclose(predict_logits(one, x, structure), predict_logits(two, x, structure), atol=1e-4)


def test_nan_loss_stops_with_an_explanation():
    with pytest.raises(TrainingError, match=r"epoch 2.*learning rate"):
        trained(TrainSpec(epochs=5, lr=1e30))


def test_impossible_requests_are_refused():
    x, structure, y, train, val, _ = planted()
    model = build(ModelSpec(), 20, 3, seed=0)
    with pytest.raises(TrainingError, match="training mask is empty"):
        fit(model, x, structure, y, train & False, val, SHORT, seed=0)
    with pytest.raises(InputError, match="without_validation"):
        fit(model, x, structure, y, train, None, replace(SHORT, keep="best-val-loss"), seed=0)
    with pytest.raises(InputError, match="full batch"):
        fit(model, x, structure, y, train, val, replace(SHORT, batch_size=8), seed=0)
    with pytest.raises(InputError, match="multilabel"):
        fit(model, x, structure, y, train, val, SHORT, seed=0, multilabel=True)
    with pytest.raises(TrainingError, match="no label"):
        fit(model, x, structure, np.where(train, -1, y), train, val, SHORT, seed=0)
    with pytest.raises(UnknownNameError, match="best-val-loss"):
        TrainSpec(keep="best-val-los")
    assert replace(SHORT, keep="best-val-loss", patience=3).without_validation().needs_validation is False


# -- weights and settings ---------------------------------------------------------------------------------------------


def test_weights_travel_as_arrays():
    model, _, (x, structure, *_) = trained(SHORT)
    other = build(model.spec, 20, 3, seed=9)
    load_arrays(other, state_arrays(model))
    assert (predict_logits(model, x, structure) == predict_logits(other, x, structure)).all()
    with pytest.raises(StorageError, match="another model"):
        load_arrays(build(ModelSpec(hidden=9), 20, 3, seed=0), state_arrays(model))


def test_prediction_precision_and_mode():
    model, _, (x, structure, *_) = trained(SHORT)
    model.train()
    single, double = predict_logits(model, x, structure, "float32"), predict_logits(model, x, structure.adjacency)
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    assert np.allclose(single, double, atol=1e-4)
    assert model.training  # as it was


def test_specs_round_trip_through_json():
    spec = ModelSpec(name="GAT", heads=3, bias=False, skip=True)
    assert ModelSpec.from_json(json.dumps(spec.to_json())) == spec
    assert spec.bias == "none" and spec.name == "gat"
    train = TrainSpec(patience=4)
    assert TrainSpec.from_json(train.to_json()) == train
    with pytest.raises(UnknownNameError, match="hidden"):
        ModelSpec.from_json({"hiden": 3})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"name": "gnc"}, "gcn"),
        ({"norm": "augg"}, "aug"),
        ({"dropout": 1.0}, "dropout"),
        ({"layers": 0}, "layers"),
        ({"fanout": 3}, "sage"),
        ({"name": "gat", "bias": "before"}, "gcn"),
        ({"name": "mlp", "skip": True}, "skip"),
    ],
)
def test_nonsense_models_are_refused(bad, message):
    with pytest.raises(InputError, match=message):
        ModelSpec(**bad)
