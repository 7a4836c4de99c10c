"""Choosing epsilon as LinkTeller App. G6 does: the smallest one that beats a floor on validation data, beyond noise.

Whether it does is judged as in an audit (`gains`), node by node on validation nodes, the error split over everything
that could have been chosen. The choice looks at validation labels only, never at test labels. It does look at models
trained on private edges: trying several epsilon on one graph spends their sum, whatever is released in the end.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from edgeveil.attacks.attack import assumed_by, by_strength
from edgeveil.audits.audit import (
    MIN_EDGES,
    AuditPlan,
    Found,
    check_plan,
    drawn_how,
    judged_by,
    make_plan,
    run_audit,
    with_default_split,
)
from edgeveil.audits.cells import label, summarise
from edgeveil.audits.gains import ALPHA, MIN_TEST, Gain, gains, measurements, spreads
from edgeveil.audits.resume_files import audit_store, carry_over
from edgeveil.defences.defence import DEFENCES
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

__all__ = ["Advice", "Choice", "advise", "choose", "choosing_cost", "conclude", "rank"]

THIN_RUNS = 3
GIVEN = "the floor you gave"


@dataclass(frozen=True)
class Choice:
    """The smallest epsilon of one defence that beats the floor on validation nodes, beyond noise; its test figures."""

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
    gain: Gain | None = None  # on validation nodes over the better edge-free release

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
    nearest: Gain | None = None  # where nothing is chosen: the candidate that gains most
    edge_free: str = "mlp"  # the better release without edges

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


def choose(records: Sequence[Record], graph: Graph, floor: float | None = None) -> Advice:
    """Pick per defence from finished runs, by what they said about the validation nodes of `graph`.

    A defence passes at the smallest epsilon that beats every edge-free release, or whose utility exceeds the floor
    given, at level ALPHA divided by the number of candidates.
    """
    found = measurements(records, graph, "val")
    rows = {(r.rows[0]["defence"], r.rows[0]["epsilon"]): r.rows[0] for r in records}
    tried = sorted(k for k, row in rows.items() if comparable(row) and k[1] and math.isfinite(k[1]))
    values = {key: [float(m.scores.mean()) for m in found if m.key == key] for key in rows}
    free = {key[0]: statistics.fmean(v) for key, v in values.items() if key[1] == 0.0 and v}
    best = max(free, key=free.__getitem__, default="")
    advice = Advice(
        floor if floor is not None else free.get(best, math.nan),
        GIVEN if floor is not None else f"{label(best, None)}, the better release without edges" if best else "unknown",
        left_out={row["defence"]: row["unit"] for row in rows.values() if not comparable(row)},
        delta=math.fsum(r.rows[0].get("delta") or 0.0 for r in records), edge_free=best or "mlp",
    )  # fmt: skip
    judged = {(g.defence, g.epsilon): g for g in gains(found, tried, looks=1)}
    level = 1 - 2 * ALPHA / max(len(tried), 1)
    if floor is None:
        passing = [key for key in tried if key in judged and judged[key].helps]
    else:
        noise = {(s.defence, s.epsilon): s for s in spreads(found, least=1)}
        passing = [key for key in tried if key in noise and noise[key].interval(1 - level)[0] > floor]
    for key in {k[0]: k for k in reversed(passing)}.values():
        spread = statistics.stdev(values[key]) if len(values[key]) > 1 else math.nan
        advice.choices.append(
            Choice(key[0], float(key[1] or 0), rows[key]["status"], statistics.fmean(values[key]), spread,
                   delta=rows[key].get("delta") or 0.0, gain=judged.get(key))
        )  # fmt: skip
    advice.missed += [d for d in dict.fromkeys(d for d, _ in tried) if d not in {k[0] for k in passing}]
    sound = [gain for key, gain in judged.items() if rows[key]["status"] == "sound"]
    advice.nearest = max(sound, key=lambda g: g.value, default=None)
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
    """The smallest epsilon per defence that beats a floor on validation nodes beyond the noise, ranked.

    LinkTeller App. G6 with error bars. Without `floor` it is the better edge-free release, and `runs` are 3.

    `choose_on`: a public graph or a twin to choose on, so that the private graph pays for the release alone.
    `keep`: a store for finished runs, with which an interrupted choice goes on. `plan` takes the fields of an audit's.
    """
    wished = make_plan({"defences": DEFENCES.ranked("advised"), "runs": THIN_RUNS} | plan)
    wished = wished if "drawn" in plan else replace(wished, drawn=drawn_how(inference_graph or graph, wished.nodes))
    edge_free = DEFENCES.ranked("edge_free")
    left_out = in_other_units(wished.defences)
    others = tuple(d for d in wished.defences if d not in (*edge_free, "none", *left_out))
    attacks = by_strength() if attacks is None else attacks
    wished = replace(wished, defences=(*edge_free, *others), attacks=())
    private = with_default_split(graph, split_seed)
    check_plan(replace(wished, attacks=tuple(attacks)), inference_graph or private)
    wished = judged_by(wished, private)
    ground = with_validation(private if choose_on is None else with_default_split(choose_on, split_seed), split_seed)
    with audit_store(keep) as store:

        def run(part: AuditPlan, on: Graph, answers: Graph | None = None) -> Found:
            return _run(part, on, answers, store, executor, workers, progress)

        alone = wished if inference_graph is None else replace(wished, setting=None)  # chosen on one graph
        advice = choose(run(alone, ground).records, ground, floor)
        if advice.floor != advice.floor:
            raise InputError(
                "no floor: there are no labelled validation nodes to score an edge-free release on; give another split"
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


def _points(gain: Gain | None) -> str:
    if gain is None or math.isnan(gain.low):
        return ""
    against = label(gain.against, None)
    return f": {100 * gain.value:+.1f} points over {against} [{100 * gain.low:.1f}, {100 * gain.high:.1f}]"


def _nothing(advice: Advice) -> str:
    """Why nothing is chosen; never more than was measured."""
    near, free = advice.nearest, label(advice.edge_free, None)
    if advice.floor_is == GIVEN:
        return (
            f"No sound defence tried here beats {GIVEN} ({advice.floor:.3f}) on validation data, beyond the noise: "
            "lower it, spend a larger epsilon, or do not use the graph."
        )
    if near is None:
        return f"No sound defence for one undirected edge could be judged: do not use the graph; release {free}."
    if near.nodes < MIN_TEST:
        return (
            f"Too few validation nodes ({near.nodes}, at least {MIN_TEST} are needed) to say whether the graph helps: "
            f"nothing is chosen. Until more nodes are labelled, release {free}."
        )
    if math.isnan(near.low):
        return "One run cannot tell a gain from noise: nothing is chosen. Repeat with --runs 3 or more."
    return (
        f"There is no evidence that the graph helps under a sound defence: the best of them, "
        f"{label(near.defence, near.epsilon)}, differs by{_points(near)[1:]} on validation data. Do not use the graph; "
        f"release {free}, or spend a larger epsilon."
    )


def _at(delta: float) -> str:
    return f" and delta {delta:g}" if delta else ""


def conclude(advice: Advice, plan: AuditPlan, edges: int, choose_on: str | None) -> list[str]:
    """The advice in sentences."""
    sound = [c for c in advice.choices if c.status == "sound"]
    words = []
    best = rank(sound)[0] if sound else None
    if best is None:
        words.append(_nothing(advice))
    else:
        words.append(
            f"Use {best.defence} at epsilon {best.epsilon:g}{_at(best.delta)}: validation utility "
            f"{best.validation:.3f} against {advice.floor:.3f} ({advice.floor_is}){_points(best.gain)}."
        )
        if best.attack and best.leakage is not None:
            words.append(
                f"It gives away {best.leakage:.0%} of the edges among the attacked nodes to someone who "
                f"{assumed_by(best.attack)} ({best.attack}, of the attacks tried the one that finds most)."
            )
        if best.stated not in (None, best.epsilon):
            words.append(
                f"Its release states epsilon {best.stated:g}: each of the two graphs pays {best.epsilon:g}, and an "
                "edge may be in both unless you assert otherwise (setting inductive-different)."
            )
    words += [f"{defence} is left out: {why_left_out(unit)}." for defence, unit in advice.left_out.items()]
    if plan.runs < THIN_RUNS:
        words.append(f"Evidence is thin: {plan.runs} run(s); repeat with --runs 5 before deciding.")
    if best is not None and advice.nearest is not None and advice.nearest.nodes < MIN_TEST:
        words.append(f"Evidence is thin: only {advice.nearest.nodes} validation nodes; {MIN_TEST} or more tell more.")
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
