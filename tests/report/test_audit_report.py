"""`ev.audit` and `ev.advise`: the commands as functions, and what a notebook shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import edgeveil as ev
from edgeveil.errors import InputError
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")
SHORT = {"train_params": {"epochs": 20}}
SMALL = {"epsilons": [4.0], "attacks": ["linkteller", "lsa2-attr"], "nodes": 40}


@pytest.fixture(scope="module")
def audit() -> ev.Audit:
    return ev.audit(toy(), defences=["none", "mlp", "lapgraph"], **SMALL)


def test_an_audit_in_one_line_has_rows_verdict_and_page(audit: ev.Audit, tmp_path: Path) -> None:
    assert {row["defence"] for row in audit.rows} == {"none", "mlp", "lapgraph"}
    assert "your GCN gives away" in audit.verdict[0]
    page = audit.save(tmp_path / "out")
    assert "LapGraph ε=4" in page.read_text() and audit.verdict[0].split(",")[0] in page.read_text()
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert rows == audit.rows
    print_ = toy().fingerprint  # an unkeyed hash would let a reader of the report test guesses at the whole graph
    for file in (tmp_path / "out").rglob("*"):
        assert print_[:12] not in file.read_text() and "fingerprint" not in file.read_text(), file
    audit.write_exposed(tmp_path / "found.csv")
    assert (tmp_path / "found.csv").stat().st_mode & 0o077 == 0


def test_finished_parts_are_kept(tmp_path: Path) -> None:
    keep = tmp_path / "store.sqlite"
    first = ev.audit(toy(), defences=["none"], keep=keep, **SMALL)
    log = (tmp_path / "store.sqlite.log").read_bytes()
    assert ev.audit(toy(), defences=["none"], keep=keep, **SMALL).rows == first.rows
    assert (tmp_path / "store.sqlite.log").read_bytes() == log


def test_an_existing_release_needs_no_labels() -> None:
    graph = toy()
    release = ev.defend(graph, "none", model="gcn", seed=0)
    found = ev.audit(ev.Graph.from_edges(graph.edge_index, x=graph.x), target=release, nodes=40)
    assert found.verdict[0].startswith("This release (no defence) gives away")
    assert "sweet spot" not in found._repr_html_()
    assert "all 60 nodes attacked" in repr(ev.audit(graph, target=release, attacks=["lsa2-attr"]))


def test_advice_in_one_line() -> None:
    advice = ev.advise(toy(), defences=["lapgraph"], epsilons=[2.0, 8.0], nodes=40, **SHORT)
    assert advice.cost == 3 * 10 and "Choosing has a price" in repr(advice)
    public = ev.advise(toy(), defences=["lapgraph"], epsilons=[8.0], nodes=40, choose_on=toy(seed=3), **SHORT)
    assert public.cost == 0 and "pays for the release alone" in repr(public)


def test_advice_leaves_out_what_promises_nothing_for_an_edge() -> None:
    advice = ev.advise(toy(), defences=["gp-sound", "lapgraph"], epsilons=[8.0], nodes=40, floor=0.0, **SHORT)
    assert [c.defence for c in advice.choices] == ["lapgraph"] and list(advice.left_out) == ["gp-sound"]
    assert "gp-sound is left out: its epsilon is for the two list entries" in repr(advice)
    assert advice.cost == 3 * 8  # it was not tried either
    assert "only 15 validation nodes" in repr(advice)


def test_advice_for_two_graphs_states_the_sum_unless_asserted() -> None:
    two = {"defences": ["lapgraph"], "epsilons": [8.0], "nodes": 40, "floor": 0.0, "inference_graph": toy(seed=3)}
    two |= SHORT
    advice = ev.advise(toy(), **two)
    assert (advice.choices[0].epsilon, advice.choices[0].stated) == (8.0, 16.0) and "states epsilon 16" in repr(advice)
    asserted = ev.advise(toy(), setting="inductive-different", **two)
    assert asserted.choices[0].stated == 8.0 and "states epsilon" not in repr(asserted)


def test_unknown_settings_are_named() -> None:
    with pytest.raises(InputError, match="no setting 'defence'; it has defences"):
        ev.audit(toy(), defence="none")


def test_notebooks_show_words_and_a_table(audit: ev.Audit) -> None:
    html = audit._repr_html_()
    assert "<table>" in html and "LapGraph ε=4" in html and repr(audit).startswith("Audit('toy': 1 run, 40 nodes")
    assert len(repr(audit.data)) < 100


def test_reprs_are_short_and_say_what_counts() -> None:
    graph = toy()
    release = ev.defend(graph, "lapgraph", epsilon=4.0, model="gcn", seed=0)
    result = ev.attack(release, "linkteller", nodes=range(10))
    assert repr(release.guarantee) == (
        "Guarantee(sound, epsilon 4 for one undirected edge, seeded: reproducible, not private)"
    )
    assert "45 pairs" in repr(result) and "60 nodes" in repr(graph) and "epsilon 4" in repr(release)
    for thing in (graph, release, result, release.guarantee):
        assert len(repr(thing)) < 120 and "array" not in repr(thing)
    assert "4-differential privacy" in release._repr_html_() and "<script" not in release._repr_html_()
    claimed = ev.Guarantee(status="refuted", claimed_epsilon=1.0, reason="support <differs>")
    assert "claimed epsilon 1" in repr(claimed) and "&lt;differs&gt;" in claimed._repr_html_()
