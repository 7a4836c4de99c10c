"""The gate: thresholds are judged with their intervals, and what is not shown is a failure."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from test_report import audit, gain, row  # noqa: F401

from command import edgeveil
from edgeveil.audits.cells import Cell
from edgeveil.errors import StorageError, UsageError
from edgeveil.report.audit_data import AuditData, write_audit
from edgeveil.report.gate import Gate, parse_require, require
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")


def spread(defence: str, epsilon: float | None, value: float, error: float | None = 0.01) -> dict[str, Any]:
    return {"defence": defence, "epsilon": epsilon, "value": value, "over_nodes": error, "over_runs": error,
            "freedom": 0 if error is None else 20}  # fmt: skip


@pytest.fixture
def data(audit: AuditData) -> AuditData:  # noqa: F811
    """LPGNet-2 at ε = 4 is recommended: utility 0.72, 12 % of 500 edges found."""
    audit.rows = [one | {"n_edges": 500} for one in audit.rows]
    audit.spreads = [spread("lpgnet-2", 4.0, 0.72), spread("lapgraph", 8.0, 0.75), spread("none", None, 0.8, None)]
    return audit


def outcomes(gate: Gate) -> list[str]:
    return [c.outcome for c in gate.checks]


def test_the_recommended_release_is_judged_with_its_intervals(data: AuditData) -> None:
    gate = require(data, "leakage<=0.2; utility >= 65%; epsilon<=4; allowed<=0.6; guarantee=sound")
    assert gate.passed and outcomes(gate) == ["holds"] * 5 and not gate.failures
    assert {c.release for c in gate.checks} == {"LPGNet-2 ε=4"}
    assert "leakage is 0.120 [" in gate.checks[0].sentence


def test_a_threshold_inside_the_interval_is_not_shown(data: AuditData) -> None:
    """The measured figures 0.12 and 0.72 lie on the right side of both thresholds."""
    gate = require(data, "leakage<=0.13; utility>=0.715")
    assert outcomes(gate) == ["not shown", "not shown"] and not gate.passed
    assert "LPGNet-2 ε=4: leakage<=0.13 is not shown: leakage is 0.120 [" in gate.failures[0]
    assert "the interval reaches 0.1" in gate.failures[0] and "500 true edges" in gate.failures[0]
    assert "the interval begins at 0.6" in gate.failures[1]
    assert outcomes(require(data, "leakage<=0.01; utility>=0.9")) == ["fails", "fails"]


def test_picking_the_best_widens_the_interval(data: AuditData) -> None:
    """Three candidates were in the running; a release named beforehand was not picked."""
    tried = (0.15, 0.155, 0.16, 0.165, 0.17, 0.175)
    high = next(c for c in tried if require(data, f"leakage<={c}").passed)
    named = next(c for c in tried if require(data, f"lpgnet-2@4: leakage<={c}").passed)
    assert named < high


def test_no_edge_found_is_not_no_leakage() -> None:
    cell = Cell("mlp", 0.0, "mlp", "sound", 0.7, 0.0, "lsa2-post", 0.5, 0.5, 0, 1, edges=60)
    low, high = cell.leakage_interval()
    assert low == 0 and high == pytest.approx(1 - 0.025 ** (1 / 60))
    twice = Cell("mlp", 0.0, "mlp", "sound", 0.7, 0.0, "lsa2-post", 0.5, 0.5, 0, 2, edges=120, attacked=2)
    assert twice.leakage_interval() == (low, high)  # the same edges may have been attacked twice


def test_what_is_unknown_is_not_shown(data: AuditData) -> None:
    assert outcomes(require(data, "none: utility>=0.1; leakage<=1")) == ["not shown", "holds"]
    assert "unknown interval" in require(data, "none: utility>=0.1").failures[0]
    data.rows = [one | {"n_edges": None} for one in data.rows]
    assert outcomes(require(data, "lpgnet-2: leakage<=1")) == ["not shown"]


def test_only_a_sound_promise_for_an_edge_opens_the_gate(data: AuditData) -> None:
    gate = require(data, "gp-t@1: guarantee=sound; epsilon<=1; none: guarantee=sound")
    assert outcomes(gate) == ["fails", "not shown", "fails"] and "'refuted'" in gate.failures[0]
    data.rows.append(row("gp-sound", 2.0, 0.7, 0.1, unit="one entry of one list"))
    other = require(data, "gp-sound: guarantee=sound; allowed<=0.9")
    assert outcomes(other) == ["fails", "not shown"] and "one entry of one list" in other.failures[0]


def test_where_nothing_is_recommended_nothing_is_shown(data: AuditData) -> None:
    data.gains = [gain("lpgnet-2", 4.0, 0.01, 0.02)]
    gate = require(data, "leakage<=1; guarantee=sound")
    assert outcomes(gate) == ["not shown", "not shown"]
    assert "no evidence that the graph helps" in gate.failures[0]


def test_an_audit_with_failed_parts_does_not_pass(data: AuditData) -> None:
    data.failures = ["lapgraph at 2: out of memory"]
    gate = require(data, "leakage<=0.5")
    assert not gate.passed and gate.failures == ["a part failed: lapgraph at 2: out of memory"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "is empty"),
        ("leakage<0.2", "cannot read the requirement 'leakage<0.2'"),
        ("leek<=0.2", "cannot read"),
        ("leakage>=0.2", "asks for the worse side"),
        ("utility>=7", "in 0 to 1"),
        ("utility>=nan", "in 0 to 1"),
        ("epsilon<=0", "above 0"),
        ("guarantee=refuted", "only guarantee=sound"),
        ("leakage<=low", "not a number"),
    ],
)
def test_bad_requirements_are_named(text: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        parse_require(text)


def test_a_release_that_is_not_there_is_bad_usage(data: AuditData) -> None:
    with pytest.raises(UsageError, match="no release 'blink@4'; it has none, mlp, lapgraph@1"):
        require(data, "blink@4: leakage<=1")
    with pytest.raises(UsageError, match="has 2 releases 'lapgraph'"):
        require(data, "lapgraph: leakage<=1")


def test_junit_counts_what_failed(data: AuditData, tmp_path: Path) -> None:
    gate = require(data, "leakage<=0.13; guarantee=sound; gp-t: guarantee=sound")
    gate.write_junit(tmp_path / "new" / "gate.xml")
    root = ET.parse(tmp_path / "new" / "gate.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("3", "2")
    suites = {s.get("name"): (s.get("tests"), s.get("failures")) for s in root}
    assert suites == {"LPGNet-2 ε=4": ("2", "1"), "GP-t ε=1": ("1", "1")}
    assert [f.get("type") for f in root.iter("failure")] == ["not shown", "fails"]
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="--junit"):
        gate.write_junit(tmp_path / "file" / "gate.xml")


def test_three_exits_of_a_stored_audit(data: AuditData, tmp_path: Path) -> None:
    write_audit(data, tmp_path / "audit" / "audit.json")
    met = edgeveil("report", "audit", "--require", "leakage<=0.2; guarantee=sound", "--junit", "met.xml", cwd=tmp_path)
    assert met.returncode == 0 and "ok: LPGNet-2 ε=4: leakage<=0.2 holds" in met.stderr
    unmet = edgeveil("report", "audit", "--require", "leakage<=0.13", "--junit", "unmet.xml", cwd=tmp_path)
    assert unmet.returncode == 1 and "FAILED: LPGNet-2 ε=4: leakage<=0.13 is not shown" in unmet.stderr
    assert "not shown" in (tmp_path / "unmet.xml").read_text() and "failure" not in (
        tmp_path / "met.xml"
    ).read_text().replace("failures", "")
    wrong = edgeveil("report", "audit", "--require", "leakage", cwd=tmp_path)
    assert wrong.returncode == 2 and "cannot read the requirement" in wrong.stderr


def test_three_exits_of_a_real_audit(tmp_path: Path) -> None:
    from edgeveil.graph.npz import write_npz

    write_npz(toy(), tmp_path / "graph.npz")
    small = ("audit", "graph.npz", "--defence", "none,mlp,lapgraph", "--epsilon", 4, "--runs", 1, "--coins", 0,
             "--attack", "linkteller,lsa2-attr", "--executor", "serial", "--out", "out")  # fmt: skip
    met = edgeveil(*small, "--require", "lapgraph@4: guarantee=sound; epsilon<=4", cwd=tmp_path)
    assert met.returncode == 0, met.stderr
    unmet = edgeveil(*small, "--require", "leakage<=1; none: leakage<=0", "--junit", "gate.xml", cwd=tmp_path)
    assert unmet.returncode == 1 and "no release is recommended, so nothing is shown" in unmet.stderr
    assert ET.parse(tmp_path / "gate.xml").getroot().get("failures") == "2"
    assert (tmp_path / "out" / "report.html").is_file()  # the report is there in either case
    wrong = edgeveil(*small[:-1], "never", "--require", "leakage>=0.2", cwd=tmp_path)
    assert wrong.returncode == 2 and not (tmp_path / "never").exists()
    assert "give both" in edgeveil(*small, "--junit", "gate.xml", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--require", "gap@4: leakage<=0.2"), "has no release 'gap@4'; it has none, lapgraph@4, lapgraph@8"),
        (("--require", "lapgraph: leakage<=0.2"), "has 2 releases 'lapgraph'"),
        (("--require", "leakage<=0.2", "--junit", "graph.npz/gate.xml"), "choose another --junit"),
    ],
)
def test_a_wrong_gate_is_found_before_anything_is_trained(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    from edgeveil.graph.npz import write_npz

    write_npz(toy(), tmp_path / "graph.npz")
    small = ("audit", "graph.npz", "--defence", "none,lapgraph", "--epsilon", "4,8", "--out", "out")
    done = edgeveil(*small, *options, cwd=tmp_path)
    assert done.returncode == 2 and why in done.stderr and not (tmp_path / "out").exists()


def test_a_release_that_the_time_did_not_reach_is_not_shown(data: AuditData) -> None:
    data.settings["stopped"] = "Not started for lack of time: GAP ε=4."
    gate = require(data, "gap@4: leakage<=0.2; none: leakage<=1")
    assert outcomes(gate) == ["not shown", "holds"]
    assert gate.failures == [f"gap@4: leakage<=0.2 is not shown: it was not measured. {data.settings['stopped']}"]


def test_no_result_of_an_earlier_gate_stays(tmp_path: Path) -> None:
    """Build servers read the file also when the command crashed."""
    from edgeveil.cli.audit_command import read_gate

    (tmp_path / "gate.xml").write_text("<testsuites failures='0'/>")
    read_gate("leakage<=0.2", tmp_path / "gate.xml")
    assert not (tmp_path / "gate.xml").exists()


def test_an_existing_model_is_judged_itself(data: AuditData) -> None:
    data.rows = [row("unknown", None, math.nan, 0.3, "lsa2-attr", n_edges=400) | {"utility": None, "status": "none"}]
    data.settings["existing"], data.gains, data.spreads = True, [], []
    assert outcomes(require(data, "leakage<=0.4; utility>=0.5; guarantee=sound")) == ["holds", "not shown", "fails"]
