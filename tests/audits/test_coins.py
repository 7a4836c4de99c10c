"""The strongest attack that fits, what it assumes, and what planted coins prove."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.attacks.attack import ATTACKS, by_strength
from edgeveil.audits.audit import AuditPlan, attack_configs
from edgeveil.audits.coins import coin_bounds
from edgeveil.audits.verify_model import strongest, verify_through
from edgeveil.defences.defend import defend
from edgeveil.models.settings import TrainSpec
from edgeveil.report.audit_report import audit
from edgeveil.runs.executors import Serial
from edgeveil.runs.store import Store
from zoo import planted

SHORT = TrainSpec(epochs=5)


@pytest.fixture(scope="module")
def graph():
    return planted(400, 4, 0.02, 0.003, 40, train=140, seed=1)


@pytest.mark.fast("none-wishes0-flatroot", "edgerand-wishes2-edge-posterior", "lpgnet-1-wishes3-count-inference")
@pytest.mark.parametrize(
    ("defence", "wishes", "name"),
    [
        ("none", {}, "flatroot"),
        ("lapgraph", {"epsilon": 4.0}, "edge-posterior"),
        ("edgerand", {"epsilon": 6.0}, "edge-posterior"),
        ("lpgnet-1", {"epsilon": 4.0}, "count-inference"),
    ],
)
def test_the_strongest_attack_depends_on_what_a_release_keeps(graph, defence, wishes, name):
    assert strongest(defend(graph, defence, seed=0, train=SHORT, **wishes)) == name


def test_every_attack_that_audits_try_says_what_it_assumes():
    tried = by_strength()
    assert tried[0] in ("count-inference", "edge-posterior") and "random" not in tried
    assert all(ATTACKS.create(name).assumed for name in tried)
    assert all(c.where_it_fits for c in attack_configs(AuditPlan(), 0))
    assert not any(c.where_it_fits for c in attack_configs(AuditPlan(attacks=("linkteller",)), 0))


def test_an_audit_reports_the_strongest_attack_and_what_is_found_without_the_release(graph):
    found = audit(graph, defences=("none", "mlp", "lpgnet-1"), epsilons=(8.0,), nodes=200, coins=120,
                  train_params={"epochs": 60})  # fmt: skip
    by = {row["defence"]: set() for row in found.rows}
    for row in found.rows:
        by[row["defence"]].add(row["attack"])
    assert "count-inference" in by["lpgnet-1"] and "flatroot" in by["none"] and "count-inference" not in by["mlp"]
    leak = {r["attack"]: r["leakage"] for r in found.rows if r["defence"] == "lpgnet-1" and r["belief"] == "k"}
    assert leak["count-inference"] > 1.5 * leak["lsa2-attr"]
    assert next(r["leakage"] for r in found.rows if (r["defence"], r["attack"]) == ("none", "flatroot")) == 1.0
    assert any("sets every node's features" in line for line in found.verdict)
    assert [c["defence"] for c in found.data.coins] == ["lpgnet-1"] and found.data.coins[0]["lower"] > 1.0
    assert {c["attack"] for c in found.data.reliability} >= {"count-inference"}


def test_coins_prove_more_about_larger_epsilons_and_never_more_than_the_claim(graph):
    lower = {}
    for epsilon in (0.5, 8.0):
        found = verify_through(
            graph, "lpgnet-1", epsilon=epsilon, attack_name=None, canaries=130, guesses=100, confidence=0.99
        )
        lower[epsilon] = found.lower_bound
        assert "count-inference" in found.findings[0].test
    assert lower[0.5] <= 0.5 and 2.0 < lower[8.0] <= 8.0


def test_a_release_that_hides_its_noise_scale_badly_is_caught(graph, monkeypatch):
    """A planted fault: counts without noise under a claim of 0.5 are refuted by the coins."""
    from edgeveil.defences.lpgnet import lpgnet

    monkeypatch.setattr(lpgnet, "degree_noise", lambda noise, law, scale, shape, slices=1: np.zeros(shape))
    found = verify_through(graph, "lpgnet-1", epsilon=0.5, attack_name=None, canaries=130, guesses=100)
    assert found.lower_bound > 0.5 and found.verdict == "refuted"


def test_no_time_means_no_claim(graph, tmp_path):
    plan = AuditPlan(defences=("lpgnet-1",), epsilons=(4.0,), nodes=50, attacks=("lsa2-attr",))
    found = audit(graph, defences=plan.defences, epsilons=plan.epsilons, nodes=50, attacks=plan.attacks,
                  train_params={"epochs": 5})  # fmt: skip
    with Store(tmp_path / "s.sqlite") as store:
        left = coin_bounds(plan, graph, found.records, 100, Serial(), store, seconds=0.0)
        assert [c["lower"] for c in left] == [None]
        assert coin_bounds(plan, graph, found.records, 10, Serial(), store) == []


def test_coins_are_planted_in_releases_trained_as_the_audits(graph, tmp_path, monkeypatch):
    """Scaling and settings of the audit hold for the release with coins; its bound is about no other model.

    Two bounds are stated, so each may be wrong in half of 5 % of all audits.
    """
    heard, sure = [], []

    def note(*args, **wishes):
        heard.append(wishes["training"])
        sure.append(wishes["confidence"])
        return verify_through(*args, **wishes)

    monkeypatch.setattr("edgeveil.audits.coins.verify_through", note)
    wishes = {"defences": ("lapgraph",), "epsilons": (7.0, 8.0), "attacks": ("lsa2-attr",)}
    found = audit(graph, nodes=50, scaling="none", train_params={"epochs": 4}, coins=60, **wishes)
    assert heard == 2 * [{"scaling": "none", "preset": "default", "model_params": {}, "train_params": {"epochs": 4}}]
    assert sure == pytest.approx([0.975, 0.975])
    assert found.data.coins[0]["lower"] is not None


def test_finished_bounds_are_kept_and_not_worked_out_again(graph, tmp_path, monkeypatch):
    plan = AuditPlan(defences=("lapgraph",), epsilons=(8.0,), nodes=50, attacks=("lsa2-attr",))
    found = audit(graph, defences=plan.defences, epsilons=plan.epsilons, nodes=50, attacks=plan.attacks)
    with Store(tmp_path / "s.sqlite") as store:
        first = coin_bounds(plan, graph, found.records, 60, Serial(), store)
        monkeypatch.setattr("edgeveil.audits.coins.verify_through", lambda *_, **__: pytest.fail("done before"))
        assert coin_bounds(plan, graph, found.records, 60, Serial(), store, seconds=0.0) == first
        assert first[0]["lower"] > 0 and "edge-posterior" in first[0]["attack"]
