"""Randomised response read with public knowledge: the posterior's mathematics, thinning, guard, renewal, price."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from test_counts import SHORT, blocks

import edgeveil as ev
from edgeveil.defences.renew import renew
from edgeveil.defences.veil import denoised_rr as rr
from edgeveil.defences.veil import pair_posterior as posterior
from edgeveil.defences.veil import pair_readings, read_outs
from edgeveil.defences.veil.denoised_rr import KEPT, VeilRR
from edgeveil.defences.veil.pair_posterior import Observed, PublicPairs, edge_share, fit_posterior
from edgeveil.defences.veil.read_outs import Reading
from edgeveil.errors import InputError, TooLarge
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs, unrank
from edgeveil.metrics.ranking import ranking
from edgeveil.release.readout_predictor import ReadoutPredictor


def observed_blocks(flip: float = 0.03, seed: int = 0) -> tuple[Observed, PublicPairs, np.ndarray]:
    """Noisy pairs of a graph with two groups that public data know well, and which of the pairs are edges."""
    graph, rng = blocks(seed), np.random.default_rng(seed)
    n = graph.num_nodes
    ranks = np.arange(num_pairs(n))
    truth = np.isin(ranks, graph.edge_ranks)
    seen = truth ^ (rng.random(len(ranks)) < flip)
    u, v = unrank(ranks[seen], n)
    assert graph.y is not None
    sure = np.where(np.eye(2)[graph.y] > 0, 0.9, 0.1)
    return Observed(u, v, n, flip, int(seen.sum())), PublicPairs.of(graph.x, sure), truth[seen]


def test_the_share_of_edges_follows_from_the_count() -> None:
    observed, _, truth = observed_blocks()
    assert edge_share(observed) == pytest.approx(truth.mean(), rel=0.1)


def test_posteriors_rank_edges_above_lies_and_are_calibrated() -> None:
    observed, public, truth = observed_blocks()
    chance = fit_posterior(observed, public, np.random.default_rng(0), None)
    assert ranking(chance, truth)["auc"] > 0.7  # groups alone allow 0.725
    likely = chance > np.median(chance)
    for part in (likely, ~likely):
        assert chance[part].mean() == pytest.approx(truth[part].mean(), abs=0.12)


def test_pairs_that_say_nothing_get_the_share_of_edges() -> None:
    """Edges that have nothing to do with public facts: no pair may stand out."""
    rng, n = np.random.default_rng(1), 300
    x, chances = rng.random((n, 8)).astype(np.float32), np.full((n, 2), 0.5)
    ranks = np.sort(rng.choice(num_pairs(n), 4000, replace=False))
    observed = Observed(*unrank(ranks, n), n, 0.05, 4000)
    chance = fit_posterior(observed, PublicPairs.of(x, chances), rng, None)
    assert chance.std() < 0.15 and chance.mean() == pytest.approx(edge_share(observed), abs=0.1)


def test_equal_pairs_are_counted_not_repeated() -> None:
    """Grouping pairs of the same steps leaves the likelihood as it is."""
    rng = np.random.default_rng(0)
    steps = [posterior._Steps(None, 3), posterior._Steps.of(rng.random(500))]
    bins = [rng.integers(0, 3, 900), steps[1].bins(rng.random(900))]
    other = [rng.integers(0, 3, 700), steps[1].bins(rng.random(700) ** 2)]
    plain, grouped = posterior._LogRatio(steps), posterior._LogRatio(steps)
    plain.fit(bins, np.ones(900), other, np.ones(700))
    few, times = posterior._grouped(steps, bins)
    assert len(times) < 60 and times.sum() == 900
    grouped.fit(few, times, *posterior._grouped(steps, other))
    np.testing.assert_allclose(plain(bins), grouped(bins), atol=1e-3)


def test_pairs_that_are_nearly_all_lies_are_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 nodes without any edge: what is drawn at epsilon 2 are lies, and no GNN is trained on them."""
    rng = np.random.default_rng(3)
    x, y = rng.random((600, 8)).astype(np.float32), np.arange(600) % 2
    part = np.arange(600) % 4
    empty = Graph.from_edges(
        np.empty((2, 0), int), num_nodes=600, x=x, y=y, train_mask=part == 0, val_mask=part == 1, test_mask=part > 1
    )
    monkeypatch.setattr(rr, "choose_hearing", lambda *_: pytest.fail("nothing is left to be heard"))
    release = ev.defend(empty, "veil-rr", epsilon=2.0, seed=0, train=SHORT)
    assert release.notes[-1] == rr.SILENT and release.guarantee.epsilon == 2.0
    np.testing.assert_array_equal(release.predict(), ev.defend(empty, "feature-graph", seed=0, train=SHORT).predict())


def test_the_told_share_is_that_of_the_expected_edges() -> None:
    assert posterior.told(np.full(50, 0.2)) == pytest.approx(0.2)
    assert posterior.told(np.array([1.0, 1.0, 0.0])) == 1.0 and posterior.told(np.zeros(3)) == 0.0


@pytest.mark.slow
def test_the_denoised_graph_helps_where_neighbours_tell_the_class() -> None:
    graph = blocks()
    heard, free = ev.defend(graph, "veil-rr", epsilon=6.0, seed=0), ev.defend(graph, "feature-graph", seed=0)
    assert heard.utility("test")["accuracy"] > free.utility("test")["accuracy"] + 0.1
    assert heard.guarantee.status == "sound" and heard.guarantee.epsilon == 6.0
    assert [float(c.epsilon) for c in heard.guarantee.charges if c.epsilon is not None] == [6.0]


@pytest.mark.usefixtures("short_read_outs")
def test_a_graph_that_beats_nothing_leaves_the_base_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_outs, "is_better", lambda *_: False)
    graph = blocks()
    heard = ev.defend(graph, "veil-rr", epsilon=4.0, seed=0, train=SHORT)
    free = ev.defend(graph, "feature-graph", seed=0, train=SHORT)
    assert heard.notes[-1] == KEPT
    np.testing.assert_array_equal(heard.predict(), free.predict())


@pytest.mark.usefixtures("short_read_outs")
def test_pairs_are_thinned_by_public_facts_before_they_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, stored, real = blocks(), [], rr._Part.denoised

    def spy(self, noisy, drawn):  # type: ignore[no-untyped-def]
        stored.append((noisy.num_edges, drawn, self.least))
        return real(self, noisy, drawn)

    monkeypatch.setattr(rr._Part, "denoised", spy)
    monkeypatch.setattr(rr, "STORED", 1_000)
    for g in (graph, graph.with_edges(np.random.default_rng(5).integers(400, size=(2, 900)))):
        ev.defend(g, "veil-rr", epsilon=1.0, seed=0, train=SHORT)
    (kept, drawn, least), (_, _, other) = stored
    assert drawn > 15_000 and kept < 2_500 and least is not None
    assert least == other, "the rule must not depend on the edges"


def test_too_many_pairs_are_refused_before_any_work() -> None:
    large = Graph.from_edges([[0], [1]], num_nodes=200_000, x=np.ones((200_000, 1)), y=np.zeros(200_000, int))
    with pytest.raises(TooLarge, match="veil-counts") as error:
        ev.defend(large, "veil-rr", epsilon=1.0, seed=0)
    least = float(str(error.value).split("use epsilon ")[1].split(" ")[0])
    VeilRR(epsilon=least).check_size(large)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "total"), [("inductive-different", 5.0), (None, 10.0)])
def test_two_graphs_state_their_sum_unless_asserted_apart(setting: str | None, total: float) -> None:
    release = ev.defend(blocks(0), "veil-rr", epsilon=5.0, seed=0, inference_graph=blocks(1), setting=setting)
    assert release.guarantee.epsilon == total and release.utility("test")["accuracy"] > 0.7


@pytest.mark.usefixtures("short_read_outs")
def test_a_graph_that_grows_is_randomised_once() -> None:
    release = ev.defend(blocks(), "veil-rr", epsilon=6.0, seed=0, setting="inductive-evolving", train=SHORT)
    assert release.guarantee.epsilon == 6.0 and len(release.guarantee.charges) == 1


@pytest.mark.fast("graph")
@pytest.mark.parametrize("how", ["graph", "counts"])
def test_renewal_adds_up_and_hears_the_new_graph(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    only(how, monkeypatch)
    release = ev.defend(blocks(0), "veil-rr", epsilon=6.0, seed=0)
    assert isinstance(release.predictor, ReadoutPredictor) == (how == "counts")
    other = blocks(1)
    renewed = renew(release, other.with_features(release.matrix.values), seed=1)
    assert renewed.guarantee.epsilon == 12.0
    made = renewed.predictor
    base = made.base if isinstance(made, ReadoutPredictor) else made.parts[1]  # type: ignore[attr-defined]
    right, before = ((p.argmax(axis=1) == other.y).mean() for p in (renewed.predict(), base.logits(release.matrix)))
    assert right > before + 0.05, "neighbours in the new graph must tell the class"
    assert not np.array_equal(renewed.predict(), release.predict())


def only(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the GNN on the denoised graph, the MLPs on expected counts, or Bayes' rule as the one way to hear."""
    if how == "graph":
        for ways in ("readings", "mlp_readings"):
            monkeypatch.setattr(pair_readings, ways, lambda *_: [])
        return
    monkeypatch.setattr(pair_readings, "_gnn", lambda job, base, heard, own: Reading("graph", silent(job), own))
    if how == "counts":
        monkeypatch.setattr(read_outs, "_bayes", lambda job, phases, base, noise: Reading("bayes", silent(job), base))
    else:
        monkeypatch.setattr(read_outs, "FORMS", ())


def silent(job: Any) -> np.ndarray:
    return np.zeros((job.graph.num_nodes, job.graph.num_classes))


def test_a_bayesian_reading_is_not_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    only("bayes", monkeypatch)
    release = ev.defend(blocks(0), "veil-rr", epsilon=6.0, seed=0, train=SHORT)
    with pytest.raises(InputError, match="this veil-rr release reads its counts by Bayes"):
        renew(release, blocks(1).with_features(release.matrix.values), seed=1)


def test_expected_counts_are_those_of_the_true_graph_where_the_posterior_is_calibrated() -> None:
    """Summed over nodes, weights count the true edges per cluster, and miss them by what `count_noise` states."""
    observed, public, truth = observed_blocks()
    chance = fit_posterior(observed, public, np.random.default_rng(0), None)
    n, clusters = observed.num_nodes, public.chances.argmax(axis=1)

    def counts(weights: np.ndarray) -> np.ndarray:
        return pair_readings.expected_counts(both(observed, weights), clusters, 2)

    expected, true = counts(chance), counts(truth.astype(float))
    assert expected.shape == (n, 2) and expected.sum() == pytest.approx(true.sum(), rel=0.1)
    noise = pair_readings.count_noise(both(observed, chance), 2)
    assert (expected - true).std() == pytest.approx(noise.scale, rel=0.25)


def both(observed: Observed, weights: np.ndarray) -> sp.csr_matrix:
    upper = sp.csr_matrix((weights, (observed.u, observed.v)), shape=(observed.num_nodes, observed.num_nodes))
    return (upper + upper.T).tocsr()


@pytest.mark.usefixtures("short_read_outs")
def test_what_is_heard_depends_on_the_noisy_pairs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two graphs whose randomised response comes out the same give the same release to the bit."""
    graph = blocks()
    noisy = VeilRR(epsilon=6.0).query().perturb(graph, seed=9)
    other = graph.with_edges(np.random.default_rng(5).integers(400, size=(2, 900)))

    def told(self: Any, real: Graph, seed: Any = None, *, memory: int | None = None) -> Graph:
        self.drawn[id(real)] = noisy.num_edges
        return noisy

    monkeypatch.setattr(rr._Thinned, "perturb", told)
    first, second = (ev.defend(g, "veil-rr", epsilon=6.0, seed=0, train=SHORT) for g in (graph, other))
    assert first.notes == second.notes and first.notes[-1].startswith("heard is")
    np.testing.assert_array_equal(first.predict(), second.predict())


@pytest.mark.usefixtures("short_read_outs")
def test_saved_releases_answer_alike(tmp_path: Path) -> None:
    release = ev.defend(blocks(), "veil-rr", epsilon=6.0, seed=1, train=SHORT)
    release.save(tmp_path / "r")
    np.testing.assert_array_equal(ev.Release.load(tmp_path / "r").predict(), release.predict())


def test_bad_epsilon_is_refused() -> None:
    with pytest.raises(InputError, match="epsilon"):
        VeilRR(epsilon=float("inf"))


def test_a_graph_is_too_large_by_its_nodes_alone_and_before_a_renewal_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two graphs on the same nodes are both refused or both taken, whatever edges they have."""
    empty, full = (Graph.from_edges(np.array(e).reshape(2, -1), num_nodes=20) for e in ([], np.triu_indices(20, 1)))
    defence = VeilRR(epsilon=3.0)
    monkeypatch.setattr(rr, "MOST_DRAWN", 50)
    defence.check_size(empty)
    defence.check_size(full)
    monkeypatch.setattr(rr, "MOST_DRAWN", 5)
    snapshot: Any = SimpleNamespace(graph=empty)
    with pytest.raises(TooLarge):
        defence.renewal().check(snapshot)
