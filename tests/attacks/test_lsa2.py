"""LSA2: distances against scipy, the published form, whole graphs in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import edgeveil.attacks.lsa2 as lsa2
from edgeveil.attacks.run_attack import attack
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.release.target import Target


@pytest.fixture
def target(gcn):
    return Target.from_callable(gcn, features=gcn.x)


@pytest.mark.parametrize("distance", lsa2.DISTANCES)
def test_every_distance_is_scipys(gcn, target, tools, distance):
    post = attack(target, "lsa2-post", nodes=np.arange(20), distance=distance)
    assert np.allclose(post.scores, -pdist(tools.softmax(gcn(gcn.x))[:20], distance))
    attr = attack(target, "lsa2-attr", nodes=np.arange(20), distance=distance)
    assert np.allclose(attr.scores, -pdist(gcn.x[:20], distance))
    chosen = attack(target, "lsa2-attr", pairs=attr.pairs, distance=distance)
    assert np.allclose(chosen.scores, attr.scores)
    assert (post.queries, attr.queries) == (1, 0)


def test_default_is_correlation(target):
    a = attack(target, "lsa2-post", nodes=np.arange(9))
    b = attack(target, "lsa2-post", nodes=np.arange(9), distance="correlation")
    assert np.array_equal(a.scores, b.scores) and a.params["distance"] == "correlation"


def test_published_form_centres_columns_over_the_sampled_nodes(gcn, target):
    res = attack(target, "lsa2-attr", nodes=np.arange(20), variant="published")
    x = gcn.x[:20] - gcn.x[:20].mean(0)
    assert np.allclose(res.scores, -pdist(x, "cosine"))


def test_two_class_posteriors_are_called_void(make_gcn):
    model = make_gcn(classes=2)
    target = Target.from_callable(model, features=model.x)
    for variant in ("correct", "published"):
        res = attack(target, "lsa2-post", nodes=np.arange(20), variant=variant)
        assert np.allclose(np.abs(1 + res.scores), 1)
        assert "two-class" in res.notes[0]
    assert attack(target, "lsa2-post", nodes=np.arange(20), distance="euclidean").notes == ()


def test_constant_and_zero_vectors_count_as_unrelated():
    x = np.array([[0.0, 0, 0], [1, 1, 1], [1, 2, 3], [3, 2, 1]])
    target = Target.from_callable(lambda x: x, features=x)
    res = attack(target, "lsa2-attr", nodes=np.arange(4))
    assert np.allclose(res.scores, [-1, -1, -1, -1, -1, -2])
    assert np.isfinite(attack(target, "lsa2-attr", nodes=np.arange(4), distance="braycurtis").scores).all()


@pytest.mark.parametrize("block", [70, 700, 2**22])
def test_blocks_change_nothing(monkeypatch, target, block):
    monkeypatch.setattr(lsa2, "BLOCK", block)
    dense = attack(target, "lsa2-post", nodes=np.arange(60))
    assert np.allclose(dense.scores, attack(target, "lsa2-post", pairs=dense.pairs).scores)
    whole = attack(target, "lsa2-post", keep=100)
    assert whole.unlisted == 1770 - 100 and len(whole.scores) == 100
    best = np.sort(dense.scores)[::-1][:100]
    assert np.allclose(np.sort(whole.scores)[::-1], best)
    assert whole.floor == pytest.approx(best[-1])
    place = {tuple(p): s for p, s in zip(dense.pairs.T, dense.scores, strict=True)}
    assert all(place[tuple(p)] == pytest.approx(s) for p, s in zip(whole.pairs.T, whole.scores, strict=True))


def test_single_node_inference_leaves_only_features(gcn):
    """App. E5: answered one node at a time, posteriors are a function of that node's features alone."""
    target = Target.from_callable(lambda x: np.maximum(x @ gcn.w[0], 0) @ gcn.w[1], features=gcn.x)
    moved = gcn.x.copy()
    moved[30:] = 1.0
    other = Target.from_callable(lambda x: np.maximum(x @ gcn.w[0], 0) @ gcn.w[1], features=moved)
    a, b = (attack(t, "lsa2-post", nodes=np.arange(20)).scores for t in (target, other))
    assert np.array_equal(a, b)


def test_labels_are_one_hot_posteriors(gcn):
    target = Target.from_callable(lambda x: gcn(x).argmax(1), features=gcn.x, answer="labels")
    res = attack(target, "lsa2-post", nodes=np.arange(20), distance="euclidean")
    y = gcn(gcn.x).argmax(1)
    assert np.array_equal(res.scores == 0, y[res.pairs[0]] == y[res.pairs[1]])


def test_bad_parameters(target, gcn):
    for kw in ({"distance": "hamming"}, {"variant": "x"}):
        with pytest.raises(UnknownNameError):
            attack(target, "lsa2-post", nodes=[0, 1], **kw)
    with pytest.raises(InputError, match="keep"):
        attack(target, "lsa2-post", keep=0)
    bare = Target.from_callable(lambda features=None, nodes=None, induced=False: gcn(gcn.x), 60)
    with pytest.raises(InputError, match="features"):
        attack(bare, "lsa2-attr", nodes=[0, 1])
    with pytest.raises(InputError, match="no modes"):
        attack(target, "lsa2-post", nodes=[0, 1], mode="exact")


def test_random_is_reproducible_and_uninformative(target):
    a, b, c = (attack(target, "random", nodes=np.arange(40), seed=s) for s in (1, 1, 2))
    assert np.array_equal(a.scores, b.scores) and not np.array_equal(a.scores, c.scores)
    assert a.queries == 0 and a.access == "none"
    assert attack(target, "random").unlisted == 1770
