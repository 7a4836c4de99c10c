"""What the local mechanisms share: composition per node, evolving graphs, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import edgeveil as ev
from edgeveil.defences.defend import make_defence
from edgeveil.errors import InputError
from edgeveil.models.drop import Drop
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")


def test_the_two_node_budgets_add_up() -> None:
    found = make_defence("gp-t", epsilon=1.0, epsilon_x=3.0, epsilon_y=0.5).mechanism_guarantee(0)
    by_unit = {part.unit: part.claimed_epsilon for part in found.also}
    assert by_unit == {"one node's features": 3.0, "one node's label": 0.5, "one node's features and label": 3.5}
    assert found.epsilon is None and any("total of 4.5" in note for note in found.notes)
    alone = make_defence("gp-t", epsilon=1.0, epsilon_x=math.inf).mechanism_guarantee(0)
    assert [part.unit for part in alone.also] == ["one node's label"]


@pytest.mark.parametrize("name", ["gp-t", "gp-m", "rr"])
def test_claims_are_per_entry(name: str) -> None:
    mechanism = make_defence(name, epsilon=1.0)
    assert "entry" in mechanism.unit
    assert any("stands in two lists" in note for note in mechanism.mechanism_guarantee(0).notes)


def test_another_graph_is_stated() -> None:
    other = {"inference_graph": toy(seed=3), "setting": "inductive-different"}
    release = ev.defend(toy(), "gp-sound", epsilon=2.0, seed=0, **other)
    assert "parallel" in release.guarantee.composition and "pay twice" in release.guarantee.composition


def test_evolving_validates_where_validation_nodes_have_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    plain = Drop.validate

    def watch(self: Drop, logits: torch.Tensor) -> tuple[float, float] | None:
        assert self.val is not None
        seen.append(logits[self.val].clone())
        return plain(self, logits)

    monkeypatch.setattr(Drop, "validate", watch)
    ev.defend(toy(), "gp-t", epsilon=1.0, seed=0, setting="inductive-evolving")
    assert seen and all(float(logits.std(dim=0).max()) > 0 for logits in seen)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon_x": 0.0}, "epsilon_x"),
        ({"epsilon_y": None}, "inf sends the data"),
        ({"steps_x": 2.5}, "whole number"),
        ({"steps_y": "2"}, "whole number"),
        ({"alpha": "0.5"}, "alpha"),
        ({"delta": None}, "delta"),
    ],
)
def test_nonsense_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_defence("gp-t", epsilon=1.0, **options)


def test_an_edge_is_given_away_by_either_of_its_entries() -> None:
    """A path 0-1-2 and a far edge 3-4: each end node is certain in its neighbour's list."""
    graph = ev.Graph.from_edges([[0, 1, 3], [1, 2, 4]], num_nodes=5, x=np.ones((5, 2)), y=np.zeros(5, int))
    mechanism = make_defence("gp-t", epsilon=1.0, epsilon_x=math.inf, epsilon_y=math.inf, delta=-1.0)
    found = mechanism.certain_entries(graph, 0)
    assert (found["edges"], found["certain_edges"]) == (3, 3)
    assert (found["entries"], found["certain"]) == (6, 4)
