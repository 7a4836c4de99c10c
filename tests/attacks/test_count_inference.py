"""Count inference: the law of the counts, propagation against enumeration, the control, and who shows counts at all."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from edgeveil import metrics
from edgeveil.attacks.counts.beliefs import Beliefs
from edgeveil.attacks.counts.levels import PairLevels
from edgeveil.attacks.counts.likelihood import CountRatio, as_counts, likelihood
from edgeveil.attacks.run_attack import attack
from edgeveil.defences.defend import defend
from edgeveil.defences.lpgnet.bayes_readout import read_counts
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise
from edgeveil.errors import InputError
from edgeveil.graph.datasets import load
from edgeveil.models.settings import TrainSpec
from edgeveil.release.lpgnet_predictor import CountNoise
from edgeveil.release.mixture_predictor import MixturePredictor
from edgeveil.release.readout_predictor import StoredPredictor
from edgeveil.release.release import Release
from edgeveil.release.target import StoredCounts, Target
from zoo import planted

SHORT = TrainSpec(epochs=30)


@pytest.fixture(scope="module")
def graph():
    return planted(240, 6, 0.05, 0.006, 60, 0.35, train=90)


@pytest.mark.parametrize(("law", "clipped"), [("discrete", True), ("discrete", False), ("gaussian", True)])
def test_the_likelihood_is_a_law(law, clipped):
    values = np.arange(0 if clipped else -200, 260)
    total = likelihood(values, np.arange(6), law, 2.5, clipped).sum(axis=1)
    assert total == pytest.approx(np.ones(6), abs=2e-3)


def test_the_clipped_laplace_likelihood_is_that_of_drawn_noise():
    rng = np.random.default_rng(0)
    q = np.exp(-1 / 1.7)
    noise = rng.geometric(1 - q, 400_000) - rng.geometric(1 - q, 400_000)
    seen = np.bincount(np.maximum(noise + 2, 0), minlength=8)[:8] / 400_000
    assert likelihood(np.arange(8), [2], "discrete", 1.7, True)[0] == pytest.approx(seen, abs=0.004)


def test_the_ratio_is_the_sum_over_poisson_neighbours():
    stored = _stored([[0, 3], [7, 1]], [0, 1], 1.3)
    k = np.arange(80)
    for rate in (0.05, 0.8, 4.0):
        weight = np.exp(k * np.log(rate) - rate - np.array([sum(np.log(np.arange(1, c + 1))) for c in k]))
        table = likelihood(stored.counts.ravel(), np.arange(81), "discrete", 1.3, True)
        wanted = np.log((weight @ table[1:]) / (weight @ table[:-1])).reshape(2, 2)
        assert CountRatio.of(stored).at(np.full((2, 2), rate)) == pytest.approx(wanted, abs=5e-3)


def test_propagation_agrees_with_enumeration_of_all_graphs():
    """Five nodes, 1,024 graphs: marginal probabilities, for several draws of the noise."""
    rng = np.random.default_rng(3)
    clusters = np.array([0, 1, 0, 1, 2])
    pairs = np.array(list(itertools.combinations(range(5), 2))).T
    bits = np.array(list(itertools.product([0, 1], repeat=10)))
    for _ in range(4):
        truth = bits[rng.integers(1024)]
        noise = rng.geometric(0.6, (5, 3)) - rng.geometric(0.6, (5, 3))
        scale = -1 / np.log(0.4)
        stored = replace(_stored(_counts(truth, pairs, clusters) + noise, clusters, scale), clipped=False)
        weight = np.array([_log_probability(b, pairs, stored) for b in bits])
        weight = np.exp(weight - weight.max())
        exact = weight @ bits / weight.sum()
        beliefs = Beliefs(PairLevels(None, np.zeros(5, np.int64), rng), (stored,))
        beliefs.prior = np.full(256, np.log(0.3 / 0.7))
        beliefs.levels.refit = lambda mass, density, held=beliefs.prior: held  # type: ignore[method-assign]
        for _ in range(30):
            beliefs.step()
        found = beliefs.of_pairs(*pairs)
        assert np.abs(found - exact).mean() < 0.09 and np.corrcoef(found, exact)[0, 1] > 0.85


def test_exact_counts_are_met():
    """Without noise the expected neighbours of every node in every cluster become the stored ones."""
    rng = np.random.default_rng(0)
    clusters = rng.integers(0, 3, 30)
    pairs = np.array(list(itertools.combinations(range(30), 2))).T
    truth = rng.random(pairs.shape[1]) < 0.1
    stored = _stored(_counts(truth, pairs, clusters), clusters, 0.0)
    beliefs = Beliefs(PairLevels(None, np.zeros(30, np.int64), rng), (stored,))
    for _ in range(60):
        beliefs.step()
    p = beliefs.rows(slice(0, 30))[1]
    assert p @ np.eye(3)[clusters] == pytest.approx(stored.counts, abs=0.15)


def test_counts_tell_more_than_features_and_permuted_counts_do_not(graph):
    release = defend(graph, "lpgnet-1", epsilon=8.0, seed=0, train=SHORT)
    honest = attack(release, "count-inference", nodes=np.arange(240))
    truth = graph.has_edges(*honest.pairs)
    target = Target.local(release)
    rng = np.random.default_rng(0)

    def shuffled() -> tuple[StoredCounts, ...]:
        out = []
        for one in release.stored_counts:
            order = np.arange(240)
            for c in np.unique(one.clusters):
                order[one.clusters == c] = rng.permutation(order[one.clusters == c])
            out.append(replace(one, counts=one.counts[order]))
        return tuple(out)

    target.stored_counts = shuffled
    control = attack(target, "count-inference", nodes=np.arange(240))
    alike = attack(release, "lsa2-attr", nodes=np.arange(240))
    ap = [metrics.ranking(r.scores, truth)["average_precision"] for r in (honest, control, alike)]
    assert ap[0] > 1.5 * ap[1] and ap[0] > 1.5 * ap[2]
    assert honest.access == "white-box" and honest.queries == 0 and honest.params["scale"] == 0.25


def test_a_whole_graph_and_single_pairs_get_the_same_probabilities(graph):
    release = defend(graph, "lpgnet-2", epsilon=4.0, seed=0, train=SHORT)
    whole = attack(release, "count-inference", keep=300)
    some = attack(release, "count-inference", pairs=whole.pairs)
    assert whole.num_pairs == 240 * 239 // 2 and len(whole.scores) == 300
    assert some.scores == pytest.approx(whole.scores, abs=1e-5)


def test_clusters_and_law_survive_saving(graph, tmp_path):
    release = defend(graph, "lpgnet-2", epsilon=3.0, seed=0, train=SHORT)
    loaded = Release.load(release.save(tmp_path / "r"))
    for one, two in zip(release.stored_counts, loaded.stored_counts, strict=True):
        assert np.array_equal(one.clusters, two.clusters) and np.array_equal(one.counts, two.counts)
        assert (one.law, one.scale, one.clipped) == (two.law, two.scale, two.clipped) == ("discrete", 4 / 3, True)


def test_evidence_that_a_bayesian_reading_left_shows_the_counts():
    """Poisson neighbours, mostly of a node's own class, read by the defence's own count model."""
    rng = np.random.default_rng(2)
    own = rng.integers(0, 5, 800)
    true = rng.poisson(np.where(np.eye(5)[own] > 0, 2.6, 0.2))
    q = np.exp(-1 / 0.4)
    noisy = true + rng.geometric(1 - q, true.shape) - rng.geometric(1 - q, true.shape)
    prior = 0.8 * np.eye(5)[own] + 0.04
    evidence = read_counts(noisy, prior, DegreeNoise("discrete", 0.4))[1]
    kept = StoredCounts(counts=0.35 * evidence, clusters=own, law="discrete", scale=0.4, clipped=False, evidence=True)
    seen = as_counts(kept)
    assert seen.clipped and not seen.evidence and as_counts(seen) is seen
    off = seen.counts - np.maximum(noisy, 0)
    assert (np.abs(off) <= 1).mean() > 0.9 and np.corrcoef(seen.counts.ravel(), true.ravel())[0, 1] > 0.8
    assert not as_counts(replace(kept, counts=np.zeros((800, 5)))).counts.any()


def test_a_release_that_keeps_evidence_is_read_and_says_so(graph, tmp_path):
    base = defend(graph, "mlp", seed=0, train=SHORT)
    clusters = base.predict().argmax(axis=1)
    counts = np.stack([graph.adjacency @ (clusters == k) for k in range(graph.num_classes)], axis=1)
    law = CountNoise("discrete", 0.25, clipped=False)
    evidence = read_counts(counts, np.eye(counts.shape[1])[clusters], DegreeNoise("discrete", 0.25))[1]
    parts = [base.predictor, StoredPredictor(0.5 * evidence, law)]
    kept = replace(base, predictor=MixturePredictor(parts, [0.7, 1.0]))
    kept.save(tmp_path / "kept")
    (stored,) = Release.load(tmp_path / "kept").stored_counts
    assert stored.evidence and stored.scale == 0.25 and np.array_equal(stored.clusters, clusters)
    nodes = np.arange(120)
    found, alike = attack(kept, "count-inference", nodes=nodes), attack(kept, "lsa2-attr", nodes=nodes)
    truth = graph.has_edges(*found.pairs)
    assert (
        metrics.ranking(found.scores, truth)["average_precision"]
        > metrics.ranking(alike.scores, truth)["average_precision"]
    )
    assert any("evidence" in note for note in found.notes)


def test_only_who_stores_counts_can_be_read(graph):
    for defence, wishes in (("none", {}), ("mlp", {}), ("lapgraph", {"epsilon": 4.0})):
        with pytest.raises(InputError, match="shows none"):
            attack(defend(graph, defence, seed=0, train=SHORT, **wishes), "count-inference")
    release = defend(graph, "lpgnet-1", epsilon=4.0, seed=0, train=SHORT)
    with pytest.raises(InputError, match="shows none"):
        attack(Target.local(release, "probabilities"), "count-inference")
    with pytest.raises(InputError, match="rounds"):
        attack(release, "count-inference", rounds=0)


def _stored(counts, clusters, scale) -> StoredCounts:
    return StoredCounts(
        counts=np.asarray(counts, np.float64), clusters=np.asarray(clusters), law="discrete", scale=scale, clipped=True
    )


def _counts(bits, pairs, clusters):
    out = np.zeros((len(clusters), int(clusters.max()) + 1))
    for u, v in pairs[:, np.asarray(bits, bool)].T:
        out[u, clusters[v]] += 1
        out[v, clusters[u]] += 1
    return out


def _log_probability(bits, pairs, stored):
    gap = np.abs(stored.counts - _counts(bits, pairs, stored.clusters)).sum()
    return bits.sum() * np.log(0.3 / 0.7) - gap / stored.scale


PUBMED = """
from pathlib import Path
import sys
import numpy as np
import edgeveil as ev
release = ev.Release.load(sys.argv[1])
result = ev.attack(release, "count-inference", nodes=np.arange(1600), rounds=1)
assert result.scores.shape == (1600 * 1599 // 2,)
status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].split()[0]) / 1024)
"""  # not ru_maxrss: a child inherits the peak of the process that started it


@pytest.mark.data
@pytest.mark.slow
def test_pubmed_fits_in_two_gigabytes(tmp_path):
    """All 194 million pairs are weighed; further rounds need no more memory than the first."""
    path = defend(load("pubmed"), "lpgnet-2", epsilon=4.0, seed=0).save(tmp_path / "release")
    out = subprocess.run([sys.executable, "-c", PUBMED, path], capture_output=True, text=True, check=True, timeout=600)
    assert float(out.stdout.splitlines()[-1]) < 2048
