"""Posteriors through noise: the public law, better than the bits alone, calibrated, and refused where no law is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from edgeveil import metrics
from edgeveil.attacks.posterior.laws import CoinLaw, EndsLaw, law_of
from edgeveil.attacks.run_attack import attack
from edgeveil.defences.defend import defend
from edgeveil.errors import InputError
from edgeveil.models.settings import TrainSpec
from zoo import planted

SHORT = TrainSpec(epochs=5)


@pytest.fixture(scope="module")
def graph():
    return planted(300, 6, 0.08, 0.002, 60, 0.35, train=110)


def _ring(n, reach):
    """Every node lists its `reach` next ones and is listed by them."""
    i = np.repeat(np.arange(n), reach)
    j = (i + np.tile(np.arange(1, reach + 1), n)) % n
    a = sp.csr_matrix((np.ones(len(i)), (i, j)), shape=(n, n))
    return ((a + a.T) > 0).astype(float).tocsr()


def test_the_laws_are_those_of_the_mechanisms():
    lists = _ring(200, 2)  # 400 of 19,900 pairs
    coin = law_of({"name": "edgerand", "params": {"epsilon": np.log(3.0)}}, lists)
    assert isinstance(coin, CoinLaw) and (coin.kept, coin.false) == pytest.approx((0.75, 0.25))
    cut = law_of({"name": "lapgraph", "params": {"epsilon": 5.0}}, lists)
    assert isinstance(cut, CoinLaw) and cut.density == pytest.approx(400 / 19_900)
    rng = np.random.default_rng(0)
    cells = np.r_[np.ones(400), np.zeros(19_500)]
    shown = [np.argsort(-(cells + rng.laplace(0, 1 / 4.95, 19_900)))[:400] for _ in range(200)]
    kept = np.mean([(s < 400).mean() for s in shown])
    assert cut.kept == pytest.approx(kept, abs=0.01) and 400 * cut.kept + 19_500 * cut.false == pytest.approx(400)


def test_entries_by_both_ends_are_weighed_by_moments():
    """Randomised response: E and T follow from pairs shown once and twice, here made exact by construction."""
    n, flip, edges, near = 400, 0.25, 800, 3200
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(n, 1)
    chosen = rng.choice(len(i), edges + near, replace=False)
    real = np.arange(len(chosen)) < edges
    ends = [real ^ (rng.random(len(chosen)) < flip) for _ in range(2)]
    rows = np.r_[i[chosen][ends[0]], j[chosen][ends[1]]]
    columns = np.r_[j[chosen][ends[0]], i[chosen][ends[1]]]
    lists = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    law = law_of({"name": "rr", "params": {"epsilon": np.log(3.0)}}, lists)
    assert isinstance(law, EndsLaw)
    for count in (1, 2):
        assert law.by_ends[count] == pytest.approx(real[ends[0].astype(int) + ends[1] == count].mean(), abs=0.05)


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
        attack(defend(graph, "blink", epsilon=4.0, seed=0, train=SHORT), "edge-posterior")
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


@pytest.mark.parametrize("defence", ["lapgraph", "edgerand"])
def test_which_nodes_are_asked_about_does_not_change_what_is_believed(graph, defence):
    """The prior is learned from all that is shown: a few nodes' pairs show too little of a strong noise."""
    release = defend(graph, defence, epsilon=4.0, seed=0, train=SHORT)
    whole = attack(release, "edge-posterior", nodes=np.arange(300))
    few = attack(release, "edge-posterior", nodes=np.arange(40))
    index = {pair: k for k, pair in enumerate(zip(*whole.pairs.tolist(), strict=True))}
    at = [index[pair] for pair in zip(*few.pairs.tolist(), strict=True)]
    assert np.allclose(few.scores, whole.scores[at])


@pytest.mark.parametrize(("defence", "epsilon"), [("gp-t", 1.0), ("gp-m", 1.0), ("rr", 1.0)])
def test_local_lists_are_read_by_how_many_ends_show_a_pair(graph, defence, epsilon):
    release = defend(graph, defence, epsilon=epsilon, seed=0, train=SHORT)
    got, bits = (attack(release, name, nodes=np.arange(300)) for name in ("edge-posterior", "stored-graph"))
    truth = graph.has_edges(*got.pairs)
    ap = [metrics.ranking(r.scores, truth)["average_precision"] for r in (got, bits)]
    assert ap[0] > 0.97 * ap[1]
    assert got.scores.sum() == pytest.approx(truth.sum(), rel=0.25)
    for ends in (0.5, 1.0):
        inside = bits.scores == ends
        assert got.scores[inside].mean() == pytest.approx(truth[inside].mean(), abs=0.12)
