"""Drop: forward correction and label propagation, against the formulas written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from edgeveil.errors import InputError
from edgeveil.models import ModelSpec, TrainSpec, build, fit
from edgeveil.models.drop import Drop
from edgeveil.models.structure import Structure
from edgeveil.privacy.label_rr import label_transition
from zoo import toy


def make(steps: int, epsilon: float = 1.0) -> tuple[Drop, np.ndarray, object]:
    graph = toy(30)
    assert graph.masks is not None and graph.y is not None
    drop = Drop(
        graph.y, graph.masks.train, graph.masks.val, Structure(graph.adjacency), classes=3, epsilon=epsilon, steps=steps
    )
    return drop, np.random.default_rng(0).normal(size=(30, 3)), graph


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_the_loss_is_the_written_formula(steps: int) -> None:
    drop, logits, graph = make(steps)
    a = np.asarray(graph.adjacency.todense(), float)  # type: ignore[attr-defined]
    root = np.divide(1, np.sqrt(a.sum(1)), out=np.zeros(30), where=a.sum(1) > 0)
    p = np.linalg.matrix_power(root[:, None] * a * root, steps)

    def softmax(z: np.ndarray) -> np.ndarray:
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def denoise(z: np.ndarray) -> np.ndarray:
        return softmax(p @ z) if steps else z

    masks, y = graph.masks, graph.y  # type: ignore[attr-defined]
    sent = np.zeros((30, 3))
    known = masks.train | masks.val
    sent[known, y[known]] = 1
    heard = p @ sent
    alone = heard.sum(1) == 0
    target = np.where(alone, y, heard.argmax(1))
    reported = softmax(logits) @ label_transition(1.0, 3)
    train = np.flatnonzero(masks.train)
    want = -np.log(np.where(alone[:, None], reported, denoise(reported))[train, target[train]]).mean()
    assert math.isclose(float(drop.train_loss(torch.tensor(logits))), want, rel_tol=1e-6)
    val = np.flatnonzero(masks.val)
    loss, accuracy = drop.validate(torch.tensor(logits)) or (0, 0)
    assert math.isclose(loss, -np.log(reported[val, y[val]]).mean(), rel_tol=1e-9)
    assert math.isclose(accuracy, (reported[val].argmax(1) == y[val]).mean())


def test_without_noise_and_steps_it_is_cross_entropy() -> None:
    drop, logits, graph = make(0, math.inf)
    train = torch.tensor(np.flatnonzero(graph.masks.train))  # type: ignore[attr-defined]
    want = torch.nn.functional.cross_entropy(torch.tensor(logits)[train], torch.tensor(graph.y)[train])  # type: ignore[attr-defined]
    assert torch.isclose(drop.train_loss(torch.tensor(logits)), want)


@pytest.mark.parametrize("published", [False, True])
def test_a_node_that_hears_no_report_learns_its_own(published: bool) -> None:
    """Node 0 hears the unlabelled node 3 only: the published code would teach it class 0."""
    lists = sp.csr_matrix(np.array([[0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]))
    known = np.array([True, True, True, False])
    drop = Drop(
        np.array([2, 1, 1, 0]), known, None, Structure(lists), classes=3, epsilon=1.0, steps=1, published=published
    )
    assert drop.target.tolist() == [0 if published else 2, 1, 1]
    logits = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (own,) = torch.autograd.grad(drop.train_loss(logits), logits)
    assert bool(own[0].any()) != published
    reported = torch.softmax(logits.detach(), 1) @ torch.tensor(label_transition(1.0, 3))
    rows = torch.softmax(reported[[3, 2, 1]], 1)
    if not published:
        rows[0] = reported[0]
    want = -torch.log(rows[torch.arange(3), drop.target]).mean()
    assert torch.isclose(drop.train_loss(logits.detach()), want)


def test_an_epoch_is_reported_as_the_authors_code_reports_it() -> None:
    """Loss must fall and both accuracies rise against the last reported epoch, never above what the noise allows."""
    drop, _, _ = make(0)
    keep = drop.keep
    epochs = [
        (1.0, keep + 0.01, 0.2, False),  # better than the label noise allows
        (1.0, 0.3, 0.2, True),
        (0.9, 0.3, 0.3, False),  # validation accuracy does not rise
        (1.1, 0.4, 0.3, False),  # loss rises
        (0.9, 0.4, 1.06 * keep, False),  # training accuracy above 1.05 of what the noise allows
        (0.9, 0.4, 0.3, True),
    ]
    for loss, val, train, reported in epochs:
        drop._note(loss, val, train)
        assert drop.reports is reported, (loss, val, train)


def test_keep_reported_is_the_last_reported_epoch_and_needs_noisy_labels() -> None:
    drop, _, graph = make(0, epsilon=3.0)
    x, masks = graph.x, graph.masks  # type: ignore[attr-defined]
    structure, seen = Structure(graph.adjacency), []  # type: ignore[attr-defined]

    def train(objective: Drop | None) -> Any:
        model = build(ModelSpec(name="gcn", hidden=8), x.shape[1], 3, seed=1)
        spec = TrainSpec(epochs=25, lr=0.05, keep="reported")
        note = lambda epoch, _, figures: seen.append(epoch) if drop.reports else None  # noqa: E731
        return fit(
            model,
            x,
            structure,
            graph.y,
            masks.train,
            masks.val,
            spec,
            seed=0,
            objective=objective,
            progress=note,  # type: ignore[attr-defined]
        )

    kept = train(drop).kept_epoch
    assert seen and kept == seen[-1] < 25
    with pytest.raises(InputError, match="noisy labels"):
        train(None)
