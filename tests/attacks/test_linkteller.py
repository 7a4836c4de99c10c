"""LinkTeller's theorems, its two variants, and its costs, against an independent GCN."""

from __future__ import annotations

import numpy as np
import pytest

import edgeveil.metrics as metrics
from edgeveil.attacks.run_attack import attack
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.release.target import Target


def target_of(model, **kw):
    return Target.from_callable(model, features=model.x, **kw)


def brute_influence(model, v, u, delta=1e-7):
    x = model.x.copy()
    x[v] *= 1 + delta
    return np.linalg.norm((model(x)[u] - model(model.x)[u]) / delta)


def test_score_is_the_published_formula_in_both_directions(gcn):
    res = attack(target_of(gcn), "linkteller", nodes=np.arange(8), delta=1e-7)
    one = attack(target_of(gcn), "linkteller", nodes=np.arange(8), delta=1e-7, variant="published")
    for (u, v), both, later in zip(res.pairs.T, res.scores, one.scores, strict=True):
        assert later == pytest.approx(brute_influence(gcn, v, u), rel=1e-4, abs=1e-9)
        assert both == pytest.approx(brute_influence(gcn, v, u) + brute_influence(gcn, u, v), rel=1e-4, abs=1e-9)


def test_costs_n_plus_one_queries(gcn):
    target = target_of(gcn)
    res = attack(target, "linkteller", nodes=np.arange(20))
    assert res.queries == target.queries == 21
    assert res.rows == 21 * 60
    assert res.access == "black-box" and res.params["mode"] == "query"
    assert res.pairs.shape == (2, 190)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_theorem_1_no_influence_beyond_k_hops(make_gcn, layers):
    model = make_gcn(layers=layers, density=0.03)
    res = attack(target_of(model), "linkteller", nodes=np.arange(60))
    far = model.hops()[res.pairs[0], res.pairs[1]] > layers
    assert far.any()
    assert (res.scores[far] == 0).all()


def test_proposition_1_one_layer_gives_every_edge_away(make_gcn):
    model = make_gcn(layers=1)
    res = attack(target_of(model), "linkteller", nodes=np.arange(60))
    assert np.array_equal(res.scores > 0, model.truth(res.pairs))
    assert metrics.ranking(res.scores, model.truth(res.pairs))["auc"] == 1.0


def test_node_order_does_not_matter_for_the_sum(gcn):
    nodes = np.random.default_rng(0).permutation(60)[:15]
    a = attack(target_of(gcn), "linkteller", nodes=nodes)
    b = attack(target_of(gcn), "linkteller", nodes=np.sort(nodes))
    key = lambda r: dict(zip(map(tuple, np.sort(r.pairs, 0).T), r.scores, strict=True))  # noqa: E731
    assert key(a) == pytest.approx(key(b))


def test_whole_graph_result_is_sparse_and_equal(gcn):
    dense = attack(target_of(gcn), "linkteller", nodes=np.arange(60))
    sparse = attack(target_of(gcn), "linkteller")
    assert sparse.unlisted > 0 and sparse.num_pairs == 60 * 59 // 2 == len(dense.scores)
    hit = dense.scores > 0
    assert np.array_equal(sparse.pairs, dense.pairs[:, hit])
    assert np.array_equal(sparse.scores, dense.scores[hit])
    truth = gcn.truth(sparse.pairs)
    rest = sparse.rest(gcn.edges.shape[1], int(truth.sum()))
    assert metrics.ranking(sparse.scores, truth, rest) == pytest.approx(
        metrics.ranking(dense.scores, gcn.truth(dense.pairs))
    )


def test_whole_graph_published_variant(gcn):
    dense = attack(target_of(gcn), "linkteller", nodes=np.arange(60), variant="published")
    sparse = attack(target_of(gcn), "linkteller", variant="published")
    assert np.array_equal(sparse.scores, dense.scores[dense.scores > 0])


def test_given_pairs_cost_only_their_nodes(gcn):
    pairs = np.array([[3, 10, 3], [5, 3, 40]])
    both = attack(target_of(gcn), "linkteller", pairs=pairs)
    assert both.queries == 1 + 4
    assert np.array_equal(both.pairs, pairs)
    one = attack(target_of(gcn), "linkteller", pairs=pairs, variant="published", delta=1e-7)
    assert one.queries == 1 + 3
    assert one.scores[1] == pytest.approx(brute_influence(gcn, 3, 10), rel=1e-4, abs=1e-9)


def test_a_pair_of_a_node_with_itself_is_its_own_influence(gcn):
    res = attack(target_of(gcn), "linkteller", pairs=np.array([[3], [3]]), delta=1e-7)
    assert res.scores[0] == pytest.approx(brute_influence(gcn, 3, 3), rel=1e-5)


def test_known_edges_give_a_density_belief(gcn):
    res = attack(target_of(gcn), "linkteller", nodes=np.arange(60), known_edges=gcn.edges[:, :20])
    true = gcn.edges.shape[1] / 1770
    assert 0.5 * true < res.density < 3 * true
    assert res.predicted().shape[1] == int(np.ceil(res.density * 1770 - 1e-9))


def test_controlled_features_move_only_their_columns(gcn):
    seen = []

    def spy(x):
        seen.append(np.flatnonzero((x != gcn.x).any(0)))
        return gcn(x)

    target = Target.from_callable(spy, features=gcn.x)
    res = attack(target, "linkteller", nodes=np.arange(60), controlled_features=[0, 4])
    assert {tuple(s) for s in seen[1:]} == {(0, 4)}
    assert metrics.ranking(res.scores, gcn.truth(res.pairs))["auc"] > 0.9


def test_a_model_without_edges_is_reported_as_blindness(gcn):
    res = attack(Target.from_callable(lambda x: x @ gcn.w[0], features=gcn.x), "linkteller", nodes=np.arange(10))
    assert (res.scores == 0).all()
    assert "blind" in res.notes[0] and "not evidence" in res.notes[0]


def test_averaging_helps_against_a_sampled_graphsage(make_gcn):
    """GraphSAGE that draws two neighbours per node and layer anew for every query (App. E4)."""
    model = make_gcn(n=40, density=0.07)
    rng = np.random.default_rng(0)
    own = [w / 2 for w in model.w]

    def mean_of_two():
        keys = np.where(model.a > 0, rng.random(model.a.shape), np.inf)
        chosen = (keys <= np.sort(keys, axis=1)[:, 1:2]) & (model.a > 0)
        return chosen / np.maximum(chosen.sum(1, keepdims=True), 1)

    def sampled(x):
        h = np.maximum(x @ own[0] + mean_of_two() @ x @ model.w[0], 0)
        return h @ own[1] + mean_of_two() @ h @ model.w[1]

    def auc(repeats):
        target = Target.from_callable(sampled, features=model.x)
        res = attack(target, "linkteller", nodes=np.arange(40), repeats=repeats, delta=1.0)
        return metrics.ranking(res.scores, model.truth(res.pairs))["auc"], res.queries

    single, averaged = auc(1), auc(32)
    assert averaged[1] == 32 * 41
    assert 1 - averaged[0] < 0.5 * (1 - single[0]) and averaged[0] > 0.9


@pytest.mark.parametrize(
    ("kw", "words"),
    [
        ({"nodes": []}, "non-empty"),
        ({"nodes": [1, 2, 1]}, "node 1 is repeated"),
        ({"nodes": [1, 99]}, "unknown node 99"),
        ({"nodes": [5]}, "at least two"),
        ({"nodes": [1, 2], "mode": "exact"}, "black box"),
        ({"nodes": [1, 2], "delta": -1.0}, "delta"),
        ({"nodes": [1, 2], "repeats": 0}, "repeats"),
        ({"nodes": [1, 2], "density": 2.0}, "belief"),
        ({"pairs": [[1, 2]]}, r"\[2, P\]"),
        ({"pairs": [[1], [99]]}, "unknown node 99"),
        ({"nodes": [1, 2], "pairs": [[1], [3]]}, "outside"),
    ],
)
def test_bad_input(gcn, kw, words):
    with pytest.raises(InputError, match=words):
        attack(target_of(gcn), "linkteller", **kw)


def test_unknown_names(gcn):
    for kw in ({"name": "linkteler"}, {"mode": "fast"}, {"variant": "x"}, {"depth": 2}):
        with pytest.raises(UnknownNameError):
            attack(target_of(gcn), nodes=[1, 2], **kw)


def test_labels_need_another_attack(gcn):
    target = Target.from_callable(lambda x: gcn(x).argmax(1), features=gcn.x, answer="labels")
    with pytest.raises(InputError, match="linkteller-labels"):
        attack(target, "linkteller", nodes=[1, 2])


def test_softmax_answers_rank_as_well_as_logits(gcn, tools):
    soft = Target.from_callable(lambda x: tools.softmax(gcn(x)), features=gcn.x, answer="probabilities")
    a = attack(soft, "linkteller", nodes=np.arange(60))
    b = attack(target_of(gcn), "linkteller", nodes=np.arange(60))
    auc = lambda r: metrics.ranking(r.scores, gcn.truth(r.pairs))["auc"]  # noqa: E731
    assert abs(auc(a) - auc(b)) < 0.02


def test_single_node_inference_hides_every_edge(gcn):
    """App. E5: each node answered on its own one-node graph. LinkTeller sees exact zeros."""

    def alone(x):
        return np.maximum(x @ gcn.w[0], 0) @ gcn.w[1]

    res = attack(Target.from_callable(alone, features=gcn.x), "linkteller", nodes=np.arange(60))
    assert metrics.ranking(res.scores, gcn.truth(res.pairs))["auc"] == 0.5
