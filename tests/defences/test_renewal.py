"""Renewal: each method declares its own, every spend is composed, and the rest is refused before a charge."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.defence import DEFENCES, Defence, EdgeMechanism
from edgeveil.defences.renew import renew, renewal_epsilon
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.privacy.guarantee import Guarantee
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")

PRIVATE = {"epsilon_x": 3.0, "epsilon_y": 2.0}


def unit_range(graph: Graph, seed: int = 5) -> Graph:
    x = np.random.default_rng(seed).random((graph.num_nodes, graph.num_features)).astype(np.float32)
    return graph.with_features(x)


def promises(guarantee: Guarantee) -> dict[str, float | None]:
    return {other.unit: other.claimed_epsilon for other in guarantee.also}


@pytest.fixture(scope="module")
def private() -> ev.Release:
    return ev.defend(toy(), "gp-sound", epsilon=4.0, seed=0, **PRIVATE)


def test_new_features_of_a_private_release_are_never_stored_raw(private: ev.Release) -> None:
    graph = unit_range(toy(seed=3))
    fresh = renew(private, graph, seed=1)
    stored = fresh.matrix.toarray()
    assert len(np.unique(stored)) <= 3  # the multi-bit mechanism sends -1, 0 or +1, rectified
    assert not np.isclose(stored, np.asarray(graph.x)).any(axis=1).all()


def test_the_second_spend_on_a_node_is_stated(private: ev.Release) -> None:
    before = promises(private.guarantee)
    assert before["one node's features"] == 3.0 and before["one node's features and label"] == 5.0
    once = renew(private, unit_range(toy(seed=3)), epsilon=1.0, seed=1)
    after = promises(once.guarantee)
    assert after["one node's features"] == 6.0 and after["one node's features and label"] == 8.0
    assert after["one node's label"] == 2.0  # labels are not sent again
    assert after["one entry of one node's neighbour list"] == 2.5 and once.guarantee.claimed_epsilon == 5.0
    twice = renew(once, unit_range(toy(seed=4)), epsilon=1.0, seed=2)
    assert promises(twice.guarantee)["one node's features"] == 9.0 and twice.guarantee.claimed_epsilon == 6.0


def test_stored_noisy_features_cost_nothing_again(private: ev.Release) -> None:
    kept = renew(private, toy(seed=3).with_features(None), seed=1)
    assert promises(kept.guarantee)["one node's features"] == 3.0
    np.testing.assert_array_equal(kept.matrix.toarray(), private.matrix.toarray())


def test_features_out_of_range_are_refused_before_the_lists_are_asked(private: ev.Release) -> None:
    graph = toy(seed=3)
    wild = graph.with_features(10 * np.ones((graph.num_nodes, graph.num_features), np.float32))
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        renew(private, wild, seed=1)


@dataclass(frozen=True, kw_only=True)
class _Own(EdgeMechanism):
    """A sound mechanism of somebody else's, whose author has said nothing about renewal."""

    epsilon: float | None = None
    status: ClassVar[Any] = "sound"
    reference: ClassVar[str] = "test"
    asked: ClassVar[list[str]] = []

    def perturb(self, graph: Graph, seed: Any = None) -> Graph:
        self.asked.append(graph.name)
        return graph.with_edges(np.empty((2, 0), np.int64))

    def mechanism_guarantee(self, seed: Any = None) -> Guarantee:
        return Guarantee(status="sound", claimed_epsilon=self.epsilon, reason="reads nothing")


def test_a_method_without_a_proven_renewal_is_refused_before_any_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    DEFENCES.load()
    monkeypatch.setattr(DEFENCES, "_entries", dict(DEFENCES._entries))
    DEFENCES.register("silent-mechanism")(_Own)
    release = ev.defend(toy(), "silent-mechanism", epsilon=1.0, seed=0)
    _Own.asked.clear()
    with pytest.raises(InputError, match="no renewal is proved for 'silent-mechanism'"):
        renewal_epsilon(release)
    with pytest.raises(InputError, match="no renewal is proved"):
        renew(release, toy(seed=3))
    assert _Own.asked == []


def test_every_defence_declares_its_renewal_or_is_refused() -> None:
    """Whoever is sound and renewable says so in its own class, so that a new method is refused by default."""
    for entry in DEFENCES:
        cls: Any = entry.cls
        owner = next(base for base in cls.__mro__ if "renewal" in base.__dict__)
        assert owner in (cls, Defence)


@pytest.mark.parametrize(
    ("name", "params", "word"),
    [
        ("lpgnet", {"readout": "bayes"}, "Bayesian"),
        ("lpgnet", {"noise": "continuous"}, "continuous"),
        ("lpgnet", {"variant": "published"}, "no sound guarantee"),
        ("gp-t", {}, "no sound guarantee"),
        ("rr", {}, "no sound guarantee"),
    ],
)
def test_what_cannot_be_renewed_is_refused_before_any_charge(name: str, params: dict[str, Any], word: str) -> None:
    release = ev.defend(toy(), name, epsilon=2.0, seed=0, **params)
    with pytest.raises(InputError, match=word):
        renewal_epsilon(release)


@pytest.mark.parametrize(("name", "cost"), [("edgerand", 1.5), ("lapgraph", 1.5), ("lpgnet", 1.5), ("mlp", 0)])
def test_old_and_new_spending_add_up(name: str, cost: float) -> None:
    release = ev.defend(toy(), name, epsilon=None if name == "mlp" else 2.0, seed=0)
    assert renewal_epsilon(release, 1.5) == Fraction(cost)
    fresh = renew(release, toy(seed=3), epsilon=1.5, seed=1)
    assert release.guarantee.epsilon is not None and fresh.guarantee.epsilon == release.guarantee.epsilon + cost
    assert sum(c.epsilon for c in fresh.guarantee.charges if c.on == "snapshot") == Fraction(cost)
    np.testing.assert_array_equal(fresh.matrix.toarray(), FeatureMatrix.wrap(toy(seed=3).x).toarray())


def test_the_nodes_of_a_new_graph_are_public_before_anything_is_charged() -> None:
    release = ev.defend(toy(), "lapgraph", epsilon=2.0, seed=0)
    derived = ev.Graph.from_edges(toy().edge_index)
    for refused in (lambda: renewal_epsilon(release, graph=derived), lambda: renew(release, derived, seed=0)):
        with pytest.raises(InputError, match="read off its edges"):
            refused()
