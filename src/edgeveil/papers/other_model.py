"""A paper's recipes with another model in place of the paper's: shown beside the printed figures, never judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edgeveil.defences.defence import DEFENCES
from edgeveil.models.own_models import architecture_of, code_of, model_name
from edgeveil.papers.figure_recipes import Panel, Point
from edgeveil.papers.recipes import Cell, Recipe
from edgeveil.runs.run_config import RunConfig

__all__ = ["Swap", "cell_with", "panel_with", "swap_to"]

Swap = Callable[[RunConfig], RunConfig]


def swap_to(model: str) -> tuple[str, Swap]:
    """The name that rows will bear, and what puts the model into a run.

    Defences that bring their own model (LPGNet, the MLP) keep it. Widths and layers of the paper's model do not reach a
    module from outside; its training settings do.
    """
    name = model_name(model)
    layered = architecture_of(name).layered
    code = code_of(name) if ":" in name else None

    def swap(run: RunConfig) -> RunConfig:
        if DEFENCES.get(run.defence).own_model is not None:
            return run
        params = run.model_params if layered else {}
        return run.model_copy(update={"model": name, "model_code": code, "model_params": params})

    return name, swap


def _recipe(recipe: Recipe, swap: Swap) -> Recipe:
    return replace(recipe, terms=tuple(replace(term, run=swap(term.run)) for term in recipe.terms))


def cell_with(cell: Cell, swap: Swap) -> Cell:
    """The cell, measured with another model."""
    return replace(cell, recipes={variant: _recipe(recipe, swap) for variant, recipe in cell.recipes.items()})


def panel_with(panel: Panel, swap: Swap) -> Panel:
    """The panel of a figure, measured with another model."""

    def place(value: Any) -> Any:
        return _recipe(value, swap) if isinstance(value, Recipe) else value

    curves = tuple(
        replace(curve, points=tuple(Point(place(point.x), place(point.y)) for point in curve.points))
        for curve in panel.curves
    )
    return replace(panel, curves=curves)
