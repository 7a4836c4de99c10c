"""A difference is explained where its figures have all the words of a known cause; otherwise it is said to be open."""

from __future__ import annotations

from pathlib import Path

from edgeveil.papers.causes import CAUSES, OPEN, cause_of


def test_the_first_cause_whose_words_all_fit_counts() -> None:
    assert cause_of("graphprivatizer", ["12", "amazon-photo", "gp-t", "auc"]) == "label propagation K_y"
    assert cause_of("graphprivatizer", ["10", "pubmed", "gp-t", "auc"]) == OPEN
    assert cause_of("lpgnet", ["12", "amazon-photo", "gp-t", "auc"]) == OPEN, "of another paper"


def test_no_cause_is_hidden_by_an_earlier_one() -> None:
    for place, later in enumerate(CAUSES):
        assert not any(c.paper == later.paper and c.words <= later.words for c in CAUSES[:place])


def test_every_line_of_the_page_names_a_cause_or_says_open() -> None:
    text = (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text(encoding="utf-8")
    table = text.partition("<!-- differences -->\n")[2].partition("<!-- end")[0].splitlines()[2:]
    assert table and {line.rsplit(" | ", 1)[1].removesuffix(" |") for line in table} <= {c.cause for c in CAUSES} | {
        OPEN
    }
