"""Temperature, mixture and guard on answers whose best choice is known."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.defences.veil.calibration import is_better, like_moves, log_loss, mixture_weight, scores, temperature
from edgeveil.metrics.utility import f1_scores


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
    assert is_better(np.eye(3)[y], np.eye(3)[np.r_[np.ones(5, int), y[5:]]], y)
    assert not is_better(np.eye(3)[y], np.eye(3)[y], y) and not is_better(np.eye(3)[y[:1]], np.eye(3)[1 - y[:1]], y[:1])


def test_a_rare_class_is_judged_by_its_f1() -> None:
    """Who always names the large class is right more often, and of no use to the rare one."""
    y = (np.arange(1000) % 10 == 0).astype(int)
    silent, brave = np.zeros_like(y), np.where(np.arange(1000) % 10 < 3, 1 - y, y)
    brave[y == 1] = 1
    assert (silent == y).mean() > (brave == y).mean()
    assert is_better(np.eye(2)[brave], np.eye(2)[silent], y) and not is_better(np.eye(2)[silent], np.eye(2)[brave], y)


def test_the_standard_error_of_an_f1_is_that_of_resampled_nodes() -> None:
    """2,000 bootstrap samples of 400 nodes give the spread of a gain in F1 to a few percent."""
    rng = np.random.default_rng(4)
    y = (rng.random(400) < 0.25).astype(int)
    a, b = (np.where(rng.random(400) < right, y, 1 - y) for right in (0.8, 0.7))
    gain = scores(np.eye(2)[a], y) - scores(np.eye(2)[b], y)
    drawn = rng.integers(400, size=(2000, 400))
    again = [f1_scores(a[i], y[i], 2)[1] - f1_scores(b[i], y[i], 2)[1] for i in drawn]
    assert gain.mean() == pytest.approx(f1_scores(a, y, 2)[1] - f1_scores(b, y, 2)[1])
    assert gain.std(ddof=1) / 20 == pytest.approx(np.std(again), rel=0.12)


def test_several_labels_per_node_are_judged_by_their_micro_f1() -> None:
    logits, y = np.array([[1.0, -1, 1], [1, -1, -1]]), np.array([[1, 1, 1], [1, 0, 0]])
    assert scores(logits, y).mean() == pytest.approx(6 / 7)


def moved(nodes: int, up: float, down: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits before and after: shares of the nodes that go from class 0 to 1 and back."""
    rng = np.random.default_rng(seed)
    before = (rng.random(nodes) < 0.25).astype(int)
    chance = np.where(before == 0, up / 0.75, down / 0.25)
    return np.eye(2)[before], np.eye(2)[np.where(rng.random(nodes) < chance, 1 - before, before)]


def test_another_graph_must_be_moved_as_the_one_that_judged() -> None:
    """Equal shares pass in all but few of 200 trials; half of one of them is seen with a thousand nodes."""
    alike = [
        like_moves(moved(900, 0.025, 0.025, s), moved(4000, 0.025, 0.025, s + 999), multilabel=False)
        for s in range(200)
    ]
    assert sum(alike) >= 190
    assert not like_moves(moved(900, 0.025, 0.025, 0), moved(4000, 0.003, 0.03, 1), multilabel=False)
    same = moved(500, 0.0, 0.0, 0)
    assert like_moves(same, same, multilabel=False), "nothing moves anywhere"


def test_several_labels_per_node_move_cell_by_cell() -> None:
    before = np.where(np.random.default_rng(0).random((500, 3)) < 0.5, 1.0, -1.0)
    after = before.copy()
    after[:100, 0] *= -1
    assert like_moves((before, after), (before, after), multilabel=True)
    assert not like_moves((before, after), (before, before), multilabel=True)
