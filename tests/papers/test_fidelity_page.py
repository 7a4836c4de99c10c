"""docs/fidelity.md and its cells are what the samples of the package say."""

from __future__ import annotations

from pathlib import Path

from edgeveil.papers.books import BOOKS
from edgeveil.papers.fidelity_page import page, write_cells
from edgeveil.papers.judge import judged_table
from edgeveil.papers.listing import standing

DOCS = Path(__file__).parents[2] / "docs"
REMEDY = "run python scripts/fidelity.py write"


def test_the_page_and_its_cells_are_the_generators(tmp_path: Path) -> None:
    text = (DOCS / "fidelity.md").read_text(encoding="utf-8")
    assert page(text) == text, REMEDY
    write_cells(tmp_path)
    fresh, kept = (
        {p.name: p.read_text("utf-8") for p in folder.glob("*.csv")} for folder in (tmp_path, DOCS / "fidelity")
    )
    assert fresh.keys() == kept.keys(), REMEDY
    assert [name for name in fresh if fresh[name] != kept[name]] == [], REMEDY
    for name in kept:
        assert f"(fidelity/{name})" in text, f"no link to {name}"


def test_a_changed_figure_is_noticed() -> None:
    text = (DOCS / "fidelity.md").read_text(encoding="utf-8")
    assert page(text.replace("| [XXII](", "| [XXII](x", 1)) == text


def test_the_pages_stay_readable() -> None:
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in DOCS.glob("fidelity*.md"))
    assert words < 8000


def test_counts_add_up() -> None:
    for book in BOOKS.values():
        for table in book.tables():
            found = standing(judged_table(book.name, table))
            assert found.agree <= found.counted <= found.measured <= found.runnable <= found.printed
            assert found.measured + found.twins <= found.printed
