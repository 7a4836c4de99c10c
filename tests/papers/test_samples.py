"""The samples kept in the package: where they belong, that none enters twice, and which of two accounts counts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from edgeveil.papers.agreement import compare, compare_summary
from edgeveil.papers.books import BOOKS, NO_SOURCE, every_cell, runnable
from edgeveil.papers.judge import comparison, judge
from edgeveil.papers.published import PAPERS, published
from edgeveil.papers.recipes import Cell, Recipe, Term, run_key
from edgeveil.papers.samples import Kept, Samples, cell_key, measured
from edgeveil.papers.studies import plans, terms
from edgeveil.runs.records import Record
from edgeveil.runs.run_config import RunConfig
from edgeveil.runs.store import Store


def test_every_kept_sample_belongs_to_a_printed_cell_or_a_study() -> None:
    """A recipe that changes leaves its samples without a home: they must be moved or dropped, not forgotten."""
    homes = {key: {term.figure for term in known} for key, known in terms().items()}
    lost = [
        (key, figure) for key, found in measured().runs.items() for figure in found if figure not in homes.get(key, ())
    ]
    assert lost == []
    printed = {cell_key(p) for paper in PAPERS for p in published(paper)}
    assert {key for key, _ in measured().cells} <= printed
    assert all(found for found in measured().sources.values())


def test_a_printed_figure_has_one_identity() -> None:
    keys = [cell_key(p) for paper in PAPERS for p in published(paper)]
    assert len(set(keys)) == len(keys)


def test_samples_come_back_as_written_and_equal_samples_give_equal_bytes(tmp_path: Path) -> None:
    samples = Samples()
    samples.add('{"dataset":"cora"}', "accuracy", {(1, None): 0.81234567, (0, None): 0.8}, "abc 2026-01-01")
    samples.add('{"dataset":"cora"}', "0 low k auc", {(0, 42): 0.9}, "abc 2026-01-01")
    samples.cells[("lpgnet", "7"), "correct"] = Kept(0.5, 0.01, 10)
    samples.write(tmp_path / "a.gz")
    again = Samples.read((tmp_path / "a.gz").read_bytes())
    assert again == samples and again.runs['{"dataset":"cora"}']["accuracy"][1, None] == 0.812346
    again.write(tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert b"cora" in gzip.decompress((tmp_path / "a.gz").read_bytes())


def test_a_store_is_added_once(tmp_path: Path) -> None:
    run = RunConfig(dataset="cora", seed=3)
    wanted = {run_key(run): (Term(run, "accuracy"), Term(run, "no such figure"))}
    with Store(tmp_path / "s.sqlite") as store:
        store.finish(
            Record(
                id="a",
                key="k",
                code="c0de",
                plan="p",
                config=run.to_json(),
                figures={"accuracy": 0.7, "other": 1.0},
                provenance={"finished": "2026-02-03T04:05:06"},
            )
        )
        samples = Samples()
        assert samples.add_store(store, wanted) == 1
        assert samples.runs[run_key(run)]["accuracy"] == {(3, None): 0.7}
        assert samples.sources == {run_key(run): {"c0de 2026-02-03"}}
        before = samples.runs[run_key(run)]["accuracy"].copy()
        assert samples.add_store(store, wanted) == 0 and samples.runs[run_key(run)]["accuracy"] == before


def test_the_account_with_more_samples_counts() -> None:
    printed = next(p for p in published("lpgnet") if p.table == "7" and p.metric == "micro_f1")
    run = RunConfig(dataset="cora")
    cell = Cell(printed, {"published": Recipe((Term(run, "micro_f1"),))})
    samples = Samples()
    assert comparison(cell, "published", samples) is None and judge(cell, samples).why == "not measured"
    samples.add(run_key(run), "micro_f1", {(0, None): 0.1, (1, None): 0.3}, "x")
    found = comparison(cell, "published", samples)
    assert found is not None and (found.ours, found.runs) == (pytest.approx(0.2), 2)
    samples.cells[cell_key(printed), "published"] = Kept(0.6, 0.02, 10)
    kept = comparison(cell, "published", samples)
    assert kept is not None and (kept.ours, kept.ours_std, kept.runs) == (0.6, 0.02, 10)
    samples.add(run_key(run), "micro_f1", {(seed, None): 0.3 for seed in range(2, 12)}, "x")
    later = comparison(cell, "published", samples)
    assert later is not None and later.runs == 12


def test_a_summary_is_judged_like_its_samples() -> None:
    values = [70.0, 74.0, 69.0]
    whole = compare(values, 73.0, 1.5, "pct")
    assert compare_summary(whole.ours, whole.ours_std, 3, 73.0, 1.5, "pct") == whole
    edge = compare_summary(76.00001, 0.0, 3, 73.0, 0.0, "pct", 2e-5)
    assert edge.agrees and not compare_summary(76.00003, 0.0, 3, 73.0, 0.0, "pct", 2e-5).agrees


def test_twins_prove_the_way_and_are_never_counted() -> None:
    cells = [cell for book in BOOKS.values() for table in book.tables() for cell in every_cell(book, table)]
    twins = [c for c in cells if c.published.dataset in NO_SOURCE and not c.why]
    assert twins and not any(runnable(c) for c in twins)
    for cell in twins:
        assert "twin" in cell.aside
        assert all(t.run.dataset.endswith("-twin") for recipe in cell.recipes.values() for t in recipe.terms)


def test_studies_are_plans_that_run() -> None:
    for name, plan in plans().items():
        assert plan.runs(), name
        assert all(run.utility or run.preset.startswith("lpgnet") for run in plan.runs()), f"{name} names no utility"
