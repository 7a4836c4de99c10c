from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest

from edgeveil.errors import InputError
from edgeveil.privacy.budget import Charge
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee


def sound(**changes: Any) -> Guarantee:
    return Guarantee(
        **{"status": "sound", "claimed_epsilon": 4.0, "charges": (Charge("count", Fraction(1, 3)),), **changes}
    )


def test_the_statement_says_what_epsilon_covers() -> None:
    said = Guarantee(status="sound", claimed_epsilon=2.0, randomness=SECURE).statement()
    assert "hiding all k edges of one person costs k times epsilon (k times 2)" in said
    assert "degree, PageRank or embeddings" in said and "void this claim" in said
    approximate = Guarantee(status="sound", claimed_epsilon=2.0, delta=1e-6, accountant="zcdp").statement()
    assert "delta becomes k e^((k-1) 2) times 1e-06" in approximate
    free = Guarantee(status="sound", claimed_epsilon=0.0).statement()
    assert "all k edges" not in free and "PageRank" in free  # an MLP on degrees reads edges after all
    for silent in ({"status": "none"}, {"status": "refuted", "reason": "shown"}):
        assert "PageRank" not in Guarantee(**silent).statement()  # type: ignore[arg-type]


def test_only_one_undirected_edge_has_an_epsilon() -> None:
    other = Guarantee(status="sound", claimed_epsilon=2.0, unit="one node's features")
    assert other.epsilon is None and other.claimed_epsilon == 2.0 and "claimed epsilon 2" in repr(other)
    assert other.to_json()["epsilon"] is None and Guarantee.from_json(other.to_json()) == other
    assert "all k edges" not in other.statement()


def test_only_a_sound_guarantee_has_an_epsilon_to_rely_on() -> None:
    assert sound().epsilon == 4.0
    refuted = Guarantee(status="refuted", claimed_epsilon=4.0, reason="the support depends on the input")
    assert refuted.epsilon is None and refuted.claimed_epsilon == 4.0
    assert Guarantee(status="none").epsilon is None


def test_statement_of_a_sound_guarantee_says_what_is_and_is_not_protected() -> None:
    text = sound(notes=("Tuning is not covered",), composition="sequential", reference="a paper").statement()
    said = ["4-differential privacy", "one undirected edge", "differ in one undirected edge", "count (graph)"]
    said += ["Not protected: node features", "Tuning is not covered.", "sequential", "Reference: a paper."]
    for part in said:
        assert part in text
    assert "(1, 1e-06)-differential privacy" in sound(claimed_epsilon=1.0, delta=1e-6).statement()
    assert "epsilon 0" in sound(claimed_epsilon=0.0, charges=()).statement()


def test_a_seeded_run_says_that_it_is_not_private() -> None:
    assert "not private" in sound(randomness=SEEDED).statement()
    assert "must not be published" in sound(randomness=SEEDED).statement()


def test_a_refuted_claim_is_never_printed_as_a_guarantee() -> None:
    text = Guarantee(status="refuted", claimed_epsilon=1.0, reason="the ratio is unbounded").statement()
    assert text.startswith("No privacy guarantee")
    assert "refuted" in text and "unbounded" in text and "Not protected" not in text


def test_json_round_trip() -> None:
    node = Guarantee(status="sound", claimed_epsilon=3.0, unit="the features of one node")
    guarantee = sound(also=(node,), notes=("a note",), delta=0.0)
    data = json.loads(json.dumps(guarantee.to_json()))
    assert Guarantee.from_json(data) == guarantee
    assert data["epsilon"] == 4.0 and data["statement"] == guarantee.statement()
    assert "features of one node" in data["statement"]


@pytest.mark.parametrize(
    "bad",
    [
        {"status": "sound"},
        {"status": "sound", "claimed_epsilon": math.inf},
        {"status": "sound", "claimed_epsilon": -1.0},
        {"status": "sound", "claimed_epsilon": 1.0, "delta": 1.0},
        {"status": "proven", "claimed_epsilon": 1.0},
        {"status": "refuted", "claimed_epsilon": 1.0},
    ],
)
def test_contradictory_guarantees_cannot_be_made(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Guarantee(**bad)


def test_promises_in_other_units_state_group_privacy_too() -> None:
    entries = Guarantee(status="sound", claimed_epsilon=2.0, unit="one entry of a list", neighbouring="two lists")
    assert "Group privacy: k times one entry of a list cost k times epsilon (k times 2)." in entries.statement()
