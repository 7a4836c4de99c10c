"""The Bayesian read-out: its likelihood is the stated one, it finds the mixing, and it never falls behind for good."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.lpgnet.bayes_readout import WEIGHTS, choose, class_prior
from edgeveil.defences.lpgnet.count_model import CountModel, fit_count_model
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise, degree_noise
from edgeveil.models import ModelSpec, TrainSpec
from edgeveil.privacy.noise import noise_for

QUICK: dict[str, Any] = {
    "model": ModelSpec(name="mlp", hidden=8, bias=False),
    "train": TrainSpec(epochs=30, lr=0.05, schedule="linear", keep="best-val-loss"),
}


def poisson(k: int, rate: float) -> float:
    return math.exp(-rate) * rate**k / math.factorial(k)


def test_likelihood_is_the_sum_over_true_counts_and_rates() -> None:
    mixing = np.array([[0.8, 0.2], [0.3, 0.7]])
    model = CountModel(mixing, np.array([1.0, 5.0]), np.array([0.4, 0.6]), DegreeNoise("discrete", 1.5))
    x = np.array([[3.0, -1.0], [0.0, 4.0]])
    found = model.log_likelihood(x)
    for row in range(2):
        scores = []
        for c in range(2):
            total = 0.0
            for rate, weight in ((1.0, 0.4), (5.0, 0.6)):
                cells = [
                    sum(poisson(k, rate * mixing[c, j]) * math.exp(-abs(x[row, j] - k) / 1.5) for k in range(60))
                    for j in range(2)
                ]
                total += weight * cells[0] * cells[1]
            scores.append(math.log(total))
        assert np.allclose(np.diff(found[row]), np.diff(scores), atol=1e-3)


@pytest.mark.parametrize("law", ["discrete", "continuous"])
@pytest.mark.parametrize(
    "mixing", [[[0.9, 0.1], [0.2, 0.8]], [[0.1, 0.9], [0.85, 0.15]]], ids=["homophily", "heterophily"]
)
def test_the_fit_recovers_class_mixing_through_noise(law: str, mixing: list[list[float]]) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    counts = rng.poisson(6.0 * np.array(mixing)[y])
    x = counts + degree_noise(noise_for(1), law, 2, counts.shape)  # type: ignore[arg-type]
    prior = np.where(np.eye(2)[y] == 1, 0.7, 0.3)
    model = fit_count_model(x, prior, DegreeNoise(law, 2.0))  # type: ignore[arg-type]
    assert np.allclose(model.mixing, mixing, atol=0.06)
    right = (np.log(prior) + model.log_likelihood(x)).argmax(1) == y
    assert right.mean() > 0.8
    assert model.weights.sum() == pytest.approx(1.0)


def test_known_labels_are_certain_and_others_follow_the_classifier() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 1.0]])
    prior = class_prior(logits, 1.0, np.array([1, 0]), np.array([True, False]))
    assert np.array_equal(prior[0], [0.0, 1.0]) and prior[1, 1] == pytest.approx(1 / (1 + math.exp(-1)))


def test_useless_evidence_falls_back_to_the_mlp() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    logits = 2.0 * np.eye(3)[y] + rng.normal(size=(600, 3))
    val = np.arange(600) < 300
    assert choose(logits, 4.0 * rng.normal(size=(600, 3)), y, val).weight == 0.0
    assert choose(logits, 2.0 * np.eye(3)[y], y, val).weight == max(WEIGHTS)


def graph_of(same: float, other: float, n: int = 300, seed: int = 0) -> ev.Graph:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    u, v = np.triu_indices(n, 1)
    keep = rng.random(len(u)) < np.where(y[u] == y[v], same, other)
    x = (rng.random((n, 18)) < 0.15 + 0.25 * (np.arange(18) % 3 == y[:, None])).astype(np.float32)
    order = rng.permutation(n)
    part = [np.isin(np.arange(n), order[a:b]) for a, b in ((0, 60), (60, 160), (160, n))]
    edges = np.stack([u[keep], v[keep]])
    return ev.Graph.from_edges(edges, x=x, y=y, train_mask=part[0], val_mask=part[1], test_mask=part[2])


@pytest.mark.parametrize(("same", "other"), [(0.08, 0.005), (0.002, 0.06)], ids=["homophily", "heterophily"])
def test_reads_more_out_of_the_same_epsilon_than_no_edges(same: float, other: float) -> None:
    graph = graph_of(same, other)
    gain = []
    for seed in range(3):
        mlp = ev.defend(graph, "mlp", seed=seed, **QUICK).utility("test")["accuracy"]
        release = ev.defend(graph, "lpgnet-1", epsilon=4.0, readout="bayes", seed=seed, **QUICK)
        gain.append(release.utility("test")["accuracy"] - mlp)
        assert release.guarantee.epsilon == 4.0 and len(release.guarantee.charges) == 1
    assert np.mean(gain) > 0.05


@pytest.mark.parametrize("setting", ["transductive", "inductive-evolving"])
def test_it_is_stored_and_answers_without_the_graph(tmp_path: Any, setting: str) -> None:
    graph = graph_of(0.06, 0.005)
    release = ev.defend(graph, "lpgnet-2", epsilon=4.0, readout="bayes", seed=0, setting=setting, **QUICK)
    loaded = ev.Release.load(release.save(tmp_path / "r"))
    assert np.allclose(loaded.predict(), release.predict())
    assert np.allclose(release.predict(nodes=[3, 9], induced=True), release.predict(nodes=[3, 9]))
    assert release.influence([0, 1]).nnz == 0


def test_it_moves_to_another_graph_and_works_without_validation_nodes() -> None:
    graph, other = graph_of(0.06, 0.005), graph_of(0.06, 0.005, n=150, seed=4)
    release = ev.defend(graph, "lpgnet-1", epsilon=4.0, readout="bayes", seed=0, inference_graph=other, **QUICK)
    assert release.predict().shape == (150, 3)
    bare = ev.Graph.from_edges(graph.edge_index, x=graph.x, y=graph.y, train_mask=graph.train_mask)
    unchecked = ev.defend(bare, "lpgnet-1", epsilon=4.0, readout="bayes", seed=0, **QUICK)
    assert np.isfinite(unchecked.predict()).all()
    assert any("fixed weight 0.35" in note for note in unchecked.notes)
    assert not any("fixed weight" in note for note in release.notes)


def test_noise_is_read_unclipped() -> None:
    graph = graph_of(0.06, 0.005)
    release = ev.defend(graph, "lpgnet-1", epsilon=1.0, readout="bayes", seed=0, **QUICK)
    assert release.predictor.vectors[0].min() < 0  # type: ignore[attr-defined]
    unclipped = ev.defend(graph, "lpgnet-1", epsilon=1.0, readout="bayes", clip=False, seed=0, **QUICK)
    assert np.array_equal(unclipped.predict(), release.predict())
