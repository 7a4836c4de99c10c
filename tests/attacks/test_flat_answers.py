"""One flat question to stored statistics: more than features, nothing without what is stored, ranks that hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgeveil import metrics
from edgeveil.attacks.attack import by_strength
from edgeveil.attacks.flat_answers import FlatAnswers, agreement
from edgeveil.attacks.run_attack import attack
from edgeveil.defences.defend import defend
from edgeveil.errors import InputError
from edgeveil.models.settings import TrainSpec
from edgeveil.release.mixture_predictor import MixturePredictor
from edgeveil.release.readout_predictor import StoredPredictor
from edgeveil.release.target import Target
from zoo import planted

SHORT = TrainSpec(epochs=60)
NODES = np.arange(240)


@pytest.fixture(scope="module")
def graph():
    return planted(240, 6, 0.05, 0.006, 60, 0.35, train=90)


@pytest.fixture(scope="module")
def release(graph):
    return defend(graph, "lpgnet-1", epsilon=12.0, seed=0, train=SHORT)


def test_answers_to_a_flat_question_tell_more_than_features_and_permuted_ones_do_not(graph, release):
    honest = attack(Target.local(release, "probabilities"), "flat-answers", nodes=NODES)
    truth = graph.has_edges(*honest.pairs)
    control = attack(_Permuted(release), "flat-answers", nodes=NODES)
    alike = attack(release, "lsa2-attr", nodes=NODES)
    ap = [metrics.ranking(r.scores, truth)["average_precision"] for r in (honest, control, alike)]
    assert ap[0] > 1.25 * ap[1] and ap[0] > 1.25 * ap[2]
    assert (honest.queries, honest.access) == (2, "black-box") and 0.2 < honest.params["kappa"] <= 1


def test_nothing_is_learned_where_nothing_is_stored(graph):
    release = defend(graph, "mlp", seed=0, train=SHORT)
    found = attack(release, "flat-answers", nodes=NODES)
    alike = attack(release, "lsa2-attr", nodes=NODES)
    assert found.params["kappa"] == 0 and "nothing is stored" in found.notes[0]
    order = np.argsort(alike.scores, kind="stable")
    assert (np.diff(found.scores[order]) >= 0).all()


def test_a_whole_graph_pairs_and_nodes_get_the_same_scores(graph, release):
    whole = attack(release, "flat-answers", keep=300)
    every = attack(release, "flat-answers", nodes=NODES)
    some = attack(release, "flat-answers", nodes=NODES, pairs=whole.pairs)
    assert some.scores == pytest.approx(whole.scores)
    assert np.sort(every.scores)[-300:] == pytest.approx(np.sort(whole.scores))
    assert whole.floor == whole.scores.min() > 0 and whole.num_pairs == 240 * 239 // 2


def test_audits_try_it_where_counts_are_stored_or_questions_are_all_there_is(graph, release):
    assert "flat-answers" in by_strength()
    bare = defend(graph, "none", seed=0, train=TrainSpec(epochs=2))
    mlp = defend(graph, "mlp", seed=0, train=TrainSpec(epochs=2))
    tried = {Target.local(release): True, Target.local(release, "probabilities"): True, Target.local(mlp): False}
    tried |= {Target.local(bare): False}
    assert all((not FlatAnswers().idle(target)) == wanted for target, wanted in tried.items())
    with pytest.raises(InputError, match="labels only"):
        attack(Target.local(release, "labels"), "flat-answers")
    with pytest.raises(InputError, match="whole feature rows"):
        attack(release, "flat-answers", controlled_features=[0, 1])


def test_what_was_made_of_counts_is_read_too(graph):
    """A mixture of an edge-free model and stored evidence keeps no counts, but answers with what they said."""
    mlp = defend(graph, "mlp", seed=0, train=SHORT)
    classes = mlp.predict().argmax(axis=1)
    said = np.asarray(graph.adjacency @ np.eye(graph.num_classes)[classes])
    kept = replace(mlp, predictor=MixturePredictor([mlp.predictor, StoredPredictor(said)], [1.0, 1.0]))
    target = Target.local(kept)
    assert target.stores_rows and target.stored_counts is None and not FlatAnswers().idle(target)
    found, alike = (attack(target, name, nodes=NODES) for name in ("flat-answers", "lsa2-attr"))
    truth = graph.has_edges(*found.pairs)
    ap = [metrics.ranking(r.scores, truth)["average_precision"] for r in (found, alike)]
    assert ap[0] > 1.25 * ap[1]


def test_agreement_is_cohens_kappa():
    one, other = np.array([0, 0, 1, 1, 2, 2, 2, 0]), np.array([0, 1, 1, 1, 2, 0, 2, 0])
    assert agreement(one, other) == pytest.approx((6 / 8 - 21 / 64) / (1 - 21 / 64))
    assert agreement(one, one) == 1 and agreement(np.zeros(4, int), np.zeros(4, int)) == 0
    assert agreement(np.array([0, 1]), np.array([1, 0])) == 0


class _Permuted(Target):
    """The release's answers, but a flat question is answered with the rows of other nodes of the same class."""

    def __init__(self, release):
        super().__init__()
        self._inner = Target.local(release)
        self.num_nodes, self.features, self.num_features = 240, self._inner.features, self._inner.num_features
        classes = self._inner.query().argmax(axis=1)
        rng = np.random.default_rng(1)
        self._order = np.arange(240)
        for c in np.unique(classes):
            self._order[classes == c] = rng.permutation(self._order[classes == c])

    def _answer(self, features, nodes, induced):
        answer = self._inner.query(features=features, nodes=nodes, induced=induced)
        return answer if features is None else answer[self._order]
