"""Releases that answer alike are attacked once, whatever mechanism and budget led to them."""

from __future__ import annotations

from typing import Any

import pytest

from edgeveil.graph.graph import Graph
from edgeveil.models.memo import Memo, remembering
from edgeveil.runs.measure import measure
from edgeveil.runs.run_config import AttackConfig, RunConfig

SAMPLED = AttackConfig(params={"mode": "query"}, protocol="sampled", nodes=10, beliefs=("k",))


def rows(toy: Graph, attack: AttackConfig = SAMPLED, seed: int = 0, **params: Any) -> list[dict[str, Any]]:
    """Rows of a release of GraphPrivatizer: nobody is more similar than 1, so lists stay as they are at delta 1."""
    given = {"variant": "published", "alpha": 0.5, "delta": 1.0} | params
    epsilon = given.pop("epsilon", 1.0)
    run = RunConfig(
        dataset=toy.name, split="given", defence="gp-t", defence_params=given, epsilon=epsilon,
        preset="graphprivatizer", train_params={"epochs": 3}, attacks=(attack,), seed=seed,
    )  # fmt: skip
    return [row.to_json() for row in measure(run, {toy.name: toy}).rows]


def figures(found: list[dict[str, Any]]) -> list[Any]:
    return [(row["auc"], row["queries"], row["n_edges"]) for row in found]


def test_equal_answers_are_attacked_once_and_rows_keep_their_own_labels(toy: Graph) -> None:
    plain = [rows(toy), rows(toy, epsilon=8.0, alpha=0.25)]
    with remembering(Memo()) as memo:
        found = [rows(toy), rows(toy, epsilon=8.0, alpha=0.25)]
    assert memo.hits == 2, "the training and the attack"
    assert [figures(own) for own in found] == [figures(own) for own in plain]
    assert [own[0]["epsilon"] for own in found] == [1.0, 8.0]
    assert found[1][0]["seconds_attack"] == found[0][0]["seconds_attack"]


@pytest.mark.parametrize("change", [{"delta": -1.0}, {"seed": 1}])
def test_other_answers_are_attacked_anew(toy: Graph, change: dict[str, Any]) -> None:
    with remembering(Memo()) as memo:
        rows(toy)
        rows(toy, **change)
    assert memo.hits == 0


def test_an_attack_that_reads_the_mechanism_is_done_again(toy: Graph) -> None:
    bayes = AttackConfig(name="edge-posterior", protocol="sampled", nodes=10, beliefs=("k",))
    with remembering(Memo()) as memo:
        rows(toy, bayes)
        rows(toy, bayes, epsilon=8.0)
    assert memo.hits == 1, "the training alone"
