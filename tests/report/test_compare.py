"""Two audits: what moved beyond the noise is said, what is inside it is not, and the unknown is called so."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from test_explore import axe, media
from test_gate import data  # noqa: F401
from test_report import audit, gain, row  # noqa: F401

import edgeveil as ev
from browser import chromium
from command import edgeveil
from edgeveil.audits.cells import Cell
from edgeveil.report.audit_data import AuditData, write_audit
from edgeveil.report.compare import _leakage, compare, write_comparison


def moved(before: AuditData, after: AuditData) -> dict[str, tuple[str, str]]:
    return {m.after.label: (m.utility.moved, m.leakage.moved) for m in compare(before, after).moves}


def test_the_same_audit_twice_moves_nothing(data: AuditData) -> None:  # noqa: F811
    found = compare(data, copy.deepcopy(data))
    assert not any(m.utility.beyond or m.leakage.beyond for m in found.moves)
    assert found.sentences[0] == "Both audits recommend LPGNet-2 ε=4."
    assert "Inside the noise, or unknown:" in found.sentences[1] and not any(
        "What differs" in s for s in found.sentences
    )


def test_what_moved_is_named_with_its_interval(data: AuditData) -> None:  # noqa: F811
    after = copy.deepcopy(data)
    for line in after.rows:
        if line["defence"] == "lpgnet-2":
            line.update(recall=0.4, utility=0.73)
        if line["defence"] == "lapgraph" and line["epsilon"] == 8:
            line.update(utility=0.6)
    after.spreads[0]["value"], after.spreads[1]["value"] = 0.73, 0.6
    found = moved(data, after)
    assert found["LPGNet-2 ε=4"] == ("inside the noise", "rose") and found["LapGraph ε=8"] == (
        "fell",
        "inside the noise",
    )
    assert found["no defence"] == ("unknown", "inside the noise")  # nothing says how sure its utility is
    said = compare(data, after).sentences
    assert any(s.startswith("LPGNet-2 ε=4: leakage rose by 28.0 [+") for s in said)
    assert any(s.startswith("LapGraph ε=8: utility fell by 15.0 [-") for s in said)
    assert any("Not known well enough to compare in full: no defence" in s for s in said)


def test_an_attack_that_was_not_tried_again_moves_nothing(data: AuditData) -> None:  # noqa: F811
    after = copy.deepcopy(data)
    for line in after.rows:
        if line["defence"] == "none" and line["attack"] == "linkteller":
            line.update(attack="stored-graph", recall=0.1)
    assert moved(data, after)["no defence"] == ("unknown", "unknown")
    assert any("attacks " in s and "stored-graph" in s for s in compare(data, after).sentences)
    for line in after.rows:
        line["model"] = "sage"  # another model: what fits it is part of the change
    assert moved(data, after)["no defence"] == ("unknown", "fell")


def test_a_guarantee_that_fell_is_said(data: AuditData) -> None:  # noqa: F811
    after = copy.deepcopy(data)
    after.rows = [line | {"status": "refuted"} if line["defence"] == "lpgnet-2" else line for line in after.rows]
    said = compare(data, after).sentences
    assert "LPGNet-2 ε=4: its guarantee was sound and is refuted." in said
    assert (
        said[0]
        == "Before, LPGNet-2 ε=4 was recommended, after the change LapGraph ε=8; LPGNet-2 ε=4 is no longer in the sweet spot."
    )


def test_a_new_name_inside_the_noise_is_called_noise(data: AuditData) -> None:  # noqa: F811
    data.rows.append(row("veil-counts", 2.0, 0.715, 0.12, n_edges=500))
    data.gains.append(gain("veil-counts", 2.0, 0.12, 0.02))
    after = copy.deepcopy(data)
    after.rows[-1]["utility"] = 0.725
    after.rows.append(row("blink-hard", 2.0, 0.5, 0.5))
    after.graph["nodes"], after.settings["model"] = 80, "sage"
    said = compare(data, after).sentences
    assert (
        "after the change veil-counts ε=2; LPGNet-2 ε=4 is still in the sweet spot, so which of the two comes first may be noise."
        in said[0]
    )
    assert any(s.startswith("Only after the change: Blink") for s in said)
    assert said[-1] == "What differs: graph nodes 60 → 80; model None → sage."


def test_the_interval_of_a_difference_covers_it() -> None:
    """Two samples of edges with true shares 0.2 and 0.35: wrong in at most 5 % of the draws, plus their noise."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(300):
        cells = [
            Cell("x", 1.0, "gcn", "sound", 0.5, rng.binomial(80, p) / 80, "a", 0.5, 0.5, 0, 1, edges=80)
            for p in (0.2, 0.35)
        ]
        change = _leakage(*cells, 0.05)
        inside += change.low <= 0.15 <= change.high
    assert inside >= 0.95 * 300 - 2 * math.sqrt(300 * 0.05 * 0.95)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two real audits of Cora's twin with tiny models: the second trains for three epochs only."""
    home = tmp_path_factory.mktemp("two")
    graph = ev.load("cora-twin")
    for name, epochs in (("before", 60), ("after", 3)):
        found = ev.audit(graph, defences=["none", "mlp", "lapgraph"], epsilons=[8.0], attacks=["linkteller", "lsa2-attr"], runs=4,
                         nodes=300, model_params={"hidden": 8}, train_params={"epochs": epochs})  # fmt: skip
        write_audit(found.data, home / name / "audit.json")
    return home


@pytest.mark.slow
def test_two_real_audits(two: Path) -> None:
    done = edgeveil("report", "before", "after", cwd=two)
    assert done.returncode == 0, done.stderr
    assert (
        "no defence: utility fell by" in " ".join(done.stdout.split()) and "For the owner: not private." in done.stdout
    )
    page = (two / "after" / "comparison.html").read_text()
    assert "utility fell by" in page and len(page.encode()) < 1_500_000
    same = edgeveil("report", "before", "before", "--out", "same.html", cwd=two)
    assert same.returncode == 0 and " fell by" not in same.stdout and " rose by" not in same.stdout
    refused = edgeveil("report", "before", "after", "--require", "leakage<=0.5", cwd=two)
    assert refused.returncode == 2 and "one audit" in refused.stderr


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_a_browser(data: AuditData, tmp_path: Path, scheme: str) -> None:  # noqa: F811
    after = copy.deepcopy(data)
    after.rows = [line | {"recall": 0.4} if line["defence"] == "lpgnet-2" else line for line in after.rows]
    with chromium(offline=True) as driver:
        media(driver, scheme)
        driver.get(write_comparison(compare(data, after), tmp_path / "c.html").as_uri())
        driver.find_element(By.CSS_SELECTOR, "tr[data-release='LPGNet-2 ε=4'] button").click()
        assert driver.find_elements(By.CSS_SELECTOR, "#figure-moves .mark.on")
        assert axe(driver) == []
        assert driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth") <= 0
        assert not [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
