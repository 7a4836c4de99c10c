"""From a printed figure to what must be run for it: terms, recipes and cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from edgeveil.papers.published import DOUBTS, Published, find_table, tables
from edgeveil.runs.run_config import AttackConfig, RunConfig, canonical_json

__all__ = ["Cell", "Mode", "Paper", "Pick", "Recipe", "Sample", "Term", "evaluate", "run_key", "scale", "seeded"]

Mode = Literal["quick", "default", "full"]
Sample = tuple[int, int | None]  # seed of the release, seed of the attacked sample


@dataclass(frozen=True)
class Pick:
    """Which rows of a run count: those of one attack configuration at one degree class and belief."""

    attack: AttackConfig
    degree: str | None = None
    belief: str = "k"

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Whether a row comes from this attack."""
        params = row["params"]
        own = params.get("attack", {})
        return (
            row["attack"] == self.attack.name
            and row["protocol"] == self.attack.protocol
            and row["degree"] == self.degree
            and row["belief"] == self.belief
            and all(own.get(key) == value for key, value in self.attack.params.items())
            and bool(params.get("bypass_kprop")) == self.attack.bypass_kprop
            and params.get("target") == self.attack.service
            and params.get("pairs", self.attack.pair_variant) == self.attack.pair_variant
        )


@dataclass(frozen=True)
class Term:
    """One measured number per sample, times a weight. Without a pick it is a figure of the whole run (utility)."""

    run: RunConfig
    metric: str
    pick: Pick | None = None
    weight: float = 1.0

    @property
    def figure(self) -> str:
        """What is measured of the run, in words: ``accuracy``, or ``0 low k/4 precision`` for its first attack."""
        if self.pick is None:
            return self.metric
        return f"{self.run.attacks.index(self.pick.attack)} {self.pick.degree or '-'} {self.pick.belief} {self.metric}"

    def values(self, seed: int, rows: Sequence[Mapping[str, Any]], figures: Mapping[str, Any]) -> dict[Sample, float]:
        """The number for every sample of one run."""
        if self.pick is None:
            value = figures.get(self.metric)
            return {} if value is None else {(seed, None): float(value)}
        found = {}
        for row in rows:
            if self.pick.matches(row):
                value = row["n_edges"] / row["n_pairs"] if self.metric == "density" else row[self.metric]
                if value is not None:
                    found[(seed, row["params"].get("sample_seed"))] = float(value)
        return found


@dataclass(frozen=True)
class Recipe:
    """How terms make a figure: their sum, or the largest of them."""

    terms: tuple[Term, ...]
    combine: Literal["sum", "max"] = "sum"


@dataclass(frozen=True)
class Cell:
    """One printed figure and how to measure it: `recipes` by variant, the printed one first.

    `why`: it cannot be run, and why. `aside`: it is shown but not counted, and why.
    """

    published: Published
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    why: str = ""
    aside: str = ""


@dataclass(frozen=True)
class Paper:
    """One paper: how its cells are measured, how many seeds each mode takes, and which cells `--quick` keeps.

    `quick` keeps a part of the cells on small graphs; a table that has none keeps `thin`, the same on any graph.
    """

    name: str
    title: str
    cell: Callable[[Published], Cell]
    seeds: Callable[[str, Mode], int]
    quick: Callable[[Published], bool]
    thin: Callable[[Published], bool]

    def tables(self) -> tuple[str, ...]:
        """Every table with printed figures."""
        return tables(self.name)

    def cells(self, table: str, mode: Mode) -> Sequence[Cell]:
        """The cells of a table in a mode; contradictions in print are shown and not counted."""
        every = _every_cell(self, table)
        if mode != "quick":
            return every
        return [c for c in every if self.quick(c.published)] or [c for c in every if self.thin(c.published)]


@cache
def _every_cell(paper: Paper, table: str) -> tuple[Cell, ...]:
    """Made once: judging, counting what is left and estimating times ask for the same cells and their runs."""
    made = []
    for printed in find_table(paper.name, table):
        cell = paper.cell(printed)
        if printed.doubt and not cell.aside:
            cell = Cell(printed, cell.recipes, cell.why, f"{printed.doubt}: {DOUBTS[printed.doubt]}")
        made.append(cell)
    return tuple(made)


def seeded(run: RunConfig, seed: int) -> RunConfig:
    """A run with a seed; drawn splits follow it, but for GraphPrivatizer, whose code draws its split once."""
    return run.model_copy(update={"seed": seed, "split_seed": 0 if run.preset == "graphprivatizer" else seed})


def scale(unit: str) -> float:
    """From our fractions to the printed unit."""
    return 100.0 if unit in ("pct", "auc100") else 1.0


def evaluate(recipe: Recipe, values: Callable[[Term], Mapping[Sample, float]]) -> list[float]:
    """Samples of a recipe: terms are weighed and combined sample by sample; a sample that lacks a term is left out."""
    columns = [(term.weight, values(term)) for term in recipe.terms]
    shared = set(columns[0][1]).intersection(*(column for _, column in columns[1:])) if columns else set()
    combine = max if recipe.combine == "max" else sum
    return [float(combine(w * column[sample] for w, column in columns)) for sample in sorted(shared, key=str)]


_KEYS: dict[int, tuple[RunConfig, str]] = {}  # by identity: many cells share one run, and its settings never change


def run_key(run: RunConfig) -> str:
    """What identifies a run apart from its seeds."""
    known = _KEYS.get(id(run))
    if known is None:
        key = canonical_json(run.model_copy(update={"seed": 0, "split_seed": 0}).to_json())
        known = _KEYS[id(run)] = (run, key)
    return known[1]
