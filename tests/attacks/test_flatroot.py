"""flatroot through real releases: every model and form against the stored graph, few questions, coarse answers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from edgeveil.attacks.flatroot import ask, choose, confirm
from edgeveil.attacks.flatroot.balance import balance
from edgeveil.attacks.flatroot.direct import DirectBits
from edgeveil.attacks.flatroot.questions import Answers, Flat, mixing
from edgeveil.attacks.run_attack import attack
from edgeveil.defences.defend import defend
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.models.presets import preset
from edgeveil.models.settings import TrainSpec
from edgeveil.release.target import Target
from edgeveil.release.transcript import RecordedTarget

SHORT = TrainSpec(lr=0.01, weight_decay=5e-4, epochs=20)
NORMS = ("aug", "aug-rwalk", "first-order", "bingge")
FORMS = [("gcn", {"norm": n, "layers": k}) for n in NORMS for k in (1, 2, 3)]
FORMS += [("gcn", {"bias": b}) for b in ("before", "none")] + [("gcn", {"activation": "selu"})]
FORMS += [(m, {"layers": k}) for m in ("sage", "graphconv", "transformer", "gat", "gatv2") for k in (1, 2)]
FORMS += [("gat", {"layers": 3}), ("gat", {"skip": True})]
HEAVY = [("gat", {"layers": 3}), ("gatv2", {"layers": 2})]  # gat with two layers is asked in every run
HEAVY += [("gcn", {"norm": n, "layers": 3}) for n in NORMS[1:]] + [
    ("transformer", {"layers": 2}),
    ("gat", {"skip": True}),
]


@pytest.fixture(scope="module")
def graph():
    """Triangles, squares, leaves, a hub and lone nodes."""
    rng = np.random.default_rng(0)
    n = 80
    i, j = np.triu_indices(n - 4, 1)
    keep = rng.random(len(i)) < 0.05
    hub = np.stack([np.full(12, 5), np.arange(20, 32)])
    y = np.arange(n) % 3
    x = (rng.random((n, 24)) < 0.1 + 0.3 * (np.arange(24) % 3 == y[:, None])).astype(np.float32)
    edges = np.concatenate([np.stack([i[keep], j[keep]]), hub], axis=1)
    part = np.arange(n) // 30
    return Graph.from_edges(edges, x=x, y=y, train_mask=part == 0, val_mask=part == 1, test_mask=part == 2)


def release_of(graph, model="gcn", **shape):
    return trained(graph, replace(preset("default", "", model).model, **shape))


@cache
def trained(graph, spec):
    return defend(graph, "none", model=spec, seed=0, train=SHORT, scaling="row")


def equal(graph, result):
    return np.array_equal(result.found, graph.edge_index)


@pytest.mark.parametrize(("model", "shape"), FORMS, ids=str)
def test_the_stored_graph_comes_back_from_derivatives(graph, model, shape):
    result = attack(release_of(graph, model, **shape), "flatroot")
    assert (result.queries, result.access) == (0, "white-box")
    assert result.certified and equal(graph, result) and not result.undecided.size
    assert result.num_pairs == 80 * 79 // 2 and (result.scores == 1).all()


@pytest.mark.parametrize("norm", ["aug", "first-order"])
def test_graph_convolutions_with_skips_are_recovered_without_proof(graph, norm):
    result = attack(release_of(graph, "gcn", norm=norm, skip=True), "flatroot")
    assert equal(graph, result) and result.certified is False and "not proven" in result.notes[0]


@pytest.mark.parametrize(
    ("model", "shape"),
    [pytest.param(*form, marks=pytest.mark.slow if form in HEAVY else ()) for form in FORMS],
    ids=str,
)
def test_the_stored_graph_comes_back_from_questions(graph, model, shape):
    result = attack(release_of(graph, model, **shape), "flatroot", mode="query")
    assert result.access == "black-box" and result.queries > 0
    assert equal(graph, result)
    if shape.get("layers", 2) <= 2 and model == "gcn":
        assert result.certified and result.queries < 45


@pytest.fixture(scope="module")
def crowd():
    """So dense that two steps reach nearly every node: rows of P^2 are full."""
    rng = np.random.default_rng(3)
    n = 520
    i, j = np.triu_indices(n - 2, 1)
    size = rng.pareto(2.0, n) + 1
    keep = rng.random(len(i)) < np.minimum(0.01 * size[i] * size[j], 1)
    x, part = rng.random((n, 24)).astype(np.float32), np.arange(n) // 200
    masks = {f"{name}_mask": part == k for k, name in enumerate(("train", "val", "test"))}
    return Graph.from_edges(np.stack([i[keep], j[keep]]), x=x, y=np.arange(n) % 3, **masks)


@pytest.mark.parametrize("norm", ["first-order", "bingge"])
def test_a_dense_graph_with_full_rows_still_needs_few_questions(crowd, norm):
    release = release_of(crowd, norm=norm)
    result = attack(release, "flatroot", mode="query")
    assert result.certified and equal(crowd, result) and result.queries < 50  # 174 would measure every row in full
    early = attack(release, "flatroot", queries=16)
    assert early.queries <= 16 and not early.certified and not early.found.size
    assert crowd.has_edges(*early.pairs).mean() > 0.9 and early.scores.size


def test_a_wrong_graph_with_the_right_degrees_is_never_certified(crowd, monkeypatch):
    """Two edges exchange their ends after the graph was found: fresh questions must refute it."""
    right = DirectBits.fit

    def exchanged(bits, design, answers):
        done = right(bits, design, answers)
        if done:
            (a, b), (c, d) = next((e, f) for e in bits.edges.T for f in bits.edges.T[::-1] if fits(bits, e, f))
            bits._flip(np.array([a, c, *sorted((a, d))[:1], *sorted((b, c))[:1]]),
                       np.array([b, d, *sorted((a, d))[1:], *sorted((b, c))[1:]]))  # fmt: skip
        return done

    def fits(bits, e, f):
        a = bits.adjacency
        return len({*e, *f}) == 4 and not a[e[0], f[1]] and not a[e[1], f[0]]

    monkeypatch.setattr(DirectBits, "fit", exchanged)
    result = attack(release_of(crowd, norm="first-order"), "flatroot", mode="query")
    assert result.certified is False and not equal(crowd, result)


def town(n):
    """Connected, with hubs and triangles: a tree of popular parents, and friends of friends."""
    rng, edges = np.random.default_rng(1), []
    for u in range(1, n):
        parent = int(u * rng.random() ** 2)
        edges.append((parent, u))
        edges.append((edges[int(rng.integers(len(edges)))][0] if rng.random() < 0.5 else parent // 2, u))
    pairs = np.array([e for e in edges if e[0] != e[1]]).T
    part = np.arange(n) // (n // 3)
    masks = {f"{name}_mask": part == k for k, name in enumerate(("train", "val", "test"))}
    return Graph.from_edges(pairs, x=rng.random((n, 24)).astype(np.float32), y=np.arange(n) % 3, **masks)


def test_edges_are_read_without_rows_on_a_large_connected_graph(monkeypatch):
    """The bits of a connected graph follow from its degrees."""
    graph, rows = town(600), []
    monkeypatch.setattr(ask, "LARGE", 500)
    monkeypatch.setattr(ask.Rows, "solve", lambda _: rows.append(0))
    by_edges = attack(release_of(graph), "flatroot", mode="query")
    assert by_edges.certified and equal(graph, by_edges) and not rows


@pytest.mark.slow
def test_rows_of_the_product_take_more_questions_than_edges(monkeypatch):
    release = release_of(town(600))
    by_rows = attack(release, "flatroot", mode="query")
    monkeypatch.setattr(ask, "LARGE", 500)
    assert attack(release, "flatroot", mode="query").queries < by_rows.queries


def test_a_found_graph_is_proven_by_fresh_questions_and_a_wrong_one_is_not(graph, monkeypatch):
    """The first decoding is kept from proving; once right, once with two edges' ends exchanged."""
    plain, calls = ask.decode, []

    def unproven(matrix, form, error, **more):
        got = plain(matrix, form, error, **more)
        calls.append(error)
        if len(calls) != 1:
            return got
        edges = got.edges.copy()
        if swap:
            a, b = (np.flatnonzero((edges == e[:, None]).all(axis=0))[0] for e in apart(edges))
            edges[:, [a, b]] = np.sort(np.array([[edges[0, a], edges[0, b]], [edges[1, b], edges[1, a]]]), axis=0)
        return replace(got, edges=edges, certified=False)

    def apart(edges):
        have = set(map(tuple, edges.T.tolist()))
        for e in edges.T:
            for f in edges.T[::-1]:
                new = {tuple(sorted((e[0], f[1]))), tuple(sorted((f[0], e[1])))}
                if len({*e, *f}) == 4 and not new & have:
                    return e, f
        raise AssertionError

    monkeypatch.setattr(ask, "decode", unproven)
    monkeypatch.setattr(confirm, "decode", unproven)
    release = release_of(graph)
    for swap in (False, True):
        calls.clear()
        result = attack(release, "flatroot", mode="query")
        assert len(calls) == (1 if swap else 2) and result.certified is (not swap)
        assert swap or equal(graph, result)


def test_nodes_and_pairs_cut_the_answer_not_the_questions(graph):
    release = release_of(graph)
    nodes = np.arange(60, 20, -1)
    some = attack(release, "flatroot", nodes=nodes)
    inside = np.isin(graph.edge_index, nodes).all(axis=0)
    assert np.array_equal(some.found, graph.edge_index[:, inside]) and some.certified
    assert np.array_equal(some.scores > 0, graph.has_edges(*some.pairs)) and some.pairs.shape == (2, 780)
    asked = np.array([[31, 2], [5, 3]])
    assert np.array_equal(attack(release, "flatroot", pairs=asked).scores > 0, graph.has_edges(*asked))


def test_a_budget_that_is_too_small_asserts_nothing(graph):
    release = release_of(graph)
    for queries in (2, 5, 9):
        result = attack(release, "flatroot", queries=queries)
        assert result.queries <= queries and not result.certified and not result.found.size
        assert "nothing is asserted" in result.notes[0] or "not enough" in result.notes[0]
    enough = attack(release, "flatroot", queries=60)
    assert enough.certified and enough.queries <= 60


def test_a_model_without_description_is_recognised(graph):
    for norm in ("first-order", "aug-rwalk"):
        release = release_of(graph, norm=norm)
        target = Target.from_callable(release.predict, graph.num_nodes)
        target.num_features = 24
        result = attack(target, "flatroot")
        assert equal(graph, result) and result.certified


def test_the_wrong_description_asserts_nothing(graph):
    release = release_of(graph)
    for wish in ({"norm": "first-order"}, {"layers": 3}, {"norm": "aug-rwalk"}, {"layers": 1}):
        result = attack(release, "flatroot", **wish)
        assert not result.certified and not result.found.size, wish


@pytest.mark.parametrize(
    "kind", [{"decimals": 2}, {"decimals": 4}, {"answer": "probabilities"}, {"dtype": "float32"}], ids=str
)
def test_coarse_answers_still_give_the_graph(graph, kind):
    result = attack(Target.local(release_of(graph), **kind), "flatroot")
    assert equal(graph, result)


@pytest.mark.parametrize("decimals", [pytest.param(6, marks=pytest.mark.slow), 5, 3])
def test_rounded_probabilities_give_the_graph_on_a_row_that_no_class_wins_but_no_proof(graph, decimals):
    """Where logits are large probabilities are 0 or 1, where they are small biases decide: level rows have neither."""
    result = attack(Target.local(release_of(graph), answer="probabilities", decimals=decimals), "flatroot")
    assert equal(graph, result) and result.certified is False and result.queries < 400


def test_a_level_row_far_out_makes_the_model_linear_within_the_rounding(graph):
    release = release_of(graph)
    target = Target.local(release, answer="probabilities", decimals=6)
    flat = Flat(target, 24, np.random.default_rng(0), 1.0, 1e-3)
    balance(flat, 1.0)
    assert np.quantile(np.abs(flat.base), 0.9) < 4
    loops = graph.adjacency.toarray() + np.eye(80)
    root = 1 / np.sqrt(loops.sum(1))
    p = root[:, None] * loops * root
    z = [flat.draw() for _ in range(8)]
    change = np.concatenate([flat.ask(one) for one in z])
    moved = np.concatenate([p @ p @ one for one in z])
    mix = np.linalg.lstsq(moved, change, rcond=None)[0]
    assert np.median(np.abs(change - moved @ mix)) < 1e-3 * change.std()
    shown = flat.shown * (flat.shown * mix).sum() / (flat.shown**2).sum()
    assert np.linalg.norm(shown - mix) < 1e-4 * np.linalg.norm(mix)


def test_too_few_questions_still_rank_pairs(graph):
    release = release_of(graph)
    result = attack(release, "flatroot", queries=8)
    edges = graph.has_edges(*result.pairs)
    best = np.argsort(-result.scores, kind="stable")[: graph.num_edges]
    assert not result.found.size and edges[best].mean() > 5 * graph.num_edges / (80 * 79 / 2)


@pytest.mark.parametrize("seed", range(4))
def test_moves_so_large_that_units_change_their_state_are_noticed_and_made_smaller(graph, monkeypatch, seed):
    """Once is not enough: moves of 3, then of 0.09 flat rows still change states, for most of these seeds."""
    monkeypatch.setattr(choose, "STEP", 3.0)
    result = attack(release_of(graph), "flatroot", mode="query", seed=seed)
    assert result.certified and equal(graph, result)


def test_labels_alone_are_refused_with_the_remedy(graph):
    with pytest.raises(InputError, match="linkteller-labels"):
        attack(Target.local(release_of(graph), answer="labels"), "flatroot")


def test_models_without_edges_are_called_blind_not_private(graph):
    result = attack(defend(graph, "mlp", seed=0, train=SHORT), "flatroot")
    assert not result.found.size and result.certified is False and "not evidence of privacy" in result.notes[0]
    counts = attack(defend(graph, "lpgnet", epsilon=4.0, seed=0, train=SHORT), "flatroot")
    assert not counts.found.size and "not evidence" in counts.notes[0]


@pytest.mark.parametrize(("defence", "epsilon"), [("edgerand", 5.0), ("lapgraph", 6.0)])
def test_a_noisy_release_gives_its_noisy_graph_away_and_no_more(graph, defence, epsilon):
    release = defend(graph, defence, epsilon=epsilon, seed=0, train=SHORT)
    stored = attack(release, "stored-graph")
    result = attack(release, "flatroot")
    assert result.certified and np.array_equal(result.found, stored.found)
    assert stored.access == "white-box" and stored.queries == 0 and not np.array_equal(stored.found, graph.edge_index)
    shown = np.stack(release.predictor.adjacency.nonzero())
    assert np.array_equal(stored.found, shown[:, shown[0] < shown[1]])


def test_a_local_mechanisms_directed_graph_is_read_with_halves(graph):
    release = defend(graph, "gp-t", epsilon=2.0, seed=0, train=SHORT)
    result = attack(release, "stored-graph")
    kept = release.predictor.adjacency
    expected = (kept[result.pairs[0], result.pairs[1]] > 0).astype(float) + (kept[result.pairs[1], result.pairs[0]] > 0)
    assert np.array_equal(result.scores, np.asarray(expected).ravel() / 2) and set(result.scores) <= {0.5, 1.0}


def test_stored_statistics_are_no_stored_graph(graph):
    with pytest.raises(InputError, match="keeps statistics"):
        attack(defend(graph, "lpgnet", epsilon=4.0, seed=0, train=SHORT), "stored-graph")
    with pytest.raises(InputError, match="black box"):
        attack(Target.local(release_of(graph), decimals=3), "stored-graph")


def test_the_mixture_of_directions_is_read_off_the_answers_alone(graph):
    release = release_of(graph)
    rng = np.random.default_rng(0)
    flat = Flat(Target.local(release), 24, rng, 1e8, 1e-3)
    answers = Answers()
    for _ in range(4):
        z = flat.draw()
        answers.change.append(flat.ask(z))
        answers.z.append(z)
    q, turn = mixing(answers)
    loops = graph.adjacency.toarray() + np.eye(80)
    root = 1 / np.sqrt(loops.sum(1))
    p = root[:, None] * loops * root
    truth = np.linalg.lstsq(p @ p @ answers.z[0], answers.change[0] @ turn, rcond=None)[0]
    factor = (truth * q).sum() / (q * q).sum()
    assert factor > 0 and np.abs(truth - factor * q).max() < 1e-6 * np.abs(truth).max()


def test_a_transcript_resumes_the_attack(graph, tmp_path):
    release = release_of(graph)
    first = RecordedTarget(Target.local(release), tmp_path / "t")
    a = attack(first, "flatroot")
    again = RecordedTarget(Target.local(release), tmp_path / "t")
    b = attack(again, "flatroot")
    assert a.certified and again.paid == 0 and first.paid == a.queries and np.array_equal(a.found, b.found)


def test_wrong_wishes_are_named(graph):
    release = release_of(graph)
    for wish, text in (
        ({"mode": "guess"}, "exact"), ({"queries": 1}, "at least 2"), ({"limit": -1.0}, "positive"),
        ({"norm": "none"}, "aug"), ({"controlled_features": [0]}, "linkteller"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=text):
            attack(release, "flatroot", **wish)
    with pytest.raises(InputError, match="black box"):
        attack(Target.local(release, decimals=3), "flatroot", mode="exact")


@pytest.mark.data
@pytest.mark.slow
def test_cora_is_certified_from_derivatives():
    from edgeveil.graph.datasets import load

    g = load("cora")
    result = attack(defend(g, "none", seed=0, train=SHORT), "flatroot")
    assert result.certified and np.array_equal(result.found, g.edge_index) and result.found.shape[1] == 5278
