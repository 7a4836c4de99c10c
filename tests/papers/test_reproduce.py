"""Printed figures, the rule of agreement, and the way from a printed number to runs and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from edgeveil.errors import DatasetUnavailable, UnknownNameError, UsageError
from edgeveil.graph.graph import Graph
from edgeveil.papers.agreement import compare, share
from edgeveil.papers.books import BOOKS
from edgeveil.papers.published import DOUBTS, PAPERS, find_table, published, tables
from edgeveil.papers.recipes import Recipe, Term, evaluate, run_key
from edgeveil.papers.render import cell_rows, headline, markdown, text
from edgeveil.papers.reproduce import find, needed, reproduce, values_of
from edgeveil.runs.executors import Serial
from edgeveil.runs.records import Record
from edgeveil.runs.run_config import RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.tasks import Outcome, Task

ALL = [(paper, table) for paper in PAPERS for table in tables(paper)]


def test_every_printed_figure_is_there() -> None:
    assert {paper: len(published(paper)) for paper in PAPERS} == {
        "linkteller": 5326,
        "lpgnet": 2090,
        "graphprivatizer": 2597,
        "blink": 52,
    }
    assert len(find_table("lpgnet", "18")) == 272 and len(find_table("graphprivatizer", "6")) == 240
    first = find_table("linkteller", "i")[2]
    assert (first.dataset, first.degree, first.belief, first.mean, first.std) == (
        "twitch-ru",
        "unconstrained",
        "k/4",
        95.1,
        1.1,
    )


def test_known_contradictions_are_marked() -> None:
    cells = find_table("linkteller", "XXI")
    assert {c.doubt for c in cells if c.degree == "high"} == {"L1"} and {
        c.doubt for c in cells if c.degree != "high"
    } == {""}
    assert {c.doubt for paper in PAPERS for c in published(paper)} - {""} == set(DOUBTS)


def test_agreement_follows_the_rule() -> None:
    assert compare([70.0, 72.0], 73.9, 0.0, "pct").agrees  # 2.9 points, within 3
    assert not compare([70.0, 70.0], 73.1, 0.0, "pct").agrees
    assert compare([0.80, 0.80], 0.819, None, "fraction").agrees
    assert not compare([0.80, 0.80], 0.821, None, "fraction").agrees
    assert not compare([80.0], 82.1, None, "auc100").agrees
    wide = compare([60.0, 70.0], 75.0, 5.0, "pct")  # deviations 5 and 5: pooled 5, difference -10
    assert wide.pooled == 5.0 and wide.z == -2.0 and wide.agrees
    assert compare([12.0], 500.0, 1.0, "s").agrees is None
    assert compare([], 1.0, None, "pct").agrees is None and math.isnan(compare([], 1.0, None, "pct").ours)
    assert share([True, False, None, True]) == (2, 3)


@pytest.mark.parametrize(("paper", "table"), ALL, ids=lambda x: str(x))
def test_every_cell_can_be_run_or_says_why(paper: str, table: str) -> None:
    cells = list(BOOKS[paper].cells(table, "full"))
    assert len(cells) == len(find_table(paper, table))
    for cell in cells:
        assert cell.why or (cell.recipes and all(recipe.terms for recipe in cell.recipes.values()))
        for recipe in cell.recipes.values():
            for term in recipe.terms:
                assert term.pick is None or term.pick.attack in term.run.attacks, (
                    "the run lacks the attack it is asked for"
                )
                assert term.pick is None or term.pick.degree is None or term.pick.degree in term.pick.attack.degrees
    quick = list(BOOKS[paper].cells(table, "quick"))
    assert 0 < len(quick) <= len(cells), "--quick leaves nothing of this table"


def test_tables_share_runs() -> None:
    book = BOOKS["linkteller"]
    first = needed(book.cells("I", "full"), 1, ("published", "correct"))
    second = needed(book.cells("II", "full"), 1, ("published", "correct"))
    assert {run_key(r) for r in first} <= {run_key(r) for r in second}
    utility = needed(BOOKS["lpgnet"].cells("7", "full"), 1, ("published", "correct"))
    attacks = {run_key(r) for r in needed(BOOKS["lpgnet"].cells("18", "full"), 1, ("published", "correct"))}
    assert {run_key(r) for r in utility} <= attacks


def test_averages_of_graphprivatizer_weigh_to_one_and_differences_to_zero() -> None:
    book = BOOKS["graphprivatizer"]
    counts = {}
    for table in ("7", "8", "6"):
        for cell in book.cells(table, "full"):
            total = sum(term.weight for term in cell.recipes["published"].terms)
            expected = 0.0 if "delta" in cell.published.metric else 1.0
            assert total == pytest.approx(expected, abs=1e-12)
            if (
                cell.published.metric == "accuracy"
                and cell.published.alpha == "avg>0"
                and cell.published.epsilon == "0.1"
            ):
                counts[table] = len(cell.recipes["published"].terms)
    assert counts == {"7": 24, "8": 16}  # all but the base case; alpha and delta above zero


def test_table_5_of_graphprivatizer_is_shown_and_not_counted() -> None:
    """Cosine minus Euclidean over six models; what the paper averages over is not stated."""
    for cell in BOOKS["graphprivatizer"].cells("5", "full"):
        assert "not stated" in cell.aside
        for recipe in cell.recipes.values():
            plus, minus = ([t for t in recipe.terms if (t.weight > 0) is sign] for sign in (True, False))
            assert {t.run.defence_params.get("metric") for t in plus} == {None}
            assert {t.run.defence_params.get("metric") for t in minus} == {"euclidean"}
            assert sum(t.weight for t in plus) == pytest.approx(1) == -sum(t.weight for t in minus)
    table_6 = {run_key(r) for r in needed(BOOKS["graphprivatizer"].cells("6", "full"), 1, ("published", "correct"))}
    own = needed(BOOKS["graphprivatizer"].cells("5", "full"), 1, ("published", "correct"))
    assert {run_key(r) for r in own if "metric" not in r.defence_params} <= table_6


def test_recipes_combine_sample_by_sample() -> None:
    one, two = (RunConfig(dataset=name) for name in ("a", "b"))

    def record(value: float) -> Record:
        return Record(id="", key="", code="", plan="", config={}, figures={"accuracy": value})

    found = {
        run_key(run): {seed: record(value + seed) for seed in seeds}
        for run, value, seeds in ((one, 0.5, (0, 1)), (two, 0.2, (0, 1, 2)))
    }

    def values(term: Term) -> dict[Any, float]:
        return values_of(term, found)

    terms = (Term(one, "accuracy"), Term(two, "accuracy", weight=-1.0))
    assert evaluate(Recipe(terms), values) == pytest.approx([0.3, 0.3])
    assert evaluate(Recipe((terms[0], Term(two, "accuracy")), "max"), values) == [0.5, 1.5]
    assert evaluate(Recipe((Term(two, "no such"),)), values) == []


def test_names_are_found_or_explained() -> None:
    assert find("LinkTeller:xii(A)")[1] == "XII(a)"
    with pytest.raises(UnknownNameError, match="Did you mean 'linkteller'"):
        find("linktelle:I")
    with pytest.raises(UnknownNameError, match="table of lpgnet"):
        find("lpgnet:99")
    with pytest.raises(UsageError, match="which table"):
        find("lpgnet")


class Printed:
    """An executor that answers with the printed figures of a run, to test the way back without training."""

    workers = 1

    def run(self, function: str, tasks: Sequence[Task], graphs: Mapping[str, Graph]) -> Iterator[Outcome]:
        for task in tasks:
            run = RunConfig.model_validate(task.config)
            rows = [
                {
                    "dataset": run.dataset, "defence": run.defence, "attack": attack.name, "protocol": attack.protocol,
                    "degree": degree, "belief": belief, "auc": 0.9, "precision": 0.5, "recall": 0.6, "n_edges": 1,
                    "n_pairs": 100, "params": {"attack": attack.params, "sample_seed": seed},
                }
                for attack in run.attacks
                for degree in attack.degrees
                for belief in attack.beliefs
                for seed in attack.sample_seeds or (0,)
            ]  # fmt: skip
            yield Outcome(task, {"rows": rows, "figures": {"rare_f1": 0.3}})


def load_twitch(toy: Graph) -> Any:
    def load(name: str) -> Graph:
        if not name.startswith("twitch"):
            raise DatasetUnavailable(f"no source has {name}")
        return toy.named(name)

    return load


def test_a_table_from_runs_to_words(tmp_path: Path, toy: Graph) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        result = reproduce("linkteller:II", store, Printed(), load_twitch(toy), mode="full")
    assert len(result.cells) == 63 and result.summary.total == 7
    missing = [j for j in result.cells if j.why]
    assert {j.cell.published.dataset for j in missing} == {"flickr", "ppi"}
    assert all("no source has" in j.why for j in missing)
    agree, judged = result.agreement()
    expected = [
        abs(0.9 - j.cell.published.mean) <= max(0.02, math.sqrt(2) * (j.cell.published.std or 0))
        for j in result.cells
        if not j.why
    ]
    assert judged == 45 and agree == sum(expected)
    for page in (text(result), markdown(result)):
        assert "twitch-ru" in page and "not run" in page
    assert f"{agree} of 45 cells agree" in headline(result)
    rows = cell_rows(result)
    assert rows[0]["published_runs"] == 3 and rows[0]["theirs"] == result.cells[0].cell.published.mean


def test_twins_are_run_shown_and_not_counted(tmp_path: Path, toy: Graph) -> None:
    def load(name: str) -> Graph:
        if name in ("flickr", "ppi"):
            raise DatasetUnavailable(f"no source has {name}")
        return toy.named(name)

    with Store(tmp_path / "s.sqlite") as store:
        result = reproduce("linkteller:II", store, Printed(), load, mode="full", twins=True)
    assert not any(j.why for j in result.cells) and result.agreement()[1] == 45
    assert "18 cells not counted: measured on a synthetic twin" in text(result)


def test_doubtful_cells_are_shown_but_not_counted(tmp_path: Path, toy: Graph) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        result = reproduce("linkteller:XXI", store, Printed(), load_twitch(toy), mode="quick", variants=("published",))
    assert len(result.cells) == 90 and result.agreement()[1] == 60
    assert "30 cells not counted: L1" in text(result)


@pytest.mark.data
@pytest.mark.slow
def test_linkteller_on_cora_for_real(tmp_path: Path) -> None:
    from edgeveil.graph.datasets import load

    with Store(tmp_path / "s.sqlite") as store:
        result = reproduce(
            "linkteller:XI", store, Serial(), load, mode="quick", keep=lambda cell: cell.published.dataset == "cora"
        )
    agree, judged = result.agreement()
    assert judged == 3 and agree >= 2
