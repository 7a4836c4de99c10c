"""Attackers with knowledge: they beat what they weigh, score no pair they know, and refuse to learn from nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from edgeveil import metrics
from edgeveil.attacks.learned.learned_links import setting_of
from edgeveil.attacks.learned.shadow_model import ShadowTarget
from edgeveil.attacks.run_attack import attack
from edgeveil.audits.audit import AuditPlan, attack_configs
from edgeveil.defences.defend import defend
from edgeveil.errors import InputError
from edgeveil.models.settings import TrainSpec
from edgeveil.release.target import PublicGraph
from zoo import planted


def make(seed):
    return planted(200, 4, 0.05, 0.004, 40, train=70, seed=seed)


@pytest.fixture(scope="module")
def graph():
    return make(0)


@pytest.fixture(scope="module")
def release(graph):
    return defend(graph, "lapgraph", epsilon=6.0, seed=0, train=TrainSpec(epochs=40))


def precision(result, graph):
    truth = graph.has_edges(*result.pairs)
    return metrics.at_belief(result.scores, truth, float(truth.mean()))["precision"]


def test_known_edges_help_and_are_not_scored(graph, release):
    known = graph.edge_index[:, ::10]
    found = attack(release, "learned-links", nodes=np.arange(200), known_edges=known)
    pairs = set(map(tuple, found.pairs.T.tolist()))
    assert not pairs & set(map(tuple, known.T.tolist())) and found.params["setting"] == "Attack-6"
    alike, moved = (attack(release, name, nodes=np.arange(200)) for name in ("lsa2-attr", "linkteller"))
    assert precision(found, graph) > max(precision(alike, graph), precision(moved, graph))


def test_a_shadow_graph_teaches_what_to_trust(graph, release):
    found = attack(release, "learned-links", nodes=np.arange(200), shadow=make(1))
    assert found.params["setting"] == "Attack-5"
    assert precision(found, graph) > 1.5 * precision(attack(release, "lsa2-attr", nodes=np.arange(200)), graph)
    blind = attack(release, "learned-links", nodes=np.arange(60), shadow=make(1), with_features=False)
    assert blind.params["setting"] == "Attack-1"


def test_the_eight_attackers_have_eight_numbers():
    assert sorted(setting_of(*has) for has in itertools.product([False, True], repeat=3)) == list(range(8))


def test_the_shadow_models_influence_is_its_derivative():
    target = ShadowTarget(PublicGraph.of(make(2)))
    before, v = target.query(), 5
    target._x[v] *= 1 + 1e-6
    after = target.query()
    target._x[v] /= 1 + 1e-6
    wanted = np.linalg.norm(after - before, axis=1) / 1e-6
    assert target.influence(np.arange(200))[v].toarray().ravel() == pytest.approx(wanted, abs=1e-5)


def test_nothing_to_learn_from_is_refused(release):
    with pytest.raises(InputError, match="learns from known edges"):
        attack(release, "learned-links", nodes=np.arange(50))


def test_audits_learn_only_where_knowledge_is_granted():
    names = [c.name for c in attack_configs(AuditPlan(), 0)]
    granted = {c.name: c.knows for c in attack_configs(AuditPlan(knows=0.05), 0)}
    assert "learned-links" not in names and granted["learned-links"] == 0.05 and granted["linkteller"] == 0.0
