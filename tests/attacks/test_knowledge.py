"""Attackers who know less or more: density beliefs, labels only, and what every registered attack must keep."""

from __future__ import annotations

import numpy as np
import pytest

import edgeveil.metrics as metrics
from edgeveil.attacks import density
from edgeveil.attacks.attack import ATTACKS
from edgeveil.attacks.run_attack import attack
from edgeveil.errors import InputError
from edgeveil.release.target import Target

PAIRS = np.array(np.triu_indices(40, 1))


@pytest.fixture
def scored():
    """Scores that separate 60 edges of 780 pairs almost perfectly."""
    rng = np.random.default_rng(0)
    truth = np.zeros(780, bool)
    truth[rng.choice(780, 60, replace=False)] = True
    return rng.random(780) + 2 * truth, truth


def test_known_edges_and_non_edges_give_the_density(scored):
    scores, truth = scored
    belief = density.from_known_edges(scores, PAIRS, PAIRS[:, truth][:, :10], PAIRS[:, ~truth][:, :50])
    assert belief.density == pytest.approx(truth.mean(), rel=0.2)
    alone = density.from_known_edges(scores, PAIRS, PAIRS[:, truth][:, :10])
    assert alone.density == pytest.approx(truth.mean(), rel=0.2)
    assert alone.threshold > 1


def test_unlisted_pairs_count_in_the_density(scored):
    scores, truth = scored
    keep = scores > 1
    belief = density.from_known_edges(scores[keep], PAIRS[:, keep], PAIRS[:, truth], unlisted=int((~keep).sum()))
    assert belief.density <= truth.mean()


def test_one_nodes_relations_give_the_density(scored):
    scores, truth = scored
    edges = PAIRS[:, truth]
    node = int(np.bincount(edges.ravel()).argmax())
    friends = [int(a + b - node) for a, b in edges.T if node in (a, b)]
    belief = density.from_node_relations(scores, PAIRS, node, friends)
    assert belief.density == pytest.approx(truth.mean(), rel=0.6)


def test_a_few_nodes_relations_give_a_steadier_density(scored):
    scores, truth = scored
    edges = PAIRS[:, truth]
    friends = {v: [int(a + b - v) for a, b in edges.T if v in (a, b)] for v in range(40) if (edges == v).any()}
    single = [density.from_node_relations(scores, PAIRS, v, f).density for v, f in friends.items()]
    several = density.from_node_relations(scores, PAIRS, friends)
    assert several.density == pytest.approx(truth.mean(), rel=0.35) and several.method.endswith(f"{len(friends)} nodes")
    assert abs(several.density - truth.mean()) <= np.abs(np.array(single) - truth.mean()).max()
    with pytest.raises(InputError, match="at least one node"):
        density.from_node_relations(scores, PAIRS, {})


def test_link_prediction_on_a_known_part_gives_the_density():
    rng = np.random.default_rng(1)
    groups = np.arange(200) % 4
    x = np.eye(4)[groups] + 0.3 * rng.random((200, 4))
    i, j = np.triu_indices(200, 1)
    truth = rng.random(len(i)) < np.where(groups[i] == groups[j], 0.08, 0.01)
    known = np.arange(100)
    inside = (i < 100) & (j < 100)
    wanted = np.stack([i, j])[:, (i >= 100) & (j >= 100)]
    belief = density.from_link_prediction(x, known, np.stack([i, j])[:, truth & inside], wanted)
    assert belief.density == pytest.approx(truth[(i >= 100) & (j >= 100)].mean(), rel=0.3)


def test_a_similar_graph_lends_its_density_or_its_degree():
    assert density.from_similar_graph(101, 505).density == pytest.approx(0.1)
    assert density.from_similar_graph(101, 505, 1011, keep="degree").density == pytest.approx(10 / 1010, rel=1e-2)


def test_beliefs_refuse_what_tells_nothing(scored):
    scores, _truth = scored
    for call in (
        lambda: density.from_known_edges(scores, PAIRS, [[90], [91]]),
        lambda: density.from_node_relations(scores, PAIRS, 99, [98]),
        lambda: density.from_link_prediction(np.eye(4), [0, 1], np.empty((2, 0), int), [[2], [3]]),
        lambda: density.from_similar_graph(1, 0),
        lambda: density.from_similar_graph(9, 3, keep="degree"),
        lambda: density.from_similar_graph(9, 3, keep="size"),
    ):
        with pytest.raises(InputError):
            call()


def test_labels_alone_still_leak(make_gcn):
    model = make_gcn(n=80, density=0.03, seed=5)
    target = Target.from_callable(lambda x: model(x).argmax(1), features=model.x, answer="labels")
    res = attack(target, "linkteller-labels", nodes=np.arange(80))
    assert res.queries == 1 + 80 * 8
    assert metrics.ranking(res.scores, model.truth(res.pairs))["auc"] > 0.75
    far = model.hops()[res.pairs[0], res.pairs[1]] > 2
    assert (res.scores[far] == 0).all()
    graded = attack(Target.from_callable(model, features=model.x), "linkteller-labels", nodes=np.arange(80))
    assert np.array_equal(graded.scores, res.scores)
    with pytest.raises(InputError, match="steps"):
        attack(target, "linkteller-labels", nodes=[0, 1], steps=())


@pytest.mark.parametrize("name", ATTACKS.names())
def test_every_attack_keeps_the_contract(name, gcn):
    """Runs on nodes, on pairs and on a whole graph; counts its queries; repeats itself; says where it is from."""
    make = lambda: Target.from_callable(gcn, features=gcn.x)  # noqa: E731
    target = make()
    if {"stored graph", "mechanism"} & ATTACKS.get(name).needs:
        with pytest.raises(InputError, match=r"shows none|public law"):
            attack(target, name)
        return
    known = {}
    if "knowledge" in ATTACKS.get(name).needs:
        with pytest.raises(InputError, match="learns from known edges"):
            attack(target, name, nodes=np.arange(12))
        known = {"known_edges": gcn.edges[:, (gcn.edges >= 12).all(axis=0)]}
    res = attack(target, name, **known, nodes=np.arange(12), seed=3)
    assert res.pairs.shape == (2, 66) and res.scores.shape == (66,) and np.isfinite(res.scores).all()
    assert res.attack == name and res.queries == target.queries and res.rows == target.rows
    assert np.array_equal(attack(make(), name, **known, nodes=np.arange(12), seed=3).scores, res.scores)
    some = attack(make(), name, **known, pairs=res.pairs[:, :5])
    assert np.array_equal(some.pairs, res.pairs[:, :5])
    whole = attack(make(), name, **known)
    assert whole.num_pairs == 60 * 59 // 2 - sum(
        len(edges[0]) for edges in known.values()
    )  # what is known is not guessed
    assert ATTACKS.get(name).reference
    with pytest.raises(InputError):
        attack(make(), name, nodes=[0, 0])
