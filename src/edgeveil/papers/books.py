"""How each printed figure is measured here: one module per paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from edgeveil.papers import blink_tables as blink
from edgeveil.papers import graphprivatizer_tables as graphprivatizer
from edgeveil.papers import linkteller_tables as linkteller
from edgeveil.papers import lpgnet_tables as lpgnet
from edgeveil.papers.recipes import Cell, Paper, Recipe

__all__ = ["BOOKS", "NO_SOURCE", "every_cell", "on_twin", "runnable", "usable"]

NO_SOURCE = ("flickr", "ppi", "lastfm")  # graphs of the papers that no public source within reach has with features
TWIN = "measured on a synthetic twin, not on the paper's graph"

BOOKS: dict[str, Paper] = {book.name: book for book in (linkteller.BOOK, lpgnet.BOOK, graphprivatizer.BOOK, blink.BOOK)}


def runnable(cell: Cell) -> bool:
    """Whether a cell can be measured with graphs that can be had."""
    return not cell.why and cell.published.dataset not in NO_SOURCE


def on_twin(cell: Cell) -> Cell:
    """The same measurement on the synthetic twin of the cell's graph: it proves the way, and is never counted."""
    recipes = {}
    for variant, recipe in cell.recipes.items():
        runs = [(t, t.run.model_copy(update={"dataset": f"{t.run.dataset}-twin"})) for t in recipe.terms]
        recipes[variant] = Recipe(tuple(replace(term, run=run) for term, run in runs), recipe.combine)
    return replace(cell, recipes=recipes, aside=TWIN)


def usable(cell: Cell) -> Cell:
    """The cell, or its twin where no source has the graph."""
    return on_twin(cell) if cell.published.dataset in NO_SOURCE and not cell.why else cell


def every_cell(book: Paper, table: str) -> Iterator[Cell]:
    """Every cell of a table, as it is measured here: on a twin where no source has the graph."""
    return map(usable, book.cells(table, "full"))
