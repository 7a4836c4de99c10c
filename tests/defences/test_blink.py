"""Blink: the reports' law and price, the server's estimate against the formulas done pair by pair."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.blink import Blink, Reports, beta_model, estimate, posterior_table
from edgeveil.errors import InputError, TooLarge, UnknownNameError
from edgeveil.graph.graph import Graph
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")


def dense(reports: Reports) -> np.ndarray:
    return np.unpackbits(reports.bits, axis=1, count=len(reports.degrees)).astype(int)


def test_an_edge_pays_for_two_lists_and_two_degrees() -> None:
    blink = Blink(epsilon=4.0, degree_share=0.1)
    bits, degree = blink.split
    assert bits == Fraction(9, 5) and degree == Fraction(1, 5) and 2 * (bits + degree) == 4
    claim = ev.defend(toy(), blink, seed=0).guarantee
    assert [c.epsilon for c in claim.charges] == [2 * bits, 2 * degree] and claim.epsilon == 4.0
    assert any("one node's own list, 2 here" in note for note in claim.notes)


def test_both_ends_report_with_independent_lies_of_the_stated_rate() -> None:
    """150,000 bits: five standard errors are below half a percent."""
    graph = toy(400)
    blink = Blink(epsilon=2.0)
    seen = dense(blink.reports(graph, seed=3))
    truth = graph.adjacency.toarray().astype(int)
    lies = seen != truth
    assert not seen.diagonal().any()
    off = ~np.eye(len(truth), dtype=bool)
    assert lies[off].mean() == pytest.approx(float(blink.flip), abs=0.007)
    assert lies[truth > 0].mean() == pytest.approx(float(blink.flip), abs=0.08)
    u, v = np.triu_indices(len(truth), 1)
    both = (lies[u, v] & lies[v, u]).mean()
    assert both == pytest.approx(float(blink.flip) ** 2, abs=0.01)


def test_degree_noise_has_the_stated_scale() -> None:
    empty = Graph.from_edges(np.empty((2, 0), np.int64), num_nodes=3000)
    blink = Blink(epsilon=8.0, degree_share=0.5)
    q = np.exp(-float(blink.split[1]))
    assert np.abs(blink.reports(empty, seed=0).degrees).mean() == pytest.approx(2 * q / (1 - q * q), rel=0.1)


def test_posteriors_are_bayes_rule() -> None:
    flip, prior = 0.2, np.array([0.01, 0.3, 0.9])
    table = posterior_table(prior, flip)
    for ones in range(3):
        edge = prior * (1 - flip) ** ones * flip ** (2 - ones)
        none = (1 - prior) * flip**ones * (1 - flip) ** (2 - ones)
        np.testing.assert_allclose(table[ones], edge / (edge + none), rtol=1e-12)


def test_the_beta_model_has_the_degrees_it_was_fitted_to() -> None:
    values, counts = np.array([1, 3, 7, 20]), np.array([30, 40, 20, 10])
    b = np.repeat(beta_model(values, counts, 100), counts)
    chance = 1 / (1 + np.exp(-(b[:, None] + b[None, :])))
    np.fill_diagonal(chance, 0.0)
    np.testing.assert_allclose(chance.sum(axis=1), np.repeat(values, counts), rtol=1e-4)


@pytest.mark.parametrize("kind", ["hard", "soft", "hybrid"])
def test_estimates_are_those_done_pair_by_pair(kind: str) -> None:
    graph, blink = toy(37), Blink(epsilon=3.0, kind=kind)
    reports = blink.reports(graph, seed=5)
    shown = np.clip(reports.degrees, 1, 35)
    values, group, counts = np.unique(shown, return_inverse=True, return_counts=True)
    b, bits, flip = beta_model(values, counts, 37)[group], dense(reports), float(blink.flip)
    want = np.zeros((37, 37))
    for u in range(37):
        for v in range(u + 1, 37):
            prior = 1 / (1 + np.exp(-(b[u] + b[v])))
            p = posterior_table(np.array(prior), flip)[bits[u, v] + bits[v, u]]
            kept = {"hard": float(p > 0.5), "soft": p, "hybrid": p if p > 0.5 else 0.0}[kind]
            want[u, v] = want[v, u] = kept
    np.testing.assert_allclose(estimate(reports, flip, kind).toarray(), want, rtol=1e-5, atol=1e-7)


def test_without_much_noise_the_graph_itself_is_estimated() -> None:
    graph = toy(61)
    found = estimate(Blink(epsilon=60.0).reports(graph, seed=0), float(Blink(epsilon=60.0).flip), "hard")
    assert (found != graph.adjacency).nnz == 0


@pytest.mark.parametrize(("setting", "total"), [("inductive-different", 3.0), (None, 6.0)])
def test_two_graphs_state_their_sum_unless_asserted_apart(setting: str | None, total: float) -> None:
    release = ev.defend(toy(), "blink", epsilon=3.0, seed=0, inference_graph=toy(seed=1), setting=setting)
    assert release.guarantee.epsilon == total


def test_a_graph_that_grows_is_reported_once() -> None:
    release = ev.defend(toy(), "blink-hybrid", epsilon=9.0, seed=0, setting="inductive-evolving")
    assert release.guarantee.epsilon == 9.0 and len(release.guarantee.charges) == 2


def test_a_graph_that_does_not_fit_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgeveil.defences.blink.available_memory", lambda: 10**9)
    large = Graph.from_edges(np.array([[0], [1]]), num_nodes=20_000)
    with pytest.raises(TooLarge, match="hybrid"):
        Blink(epsilon=1.0, kind="soft").check_size(large)
    Blink(epsilon=1.0).check_size(large)
    with pytest.raises(TooLarge, match="veil-counts"):
        Blink(epsilon=1.0).check_size(Graph.from_edges(np.array([[0], [1]]), num_nodes=10**6))


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="kind"):
        Blink(epsilon=1.0, kind="softer")
    for bad in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="degree_share"):
            Blink(epsilon=1.0, degree_share=bad)
