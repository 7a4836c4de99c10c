"""Choosing epsilon as LinkTeller App. G6 does: the smallest one that beats a floor on validation data.

The choice looks at validation labels only, never at test labels. It does look at models trained on private edges:
trying several epsilon on one graph spends their sum, whatever is released in the end.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from edgeveil.attacks.base import by_strength
from edgeveil.audits.audit import MIN_EDGES, AuditPlan, Found, check_plan, make_plan, run_audit, with_default_split
from edgeveil.audits.cells import summarise
from edgeveil.audits.resume_files import audit_store, carry_over
from edgeveil.defences.base import DEFENCES
from edgeveil.errors import EdgeveilError, InputError
from edgeveil.graph.graph import Graph
from edgeveil.graph.splits import apply_split
from edgeveil.notebook import html_table
from edgeveil.privacy.budget import exact
from edgeveil.runs.executors import make_executor
from edgeveil.runs.records import Record
from edgeveil.runs.rows import comparable, why_left_out
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import Progress

__all__ = ["CANDIDATES", "Advice", "Choice", "advise", "choose", "choosing_cost", "conclude", "rank"]

CANDIDATES = ("edgerand", "lapgraph", "lpgnet-1", "lpgnet-2")
THIN_RUNS = 3
GIVEN = "the floor you gave"


@dataclass(frozen=True)
class Choice:
    """The smallest epsilon of one defence whose validation utility exceeds the floor, with its test figures."""

    defence: str
    epsilon: float
    status: str
    validation: float
    spread: float
    utility: float | None = None
    leakage: float | None = None
    attack: str | None = None
    stated: float | None = None  # epsilon of the final release, the sum where two graphs pay
    delta: float = 0.0

    @property
    def promise(self) -> str:
        """Status of the guarantee, and its delta if it has one."""
        return f"{self.status}, δ = {self.delta:g}" if self.delta else self.status


@dataclass(repr=False)
class Advice:
    """What to do, how sure that is, and what finding out has cost. `rows` are those of the chosen releases."""

    floor: float
    floor_is: str
    choices: list[Choice] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)  # defences that never reach the floor
    left_out: dict[str, str] = field(default_factory=dict)  # defences whose epsilon is not for one edge: its unit
    cost: Fraction = Fraction(0)
    delta: float = 0.0  # sum over the models tried
    words: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def _repr_html_(self) -> str:
        rows = [
            (c.defence, f"{c.epsilon:g}", c.promise, f"{c.validation:.3f} ± {c.spread:.3f}", _figure(c.utility),
             _figure(c.leakage))
            for c in rank(self.choices)
        ]  # fmt: skip
        head = ("defence", "epsilon", "guarantee", "validation", "test", "leakage")
        return html_table(f"above {self.floor:.3f}, {self.floor_is}", head, rows, self.words)

    def __repr__(self) -> str:
        chosen = ", ".join(f"{c.defence} at {c.epsilon:g}" for c in rank(self.choices)) or "nothing"
        return f"Advice(above {self.floor:.3f}, {self.floor_is}: {chosen})\n" + "\n".join(f"  {w}" for w in self.words)


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def with_validation(graph: Graph, seed: int = 0) -> Graph:
    """A graph without validation nodes is cut 80:20, disjoint and seeded, as App. G6 does with twitch-ES."""
    if graph.masks is not None and graph.masks.val.any():
        return graph
    return apply_split(graph, "80:20", seed)


def in_other_units(defences: Sequence[str]) -> dict[str, str]:
    """Sound defences that promise nothing for one undirected edge, with their unit: not to be tried, nor ranked."""
    classes = {name: DEFENCES.get(name) for name in defences}
    return {n: c.unit for n, c in classes.items() if not comparable({"status": c.status, "unit": c.unit})}


def choosing_cost(plan: AuditPlan) -> Fraction:
    """Sum of every epsilon that the choice tries on the private graph, runs included."""
    return sum((exact(e) for _, e, _ in plan.cells() if e is not None and math.isfinite(e)), Fraction(0))


def choose(records: Sequence[Record], floor: float | None = None) -> Advice:
    """Pick per defence from finished runs with validation utilities."""
    scores: dict[tuple[str, float | None], list[float]] = {}
    status: dict[str, str] = {}
    delta: dict[str, float] = {}
    for record in records:
        row = record.rows[0]
        if not comparable(row):
            continue
        value = record.figures.get(f"val_{row['utility_metric']}")
        if value is not None:
            scores.setdefault((row["defence"], row["epsilon"]), []).append(float(value))
        status[row["defence"]] = row["status"]
        delta.setdefault(row["defence"], row.get("delta") or 0.0)
    mlp = scores.get(("mlp", 0.0), scores.get(("mlp", None), []))
    said = GIVEN if floor is not None else "the MLP's validation utility"
    limit = floor if floor is not None else statistics.fmean(mlp) if mlp else math.nan
    rows = [record.rows[0] for record in records]
    left_out = {r["defence"]: r["unit"] for r in rows if not comparable(r)}
    advice = Advice(limit, said, left_out=left_out, delta=math.fsum(r.get("delta") or 0.0 for r in rows))
    for defence in dict.fromkeys(d for d, _ in scores if d not in ("none", "mlp")):
        grid = sorted((e, v) for (d, e), v in scores.items() if d == defence and e is not None)
        chosen = next(((e, v) for e, v in grid if statistics.fmean(v) > limit), None)
        if chosen is None:
            advice.missed.append(defence)
        else:
            epsilon, values = chosen
            spread = statistics.stdev(values) if len(values) > 1 else math.nan
            mean = statistics.fmean(values)
            advice.choices.append(Choice(defence, epsilon, status[defence], mean, spread, delta=delta[defence]))
    return advice


def advise(
    graph: Graph,
    *,
    floor: float | None = None,
    choose_on: Graph | None = None,
    attacks: Sequence[str] | None = None,
    inference_graph: Graph | None = None,
    executor: str = "serial",
    workers: int | None = None,
    keep: str | Path | None = None,
    split_seed: int = 0,
    progress: Progress | None = None,
    **plan: Any,
) -> Advice:
    """The smallest epsilon per defence whose validation utility beats a floor (LinkTeller App. G6), ranked.

    `choose_on`: a public graph or a twin to choose on, so that the private graph pays for the release alone.
    `keep`: a store for finished runs, with which an interrupted choice goes on. `plan` takes the fields of an audit's.
    """
    wished = make_plan({"defences": CANDIDATES} | plan)
    left_out = in_other_units(wished.defences)
    others = tuple(d for d in wished.defences if d not in ("mlp", "none", *left_out))
    attacks = by_strength() if attacks is None else attacks
    wished = replace(wished, defences=("mlp", *others), attacks=())
    private = with_default_split(graph, split_seed)
    check_plan(replace(wished, attacks=tuple(attacks)), inference_graph or private)
    ground = with_validation(private if choose_on is None else with_default_split(choose_on, split_seed), split_seed)
    with audit_store(keep) as store:

        def run(part: AuditPlan, on: Graph, answers: Graph | None = None) -> Found:
            return _run(part, on, answers, store, executor, workers, progress)

        alone = wished if inference_graph is None else replace(wished, setting=None)  # chosen on one graph
        advice = choose(run(alone, ground).records, floor)
        if advice.floor != advice.floor:
            raise InputError(
                "no floor: there are no validation nodes to score the MLP on; give a floor or another split"
            )
        for i, choice in enumerate(advice.choices):
            one = replace(wished, defences=(choice.defence,), epsilons=(choice.epsilon,), attacks=tuple(attacks))
            part = [dict(row) for record in run(one, private, inference_graph).records for row in record.rows]
            cell = summarise(part)[0]
            advice.choices[i] = replace(
                choice, utility=cell.utility, leakage=cell.leakage, attack=cell.attack, stated=cell.epsilon
            )
            advice.rows += part
    advice.left_out |= left_out
    advice.cost = choosing_cost(wished) if choose_on is None else Fraction(0)
    found = max((row["n_edges"] or 0 for row in advice.rows), default=10**9)
    advice.words = conclude(advice, wished, found, None if choose_on is None else choose_on.name)
    return advice


def _run(
    plan: AuditPlan, graph: Graph, inference: Graph | None, store: Store, executor: str, workers: int | None,
    progress: Progress | None,
) -> Found:  # fmt: skip
    carry_over(store, plan, graph, inference)
    found = run_audit(plan, graph, inference, make_executor(executor, workers), store, progress)
    if found.failures:
        raise EdgeveilError("some candidates failed, so no choice is made:\n" + "\n".join(found.failures))
    return found


def rank(choices: Sequence[Choice]) -> list[Choice]:
    """Sound guarantees first, then the smaller epsilon, then the smaller delta, then the higher validation utility."""
    return sorted(choices, key=lambda c: (c.status != "sound", c.epsilon, c.delta, -c.validation))


def _at(delta: float) -> str:
    return f" and delta {delta:g}" if delta else ""


def conclude(advice: Advice, plan: AuditPlan, edges: int, choose_on: str | None) -> list[str]:
    """The advice in sentences."""
    sound = [c for c in advice.choices if c.status == "sound"]
    words = []
    best = rank(sound)[0] if sound else None
    if best is None and advice.floor_is == GIVEN:
        words.append(
            f"No sound defence tried here beats {GIVEN} ({advice.floor:.3f}) on validation data: lower it, spend a "
            "larger epsilon, or do not use the graph."
        )
    elif best is None:
        words.append(
            f"No sound defence tried here beats {advice.floor_is} ({advice.floor:.3f}) on validation data: "
            "do not use the graph; release the MLP."
        )
    else:
        words.append(
            f"Use {best.defence} at epsilon {best.epsilon:g}{_at(best.delta)}: validation utility "
            f"{best.validation:.3f} against {advice.floor:.3f} ({advice.floor_is})."
        )
        if best.stated not in (None, best.epsilon):
            words.append(
                f"Its release states epsilon {best.stated:g}: each of the two graphs pays {best.epsilon:g}, and an "
                "edge may be in both unless you assert otherwise (setting inductive-different)."
            )
    words += [f"{defence} is left out: {why_left_out(unit)}." for defence, unit in advice.left_out.items()]
    if plan.runs < THIN_RUNS:
        words.append(f"Evidence is thin: {plan.runs} run(s); repeat with --runs 5 before deciding.")
    if edges < MIN_EDGES:
        words.append(f"Evidence is thin: only {edges} true edges among the attacked nodes; attack more with --nodes.")
    if choose_on is None:
        words.append(
            f"Choosing has a price: the models tried spend epsilon {float(advice.cost):g}{_at(advice.delta)} in sum on "
            f"this graph{'' if best is None else f', against {best.epsilon:g} for the chosen release alone'}. Choose "
            "on a twin or a public graph instead (--choose-on cora-twin) and the private graph pays for the release "
            "alone."
        )
    else:
        words.append(f"The choice was made on {choose_on}, so the private graph pays for the release alone.")
    return words
