"""Estimates: the most specific known cost counts, EdgeRand grows with its output, and costs come from stores."""

from __future__ import annotations

import pytest

from edgeveil.runs import costs
from edgeveil.runs.run_config import AttackConfig, RunConfig

RUN = RunConfig(dataset="twitch-ru", train_on="twitch-es", defence="lapgraph", epsilon=4, preset="linkteller")


def test_the_most_specific_cost_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = [
        (RUN.to_json(), 10.0),
        (RUN.to_json(), 14.0),
        (RUN.model_copy(update={"defence": "none", "epsilon": None}).to_json(), 6.0),
    ]
    packed = costs.pack(measured)
    monkeypatch.setattr(costs, "_known", lambda: packed)
    assert packed["probe"] > 0
    assert costs.estimate([RUN]) == 12.0
    assert costs.estimate([RUN, RUN]) == 24.0
    assert (
        costs.estimate([RUN.model_copy(update={"defence": "mlp", "epsilon": None})]) == 10.0
    )  # the mean of this dataset and model
    assert costs.estimate([RUN.model_copy(update={"preset": "lpgnet"})]) == 5.0  # never seen


def test_a_larger_graph_of_a_known_kind_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = costs.pack([(RUN.to_json(), 10.0)])
    monkeypatch.setattr(costs, "_known", lambda: packed)
    larger = RUN.model_copy(update={"dataset": "twitch-de"})
    assert 20.0 < costs.estimate([larger]) < 40.0  # 153,138 edges against 37,304, twice the nodes


def test_edgerand_costs_more_at_small_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_known", lambda: {"probe": 1.0, "runs": {"linkteller|twitch-ru|gcn": 10.0}})
    dense, sparse = (RUN.model_copy(update={"defence": "edgerand", "epsilon": e}) for e in (1.0, 8.0))
    assert costs.estimate([dense]) > 20 * costs.estimate([sparse]) > 200


def test_a_run_of_an_audit_has_a_cost_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    attacked = RUN.model_copy(update={"details": True, "attacks": (AttackConfig(),)})
    packed = costs.pack([(attacked.to_json(), 30.0), (RUN.to_json(), 10.0)])
    monkeypatch.setattr(costs, "_known", lambda: packed)
    assert (costs.estimate([attacked]), costs.estimate([RUN])) == (30.0, 20.0)


def test_this_machine_has_a_speed() -> None:
    assert 0.01 < costs.speed() < 100


def test_new_measurements_bring_the_other_kinds_to_their_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "probe", lambda: 0.04)
    run = {"dataset": "cora", "preset": "lpgnet"}
    known = {
        "probe": 0.02,
        "runs": {"lpgnet|cora|none|gcn|2": 2.0, "lpgnet|pubmed|none|gcn|2": 7.0, "gap|cora|gap|mlp": 1.0},
    }
    found = costs.pack([(run, 5.0), (run, 7.0)], known)
    assert found["runs"]["lpgnet|cora|none|gcn|2"] == 6.0
    assert found["runs"]["lpgnet|pubmed|none|gcn|2"] == 21.0, "three times as long as known, as the measured kind"
    assert found["runs"]["gap|cora|gap|mlp"] == 2.0, "nothing of that paper was measured: by the probe"
    nothing = costs.pack([], known)
    assert nothing["runs"]["lpgnet|cora|none|gcn|2"] == 4.0 and nothing["probe"] == 0.04
