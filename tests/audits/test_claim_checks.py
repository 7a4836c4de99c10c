"""The quick check of an audit: planted edges where they can speak, other experiments where they cannot."""

from __future__ import annotations

import math

import pytest

from edgeveil.audits.claim_checks import verify_plan

PRECISION = {"density", "named", "precision", "interval", "bound", "tight"}


def test_a_mechanism_with_public_list_lengths_is_judged_by_swapped_edges() -> None:
    for found in verify_plan(["gp-sound"], [2.0, 5.0], seed=0):
        assert found["verdict"] == "consistent" and 0.7 * found["claimed"] < found["lower"] <= found["claimed"]
        assert not PRECISION & found.keys()


def test_planted_edges_come_with_precision_and_its_bound() -> None:
    (found,) = verify_plan(["lapgraph"], [8.0], seed=0)
    assert found.keys() >= PRECISION and found["verdict"] == "consistent"
    assert found["interval"][0] <= found["tight"] <= found["bound"]


def test_refuted_claims_are_refuted_and_other_defences_left_out() -> None:
    (found,) = verify_plan(["none", "gp-t"], [4.0, math.inf], seed=0)
    assert (found["defence"], found["verdict"]) == ("gp-t", "refuted") and not PRECISION & found.keys()
    assert found["lower"] == pytest.approx(math.inf)
