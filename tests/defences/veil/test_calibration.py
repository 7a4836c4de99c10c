"""Temperature, mixture and guard on answers whose best choice is known."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.defences.veil.calibration import hits, is_better, log_loss, mixture_weight, temperature


def test_log_loss_of_known_probabilities() -> None:
    assert log_loss(np.log([[0.25, 0.75], [0.5, 0.5]]), [1, 0]) == pytest.approx(-(np.log(0.75) + np.log(0.5)) / 2)
    both = np.log([[3.0, 1 / 3]])  # logistic: 0.75 and 0.25
    assert log_loss(both, np.array([[1, 0]])) == pytest.approx(-np.log(0.75))


def test_temperature_undoes_a_known_factor() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 4))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)
    assert temperature(5 * logits, y) == pytest.approx(5, rel=0.12)


def test_mixture_prefers_the_informed_part() -> None:
    y = np.arange(300) % 3
    informed, noise = 2.0 * np.eye(3)[y], np.random.default_rng(1).normal(size=(300, 3))
    assert mixture_weight(noise, informed, y) > 0.8 > 0.2 > mixture_weight(informed, noise, y)


def test_the_guard_lets_chance_through_rarely() -> None:
    """Two equally good classifiers: a gain of more than one standard error has probability 0.16 at most, up to
    ties; 1,000 trials stay below 0.20 with probability above 0.999."""
    rng = np.random.default_rng(2)
    passed = 0
    for _ in range(1000):
        y = rng.integers(2, size=200)
        a, b = (np.eye(2)[np.where(rng.random(200) < 0.7, y, 1 - y)] for _ in range(2))
        passed += is_better(a, b, y)
    assert passed < 200
    y = np.zeros(50, np.int64)
    assert is_better(np.eye(2)[y], np.eye(2)[np.r_[np.ones(5, int), y[5:]]], y)
    assert not is_better(np.eye(2)[y], np.eye(2)[y], y) and not is_better(np.eye(2)[y[:1]], np.eye(2)[1 - y[:1]], y[:1])


def test_hits_of_label_vectors_are_shares_of_cells() -> None:
    np.testing.assert_allclose(hits(np.array([[1.0, -1, 1]]), np.array([[1, 1, 1]])), [2 / 3])
