"""The report: what the verdict says, what the page holds, and what it must never hold."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeveil.audits.audit import AuditPlan
from edgeveil.audits.cells import label, summarise
from edgeveil.errors import StorageError
from edgeveil.report.audit_data import AuditData, read_audit, write_audit
from edgeveil.report.collect import heatmaps, references
from edgeveil.report.detail import degree_plot
from edgeveil.report.figures import epsilon_plot, tradeoff_plot
from edgeveil.report.judged import Baselines, baselines, best_defence, judged, sweet_spot
from edgeveil.report.next_steps import next_steps
from edgeveil.report.page import render, write_report
from edgeveil.report.style import DARK, LIGHT, ink_for
from edgeveil.report.terminal import table_rows
from edgeveil.report.verdict import verdict


def row(
    defence: str, epsilon: float | None, utility: float, recall: float, attack: str = "linkteller", **more: Any
) -> dict[str, Any]:
    status = {"none": "none", "gp-t": "refuted"}.get(defence, "sound")
    base = {"defence": defence, "epsilon": epsilon, "model": "gcn", "status": status, "attack": attack, "belief": "k",
            "degree": "unconstrained", "seed": 0, "utility": utility, "auc": 0.9, "average_precision": recall,
            "precision": recall, "recall": recall, "f1": recall, "tpr_at_fpr_001": recall, "queries": 0, "n_edges": 90, "chance": 0.05,
            "baseline_majority": 0.4, "baseline_edge_free": 0.6}  # fmt: skip
    return base | more


def gain(defence: str, epsilon: float, value: float, half: float | None, nodes: int = 500) -> dict[str, Any]:
    low, high = (None, None) if half is None else (value - half, value + half)
    return {"defence": defence, "epsilon": epsilon, "value": value, "low": low, "high": high, "runs": 3, "nodes": nodes,
            "against": "mlp"}  # fmt: skip


@pytest.fixture
def audit() -> AuditData:
    rows = [
        row("none", None, 0.8, 0.8),
        row("none", None, 0.8, 0.2, "lsa2-post"),
        row("mlp", 0.0, 0.6, 0.1, "lsa2-attr"),
        row("lapgraph", 1.0, 0.3, 0.1),
        row("lapgraph", 8.0, 0.75, 0.6),
        row("lpgnet-2", 4.0, 0.72, 0.12, "lsa2-attr"),
        row("gp-t", 1.0, 0.7, 0.2),
    ]
    return AuditData(
        graph={"name": "toy <b>", "is_twin": False, "nodes": 60, "edges": 90, "features": 4, "classes": 3},
        rows=rows,
        settings={"nodes": 60, "summary": "1 run", "command": "edgeveil audit toy", "versions": {"edgeveil": "0"}},
        guarantees={"LapGraph ε=1": "1-differential privacy for one undirected edge."},
        roc=[{"defence": "none", "label": "no defence", "attack": "linkteller", "fpr": [1e-5, 1.0], "tpr": [0.1, 1.0],
              "auc": 0.9, "tpr_at_fpr_001": 0.5}],
        budget_curves=[{"defence": "none", "label": "no defence", "queries": q, "recall": 0.5, "auc": 0.9} for q in (10, 60)]
        + [{"defence": "none", "label": "no defence", "attack": "flatroot", "whole": True, "queries": 31, "recall": 1.0, "auc": 1.0}],
        by_degree=[{"defence": "none", "label": "no defence", "bin": "1–2", "nodes": 9, "recall": 0.5, "utility": None}],
        exposure=[{"defence": "none", "label": "no defence", "bins": ["none", "all"], "nodes": [3, 7]}],
        verified=[
            {"defence": "lapgraph", "epsilon": 1.0, "claimed": 1.0, "lower": 0.8, "verdict": "consistent", "density": 0.5,
             "precision": 0.7, "named": 10, "interval": [0.4, 0.9], "bound": 1.4, "tight": 0.73},
            {"defence": "gp-t", "epsilon": 1.0, "claimed": 1.0, "lower": math.inf, "verdict": "refuted"},
        ],
        homophily=[{"class": 0, "share": 0.8, "nodes": 20}],
        heatmaps=[{"title": "gain", "alpha": [0, 1], "delta": [0, 1], "values": [[0.0, 1.0], [2.0, 3.0]]}],
        citations=["Wu et al. 2022"],
        gains=[
            gain("lapgraph", 1.0, -0.3, 0.02), gain("lapgraph", 8.0, 0.15, 0.02), gain("lpgnet-2", 4.0, 0.12, 0.02),
        ],
        baselines={"mlp": 0.6, "mlp_low": 0.58, "mlp_high": 0.62},
    )  # fmt: skip


def test_a_cell_takes_its_strongest_attack(audit: AuditData) -> None:
    cells = {c.label: c for c in summarise(audit.rows)}
    assert cells["no defence"].leakage == 0.8 and cells["no defence"].attack == "linkteller"
    assert cells["MLP (no graph)"].epsilon == 0.0


def test_runs_are_averaged() -> None:
    cells = summarise([row("none", None, 0.8, 0.6, seed=0), row("none", None, 0.6, 0.4, seed=1)])
    assert len(cells) == 1 and cells[0].runs == 2
    assert cells[0].utility == pytest.approx(0.7) and cells[0].leakage == pytest.approx(0.5)


def test_the_sweet_spot_needs_both_sides_and_the_best_must_be_sound(audit: AuditData) -> None:
    cells = judged(audit)
    bare, _ = baselines(cells)
    sweet = {c.label for c in cells if sweet_spot(c, bare)}
    assert sweet == {"LapGraph ε=8", "LPGNet-2 ε=4"}
    best = best_defence(cells)
    assert best is not None and best.label == "LPGNet-2 ε=4"


def test_an_epsilon_in_another_unit_is_never_ranked(audit: AuditData) -> None:
    """It would win here: most useful, nothing found. But its epsilon says nothing of one undirected edge."""
    unit = "the two list entries of one edge, given the length of every list"
    audit.rows.append(row("gp-sound", 1.0, 0.9, 0.0) | {"unit": unit})
    cells = judged(audit)
    best = best_defence(cells)
    assert best is not None and best.label == "LPGNet-2 ε=4"
    assert any(f"GP-sound is left out of the comparison: its epsilon is for {unit}" in w for w in verdict(audit, cells))
    plot = epsilon_plot(audit, cells)
    assert plot is not None and not any("GP-sound" in line[0] for line in plot.table)
    shown = {line[0]: line for line in table_rows(audit, cells)[1]}["GP-sound ε=1"]
    assert shown[-1] == "" and shown[-2] == "sound, not for one edge"


def test_the_verdict_speaks_plainly(audit: AuditData) -> None:
    lines = verdict(audit, judged(audit))
    assert "gives away 80 % of the edges among 60 nodes" in lines[0]
    assert "LPGNet-2 at ε = 4 keeps 90 % of the GCN's utility" in lines[1] and "12 %" in lines[1]
    assert any("GP-t claims" in line for line in lines) and any("thin" in line for line in lines)


def test_a_delta_is_shown_wherever_the_guarantee_is(audit: AuditData) -> None:
    for item in audit.rows:
        item["delta"] = 1e-6 if item["defence"] == "lpgnet-2" else 0.0 if item["status"] == "sound" else None
    assert "LPGNet-2 at ε = 4 and δ = 1e-06 keeps" in verdict(audit, judged(audit))[1]
    page = render(audit)
    assert page.count('<span class="tag sound">sound, δ = 1e-06</span>') == 1
    assert page.count("sound, δ") == 2  # in the table and under the pointer


def test_when_the_mlp_is_as_good_the_graph_is_not_used() -> None:
    data = AuditData(graph={"name": "g", "nodes": 9}, rows=[row("none", None, 0.6, 0.9), row("mlp", 0.0, 0.6, 0.0)])
    assert any("No defence with a sound guarantee" in line for line in verdict(data, judged(data)))


def test_inside_the_noise_no_release_is_starred(audit: AuditData) -> None:
    audit.gains = [gain("lapgraph", 8.0, 0.15, 0.16), gain("lpgnet-2", 4.0, 0.12, 0.13)]
    cells = judged(audit)
    assert best_defence(cells) is None
    assert any("no evidence that the graph helps" in line for line in verdict(audit, cells))
    assert "★" not in "".join(cell for line in table_rows(audit, cells)[1] for cell in line)
    assert "--defence mlp" not in render(audit)  # no source is known, so no command is made up
    audit.settings["source"] = "toy"
    assert "edgeveil release toy --defence mlp --out" in render(audit)


def test_one_run_few_test_nodes_or_few_edges_decide_nothing(audit: AuditData) -> None:
    audit.gains = [gain("lpgnet-2", 4.0, 0.12, None)]
    assert any("One run cannot tell" in line for line in verdict(audit, judged(audit)))
    audit.gains = [gain("lpgnet-2", 4.0, 0.12, None, nodes=12)]
    assert any("Too few test nodes (12" in line for line in verdict(audit, judged(audit)))
    audit.gains = [gain("lpgnet-2", 4.0, 0.12, 0.01)]
    assert best_defence(judged(audit)) is not None
    for line in audit.rows:
        line["n_edges"] = 4
    assert best_defence(judged(audit)) is None


def test_of_two_that_leak_equally_the_more_useful_is_named_with_what_separates_them(audit: AuditData) -> None:
    audit.rows.append(row("lpgnet-2", 1.0, 0.66, 0.12, "lsa2-attr"))
    audit.gains.append(gain("lpgnet-2", 1.0, 0.06, 0.02))
    cells = judged(audit)
    best = best_defence(cells)
    assert best is not None and best.label == "LPGNet-2 ε=4"
    line = next(line for line in verdict(audit, cells) if "separates them" in line)
    assert line.startswith("LPGNet-2 ε=1") and "2.7 %" in line and "54.6 %" in line
    allowed = {c.label: c.allowed for c in cells}
    assert allowed["LPGNet-2 ε=1"] == pytest.approx(0.01 * math.e) and allowed["no defence"] == allowed["GP-t ε=1"] == 1


def test_baselines_stand_in_table_figure_and_text(audit: AuditData) -> None:
    known = {name: value for name, value, _ in Baselines(audit).table()}
    assert known["majority class"] == "0.400" and known["MLP"] == "0.600 [0.580, 0.620]" and known["chance"] == "5 %"
    page = render(audit)
    assert ">0.600 [0.580, 0.620]</td>" in page and "guessing finds 5 %" in page
    plot = tradeoff_plot(judged(audit), Baselines(audit))
    assert plot is not None and "majority class" in plot.svg and "guessing" in plot.svg


def test_features_that_a_release_hides_do_not_lower_the_baseline(audit: AuditData) -> None:
    open_, hidden = row("lapgraph", 1.0, 0.3, 0.12, "lsa2-attr"), row("gp-t", 1.0, 0.7, 0.001, "lsa2-attr")
    known = Baselines(replace(audit, rows=[open_, open_, hidden]))
    assert known.features_alone == known.without == pytest.approx(0.12)


def test_nothing_recommended_leads_to_the_best_release_without_edges(audit: AuditData) -> None:
    bare = [row("none", None, 0.8, 0.8), row("mlp", 0.0, 0.6, 0.1), row("feature-graph", 0.0, 0.7, 0.1)]
    data = replace(audit, rows=bare, gains=[], settings=audit.settings | {"source": "toy"})
    assert next_steps(data, judged(data))[0] == "edgeveil release toy --defence feature-graph --out my-release"


def test_a_share_of_nothing_has_no_negative_axis(audit: AuditData) -> None:
    audit.by_degree[0]["recall"] = 0.0
    plot = degree_plot(audit)
    assert plot is not None and not re.search(r">\s*-\d", plot.svg)


def test_every_default_defence_has_its_own_ink() -> None:
    tried = AuditPlan().defences
    assert len({ink_for(defence) for defence in tried}) == len(tried)


def test_the_sweet_spot_is_drawn_above_every_release_without_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    drawn: list[float] = []
    monkeypatch.setattr(Axes, "fill_between", lambda self, x, low, high, **_: drawn.append(low))
    rows = [row("none", None, 0.8, 0.8), row("mlp", 0.0, 0.6, 0.1), row("feature-graph", 0.0, 0.7, 0.1)]
    assert tradeoff_plot(summarise(rows)) is not None and drawn == [0.7]


def test_thin_evidence_is_not_answered_with_what_cannot_help(audit: AuditData) -> None:
    """All nodes are attacked already, and runs do not make up for test nodes."""
    audit.graph["nodes"] = 12
    audit.rows = [one | {"n_edges": 19, "n_nodes": 12} for one in audit.rows]
    audit.gains = [one | {"nodes": 3, "low": None, "high": None} for one in audit.gains]
    said = " ".join(verdict(audit, judged(audit)))
    assert "The graph has no more." in said and "--nodes" not in said and "--runs 5" not in said


def test_a_twin_says_so(audit: AuditData) -> None:
    audit.graph["is_twin"] = True
    assert any("synthetic twin" in line for line in verdict(audit, judged(audit)))
    assert "synthetic twin" in render(audit)


def test_the_page_is_self_contained_and_escapes_names(audit: AuditData) -> None:
    page = render(audit)
    assert "toy &lt;b&gt;" in page and "toy <b>" not in page
    outside = [m for m in re.findall(r'(?:src|href)="([^"#]+)"', page) if not m.startswith("data:")]
    assert not outside and "@import" not in page and "http://" not in page.replace("http://www.w3.org", "")
    for name in (
        "tradeoff",
        "epsilon",
        "roc",
        "budget",
        "degree",
        "exposure",
        "homophily",
        "canaries",
        "verified",
        "heat0",
    ):
        assert f'id="figure-{name}"' in page


def test_ids_are_unique_and_every_figure_has_words(audit: AuditData) -> None:
    page = render(audit)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert page.count("<svg role=") == page.count("<title id=") == page.count("<desc id=")
    for reference in re.findall(r'(?:xlink:href="|url\()#([^")]+)', page):
        assert reference in ids


@pytest.mark.slow
def test_pages_are_byte_stable(audit: AuditData, monkeypatch: pytest.MonkeyPatch) -> None:
    page = render(audit)
    monkeypatch.undo()  # equal figures are drawn anew
    assert render(audit) == page


def test_an_audit_survives_the_disk(audit: AuditData, tmp_path: Path) -> None:
    write_audit(audit, tmp_path / "audit.json")
    assert render(read_audit(tmp_path / "audit.json")) == render(audit)
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(StorageError, match="not a readable audit"):
        read_audit(tmp_path / "audit.json")


def test_a_report_that_cannot_be_written_leaves_nothing_half(audit: AuditData, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        write_report(audit, tmp_path / "file" / "report.html")


def test_heatmaps_come_from_a_full_grid_of_rows() -> None:
    grid = [row("gp-t", 1.0, 0.1 * a + 0.01 * d, 0.2, params={"alpha": a, "delta": d}) for a in (0, 1) for d in (0, 1)]
    maps = heatmaps(grid)
    assert [m["title"] for m in maps] == ["GP-t ε=1: utility (%)", "GP-t ε=1: attack AUC (%)"]
    assert maps[0]["values"][1] == pytest.approx([10.0, 11.0])
    assert not heatmaps(grid[:3]) and not heatmaps([row("none", None, 0.5, 0.5)])


def test_rows_name_their_sources() -> None:
    found = references([row("lapgraph", 1.0, 0.5, 0.5), row("from elsewhere", 1.0, 0.5, 0.5, "lsa2-attr")])
    assert len(found) == 3 and "Theorem 5" in found[0] and "Stealing Links" in found[2]


def test_labels() -> None:
    assert (
        label("lpgnet-2", 4.0) == "LPGNet-2 ε=4"
        and label("mlp", 0.0) == "MLP (no graph)"
        and label("none", None) == "no defence"
    )


def luminance(colour: str) -> float:
    """WCAG 2 relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_series_stand_out_from_the_ground(palette: dict[str, str]) -> None:
    for ground in ("--paper", "--soft"):
        for name, colour in palette.items():
            if name not in ("--paper", "--soft", "--grid"):
                pale, deep = sorted((luminance(colour), luminance(palette[ground])), reverse=True)
                assert (pale + 0.05) / (deep + 0.05) >= 4.5, f"{name} on {ground}"


def test_every_part_of_the_issue_is_on_the_page(audit: AuditData) -> None:
    page = render(audit)
    for part in ("summary", "figures", "guarantees", "not-protected", "rows", "methods", "citations"):
        assert f'<h2 id="{part}"' in page and f'href="#{part}"' in page
    assert "edgeveil audit toy" in page and "Wu et al. 2022" in page and "Theorem 6" in page
    assert page.count("<tr>") > len(audit.rows)


def test_an_existing_model_is_not_compared(audit: AuditData) -> None:
    audit.rows = [row("unknown", None, math.nan, 0.3, "lsa2-attr", n_edges=12) | {"utility": None, "status": "none"}]
    audit.settings["existing"] = True
    lines = verdict(audit, judged(audit))
    assert lines[0].startswith("This model gives away 30 % of the edges among 60 nodes to someone who asks nothing")
    assert "only 12 true edges" in lines[1] and not any("--runs" in line for line in lines)
    page = render(audit)
    assert "figure-tradeoff" not in page and "sweet spot" not in page


def test_the_same_words_are_not_printed_for_every_epsilon(audit: AuditData) -> None:
    audit.guarantees["LapGraph ε=8"] = "8-differential privacy"
    page = render(audit)
    assert "The same for LapGraph ε=8" in page and page.count("<dt>") == 1
