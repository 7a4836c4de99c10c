"""Node scores average to the metric, and their spread is that of the metric."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.errors import InputError
from edgeveil.metrics.node_scores import imbalanced, majority_said, node_scores
from edgeveil.metrics.utility import utility


@pytest.mark.parametrize(("metric", "classes"), [("micro_f1", 4), ("macro_f1", 4), ("rare_f1", 2)])
def test_their_mean_is_the_metric(metric: str, classes: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.choice(classes, 300, p=np.arange(1, classes + 1) / np.arange(1, classes + 1).sum())
    said = np.where(rng.random(300) < 0.6, y, rng.integers(0, classes, 300))
    expected = utility(np.eye(classes)[said], y)[metric]
    assert node_scores(said, y, classes, metric).mean() == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["accuracy", "micro_f1", "macro_f1"])
def test_their_mean_is_the_metric_with_several_labels_per_node(metric: str) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random((200, 7)) < np.linspace(0, 0.5, 7)).astype(int)  # the first label never occurs
    said = np.where(rng.random(y.shape) < 0.7, y, rng.integers(0, 2, y.shape))
    expected = utility(said - 0.5, y, multilabel=True)[metric]
    assert node_scores(said, y, 7, metric).mean() == pytest.approx(expected)


def test_their_spread_is_that_of_micro_f1_with_several_labels_per_node() -> None:
    rng = np.random.default_rng(2)
    values, errors = [], []
    for _ in range(400):
        y = (rng.random((300, 5)) < rng.random((300, 1))).astype(int)
        said = np.where(rng.random(y.shape) < 0.75, y, 1 - y)
        scores = node_scores(said, y, 5, "micro_f1")
        values.append(scores.mean())
        errors.append(scores.std() / 300**0.5)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.12)


def test_their_spread_is_that_of_macro_f1_over_samples() -> None:
    rng = np.random.default_rng(1)
    values, errors = [], []
    for _ in range(400):
        y = (rng.random(400) < 0.2).astype(int)
        said = np.where(rng.random(400) < 0.75, y, 1 - y)
        scores = node_scores(said, y, 2, "macro_f1")
        values.append(scores.mean())
        errors.append(scores.std() / 20)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.12)


def test_majority_and_imbalance() -> None:
    y = np.array([0, 0, 0, 1, 2, -1])
    assert (majority_said(y, np.array([0, 0, 0, 1, 1, 1], bool), 3) == 1).all()
    assert imbalanced(np.repeat([0, 1], [70, 30])) and imbalanced(np.repeat([0, 1, 2], [50, 50, 5]))
    assert not imbalanced(np.repeat([0, 1, 2], [30, 20, 10])) and not imbalanced(np.array([-1, -1]))


def test_a_metric_without_node_scores_is_refused() -> None:
    with pytest.raises(InputError, match="no node-by-node form"):
        node_scores([0], [0], 2, "auc")
