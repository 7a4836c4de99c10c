"""The tables of PPI and Flickr, whose twins take hours, go the whole way on a small graph in the twins' place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeveil.graph.graph import Graph
from edgeveil.papers.recipes import Cell, Recipe
from edgeveil.papers.reproduce import reproduce
from edgeveil.runs.executors import Serial
from edgeveil.runs.store import Store

TABLES = [
    ("linkteller:III", "flickr", "inf", 90), ("linkteller:III", "ppi", "inf", 90), ("linkteller:XXIII", "ppi", "10", 30),
    ("linkteller:XXIV", "ppi", "10", 30), ("linkteller:XXV", "flickr", "10", 30), ("linkteller:XXVI", "flickr", "10", 30),
    ("lpgnet:11", "flickr", "10", 12), ("lpgnet:17", "flickr", "10", 5),
]  # fmt: skip


def small(name: str, toy: Graph) -> Graph:
    """The toy under the twin's name; with several labels per node for PPI."""
    assert toy.y is not None and toy.masks is not None
    y = toy.y if "flickr" in name else (np.arange(5) % 3 == toy.y[:, None]).astype(np.float32)
    train, val, test = toy.masks
    return Graph.from_edges(toy.edge_index, x=toy.x, y=y, name=name, train_mask=train, val_mask=val, test_mask=test)


@pytest.mark.parametrize(("table", "dataset", "epsilon", "count"), TABLES, ids=lambda x: str(x))
def test_every_cell_of_an_epsilon_gets_a_figure(
    tmp_path: Path, toy: Graph, monkeypatch: pytest.MonkeyPatch, table: str, dataset: str, epsilon: str, count: int
) -> None:
    def shortened(cell: Cell) -> Cell:
        """Three epochs of a narrow model."""
        less = {"model_params": {"hidden": 4}, "train_params": {"epochs": 3}}
        recipes = {
            variant: Recipe(
                tuple(replace(t, run=t.run.model_copy(update={**less, "dataset": f"{dataset}-twin"})) for t in r.terms),
                r.combine,
            )
            for variant, r in cell.recipes.items()
        }
        return replace(cell, recipes=recipes, aside="twin")

    monkeypatch.setattr("edgeveil.papers.reproduce.usable", shortened)
    with Store(tmp_path / "s.sqlite") as store:
        result = reproduce(
            table, store, Serial(), lambda name: small(name, toy), mode="full", seeds=1, variants=("published",),
            twins=True, keep=lambda cell: (cell.published.dataset, cell.published.epsilon) == (dataset, epsilon),
        )  # fmt: skip
    assert len(result.cells) == count and result.summary.failures == {}
    assert all("published" in judged.comparisons for judged in result.cells)
    assert result.agreement() == (0, 0), "never counted"
