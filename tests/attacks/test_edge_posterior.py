"""Posteriors through noise: the public law, better than the bits alone, calibrated, and refused where no law is known."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil import metrics
from edgeveil.attacks.noise_law import law_of
from edgeveil.attacks.run_attack import attack
from edgeveil.defences.defend import defend
from edgeveil.errors import InputError
from edgeveil.models.settings import TrainSpec
from zoo import planted

SHORT = TrainSpec(epochs=5)


@pytest.fixture(scope="module")
def graph():
    return planted(300, 6, 0.08, 0.002, 60, 0.35, train=110)


def test_the_laws_are_those_of_the_mechanisms():
    coin = law_of({"name": "edgerand", "params": {"epsilon": np.log(3.0)}}, 10, 100)
    assert (coin.kept, coin.false) == pytest.approx((0.75, 0.25))
    cut = law_of({"name": "lapgraph", "params": {"epsilon": 5.0}}, 400, 40_000)
    rng = np.random.default_rng(0)
    cells = np.r_[np.ones(400), np.zeros(39_600)]
    shown = [np.argsort(-(cells + rng.laplace(0, 1 / 4.95, 40_000)))[:400] for _ in range(200)]
    kept = np.mean([(s < 400).mean() for s in shown])
    assert cut.kept == pytest.approx(kept, abs=0.01) and 400 * cut.kept + 39_600 * cut.false == pytest.approx(400)
    assert law_of({"name": "gp-t", "params": {"epsilon": 4.0}}, 1, 2) is None and law_of(None, 1, 2) is None


@pytest.mark.parametrize(("defence", "epsilon"), [("edgerand", 4.0), ("lapgraph", 5.0)])
def test_the_posterior_beats_the_bits_and_the_features_alone(graph, defence, epsilon):
    release = defend(graph, defence, epsilon=epsilon, seed=0, train=SHORT)
    truth = None
    ap = {}
    for name in ("edge-posterior", "stored-graph", "lsa2-attr"):
        result = attack(release, name, nodes=np.arange(300))
        truth = graph.has_edges(*result.pairs)
        ap[name] = metrics.ranking(result.scores, truth)["average_precision"]
    assert ap["edge-posterior"] > 1.1 * max(ap["stored-graph"], ap["lsa2-attr"])


def test_probabilities_are_calibrated_through_edgerand(graph):
    """Expected and true edges agree within four standard deviations, over five seeds, in three ranges."""
    scores, truth = [], []
    for seed in range(5):
        result = attack(
            defend(graph, "edgerand", epsilon=4.0, seed=seed, train=SHORT), "edge-posterior", nodes=np.arange(300)
        )
        scores.append(result.scores)
        truth.append(graph.has_edges(*result.pairs))
    p, y = np.concatenate(scores), np.concatenate(truth)
    for low, high in ((0.0, 0.05), (0.05, 0.5), (0.5, 1.01)):
        inside = (p >= low) & (p < high)
        spread = np.sqrt((p[inside] * (1 - p[inside])).sum()) * np.sqrt(5)  # the same edges five times
        assert abs(p[inside].sum() - y[inside].sum()) <= 4 * spread + 0.1 * p[inside].sum()


def test_without_noise_the_stored_bit_decides_and_without_a_law_nothing(graph):
    exact = attack(defend(graph, "none", seed=0, train=SHORT), "edge-posterior", nodes=np.arange(80))
    assert np.array_equal(exact.scores, graph.has_edges(*exact.pairs) * 1.0)
    with pytest.raises(InputError, match="public law"):
        attack(defend(graph, "gp-t", epsilon=4.0, seed=0, train=SHORT), "edge-posterior")
    with pytest.raises(InputError, match="source"):
        attack(defend(graph, "none", seed=0, train=SHORT), "edge-posterior", source="guess")


def test_a_black_box_gets_its_noisy_graph_by_flatroot(graph):
    release = defend(graph, "lapgraph", epsilon=8.0, seed=0, train=SHORT)
    asked = attack(release, "edge-posterior", nodes=np.arange(100), source="questions")
    read = attack(release, "edge-posterior", nodes=np.arange(100))
    assert asked.access == "black-box" and asked.queries > 0 and read.access == "white-box"
    assert np.allclose(asked.scores, read.scores)


def test_a_whole_graph_lists_its_best_pairs(graph):
    release = defend(graph, "edgerand", epsilon=5.0, seed=0, train=SHORT)
    whole = attack(release, "edge-posterior", keep=500)
    assert whole.scores.shape == (500,) and whole.num_pairs == 300 * 299 // 2 and whole.floor <= whole.scores.min()
