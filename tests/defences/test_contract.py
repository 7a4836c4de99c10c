"""Every registered defence keeps the same promises; a new file is tested the moment it is registered."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.defence import DEFENCES
from edgeveil.defences.defend import make_defence
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.models.settings import TrainSpec
from edgeveil.privacy.budget import Budget
from zoo import PLAIN, toy

pytestmark = pytest.mark.usefixtures("short_read_outs")
NAMES = DEFENCES.names()
SHORT = TrainSpec(epochs=10)  # no promise depends on how long a model learns


def defend(name: str, seed: int | None = 0, epsilon: float | None = 4.0):  # type: ignore[no-untyped-def]
    model = "mlp" if name == "mlp" else "gcn"
    return ev.defend(toy(), name, epsilon=None if name in PLAIN else epsilon, model=model, seed=seed, train=SHORT)


seeded = cache(defend)  # for tests that only read it; the seed decides every bit


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_release(name: str) -> None:
    first, second = seeded(name), defend(name)
    np.testing.assert_array_equal(first.predict(), second.predict())
    assert first.guarantee == second.guarantee


@pytest.mark.parametrize("name", NAMES)
def test_the_input_graph_is_untouched(name: str) -> None:
    graph = toy()
    before = graph.fingerprint
    model = "mlp" if name == "mlp" else "gcn"
    ev.defend(graph, name, epsilon=None if name in PLAIN else 4.0, model=model, seed=0, train=SHORT)
    assert (
        toy().fingerprint
        == before
        == type(graph)(**{f: getattr(graph, f) for f in graph.__dataclass_fields__}).fingerprint
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_guarantee_fits_the_class_and_the_charges(name: str) -> None:
    release = seeded(name)
    claim, cls = release.guarantee, DEFENCES.get(name)
    assert claim.status == cls.status and cls.reference and DEFENCES.get(release.defence) is cls
    assert claim.unit == cls.unit or claim.status != "sound"
    assert (claim.epsilon is None) == (claim.status != "sound" or claim.unit != "one undirected edge")
    assert "one undirected edge" in claim.statement()
    if claim.status == "sound" and claim.charges:
        bill = Budget(2 * claim.claimed_epsilon, delta=claim.delta or None, accountant=claim.accountant)
        for charge in claim.charges:
            bill.enter(charge)
        assert float(bill.spent) == pytest.approx(claim.claimed_epsilon)
    if name not in PLAIN:
        assert claim.claimed_epsilon == pytest.approx(4.0) and "reproducible, not private" in claim.randomness


@pytest.mark.parametrize("name", [n for n in NAMES if n not in PLAIN])
@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), None])
def test_bad_epsilon_is_refused(name: str, bad: float | None) -> None:
    with pytest.raises(InputError, match="epsilon"):
        defend(name, epsilon=bad)


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load_keep_every_bit(name: str, tmp_path: Path) -> None:
    release = seeded(name)
    release.save(tmp_path / "r")
    np.testing.assert_array_equal(ev.Release.load(tmp_path / "r").predict(), release.predict())


@pytest.mark.parametrize("name", [n for n in NAMES if n not in PLAIN])
def test_a_real_release_draws_from_the_system(name: str) -> None:
    claim = defend(name, seed=None).guarantee
    assert "entropy" in claim.randomness


def test_unknown_names_and_parameters_suggest_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="lapgraph"):
        make_defence("lapgrph", 1.0)
    with pytest.raises(InputError, match="takes no epsilon"):
        make_defence("none", 1.0)
    with pytest.raises(UnknownNameError, match="parameter"):
        make_defence("lapgraph", 1.0, coutn_share=0.1)


@pytest.mark.parametrize("name", [n for n in NAMES if DEFENCES.get(n).status == "sound"])
def test_nothing_sound_is_made_of_nodes_that_were_read_off_the_edges(name: str) -> None:
    """A dropped pendant edge would drop its node, so the list of nodes alone would tell the edge at any epsilon."""
    graph = toy()
    derived = ev.Graph.from_edges(graph.edge_index).with_features(graph.x).with_labels(graph.y)
    epsilon = None if name in PLAIN else 4.0
    model = "mlp" if name == "mlp" else "gcn"
    for first, second in ((derived, None), (graph, derived), (derived, graph)):
        with pytest.raises(InputError, match="read off its edges"):
            ev.defend(first, name, epsilon=epsilon, model=model, seed=0, inference_graph=second)
    mechanism = make_defence(name, epsilon)
    if hasattr(mechanism, "perturb"):
        with pytest.raises(InputError, match="read off its edges"):
            mechanism.perturb(derived, seed=0)
    made = ev.defend(derived.with_public_nodes(), name, epsilon=epsilon, model=model, seed=0, train=SHORT)
    assert made.guarantee.status == "sound"


def test_the_owner_may_still_train_without_a_claim_on_such_nodes() -> None:
    graph = toy()
    derived = ev.Graph.from_edges(graph.edge_index).with_features(graph.x).with_labels(graph.y)
    assert ev.defend(derived, "none", seed=0, train=SHORT).guarantee.status == "none"
