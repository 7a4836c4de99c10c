"""``edgeveil advise``: the smallest epsilon, per defence, that is worth using."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.audit import default_graph, run_plan, with_default_split
from edgeveil.cli.common import (
    DataRoot,
    Edges,
    Features,
    GraphName,
    Json,
    Labels,
    SeedOption,
    SplitName,
    SplitSeed,
    console,
    load_graph,
    numbers,
    words,
    write_json_lines,
)
from edgeveil.errors import EdgeveilError, UsageError

if TYPE_CHECKING:
    from edgeveil.bench.advise import Advice
    from edgeveil.bench.audit import AuditPlan
    from edgeveil.graph.graph import Graph


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: edgeveil advise cora --defence lapgraph,lpgnet-1 --epsilon 1,2,4,8 --runs 3")(advise)


def advise(
    graph: GraphName = None,
    defence: Annotated[str, typer.Option(help="Defences to choose among.")] = "edgerand,lapgraph,lpgnet-1,lpgnet-2",
    model: Annotated[str, typer.Option(help="gcn, gat, gatv2, sage, graphconv or transformer.")] = "gcn",
    epsilon: Annotated[str, typer.Option(help="Candidates, comma separated.")] = "1,2,4,8",
    floor: Annotated[float | None, typer.Option(help="Validation utility to beat; default: that of the MLP.")] = None,
    attack: Annotated[str, typer.Option(help="Attacks on the chosen releases.")] = "linkteller,lsa2-post,lsa2-attr",
    runs: Annotated[int, typer.Option(min=1, help="Repetitions with other seeds.")] = 1,
    seed: SeedOption = 0,
    nodes: Annotated[int, typer.Option(min=2, help="Attacked nodes.")] = 500,
    preset: Annotated[
        str, typer.Option(help="Hyper-parameters: default, linkteller, lpgnet, graphprivatizer.")
    ] = "default",
    inference: Annotated[str | None, typer.Option(help="Another graph to answer for (inductive).")] = None,
    choose_on: Annotated[
        str | None, typer.Option(help="Choose on this public graph or twin instead of the private one.")
    ] = None,
    edges: Edges = None,
    features: Features = None,
    labels: Labels = None,
    split: SplitName = None,
    split_seed: SplitSeed = 0,
    data_root: DataRoot = None,
    out: Annotated[Path, typer.Option(help="Folder for finished parts.")] = Path("advice"),
    json_file: Json = None,
    executor: Annotated[str, typer.Option(help="serial, processes or ray.")] = "processes",
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per core.")] = None,
) -> None:
    """Choose epsilon on validation data (LinkTeller App. G6), then show utility and leakage on test data.

    For the owner of the graph: not private.
    """
    from edgeveil.bench.advise import advise as choose
    from edgeveil.bench.advise import choosing_cost, conclude
    from edgeveil.bench.audit import AuditPlan

    private = load_graph(
        graph, edges=edges, features=features, labels=labels, split=split, split_seed=split_seed, data_root=data_root,
        default=None if edges else default_graph(data_root),
    )  # fmt: skip
    private = with_default_split(private, split_seed)
    other = None if inference is None else load_graph(inference, data_root=data_root)
    ground = (
        private if choose_on is None else with_default_split(load_graph(choose_on, data_root=data_root), split_seed)
    )
    ground = _with_validation(ground, split_seed)
    plan = AuditPlan(
        defences=("mlp", *(d for d in words(defence) if d not in ("mlp", "none"))), epsilons=tuple(numbers(epsilon)),
        model=model, attacks=(), runs=runs, seed=seed, nodes=nodes, preset=preset,
    )  # fmt: skip
    results, failures = run_plan(plan, ground, None, executor, workers, out)
    if failures:
        raise EdgeveilError("some candidates failed, so no choice is made:\n" + "\n".join(failures))
    advice = choose(results, floor)
    advice.cost = choosing_cost(plan) if choose_on is None else advice.cost
    rows, found = _test(plan, advice, private, other, tuple(words(attack)), executor, workers, out)
    advice.words = conclude(advice, plan, found, choose_on)
    _print(advice)
    if json_file is not None:
        write_json_lines(json_file, rows)


def _with_validation(graph: Graph, split_seed: int) -> Graph:
    """A graph without validation nodes is cut 80:20, disjoint and seeded, as App. G6 does with twitch-ES."""
    if graph.masks is not None and graph.masks.val.any():
        return graph
    from edgeveil.graph.splits import apply_split

    return apply_split(graph, "80:20", split_seed)


def _test(
    plan: AuditPlan, advice: Advice, graph: Graph, other: Graph | None, attacks: tuple[str, ...], executor: str,
    workers: int | None, out: Path,
) -> tuple[list[dict[str, Any]], int]:  # fmt: skip
    """Train the chosen releases on the private graph, attack them, and fill in the test figures."""
    from edgeveil.report.data import summarise

    rows: list[dict[str, Any]] = []
    for i, choice in enumerate(advice.choices):
        final = replace(plan, defences=(choice.defence,), epsilons=(choice.epsilon,), attacks=attacks)
        results, failures = run_plan(final, graph, other, executor, workers, out)
        if failures:
            raise EdgeveilError("the chosen release failed:\n" + "\n".join(failures))
        part = [row for result in results for row in result["rows"]]
        cell = summarise(part)[0]
        advice.choices[i] = replace(choice, utility=cell.utility, leakage=cell.leakage, attack=cell.attack)
        rows += part
    return rows, max((row["n_edges"] or 0 for row in rows), default=10**9)


def _print(advice: Advice) -> None:
    from rich.table import Table

    from edgeveil.bench.advise import rank
    from edgeveil.report.figures import percent

    if math.isnan(advice.floor):
        raise UsageError("no floor: the graph has no validation nodes to score the MLP on; pass --floor or --split")
    table = Table(title=f"smallest epsilon above {advice.floor:.3f} ({advice.floor_is})", title_justify="left")
    for name in ("defence", "epsilon", "validation", "test utility", "edges found", "by", "guarantee"):
        table.add_column(name)
    for c in rank(advice.choices):
        spread = "" if math.isnan(c.spread) else f" ± {c.spread:.3f}"
        shown = "–" if c.utility is None else f"{c.utility:.3f}"
        table.add_row(
            c.defence, f"{c.epsilon:g}", f"{c.validation:.3f}{spread}", shown, percent(c.leakage, 1), c.attack, c.status
        )
    for name in advice.missed:
        table.add_row(name, "none", "below the floor at every epsilon tried", "–", "–", "–", "–")
    screen = console()
    screen.print(table)
    for line in advice.words:
        screen.print(f"• {line}")
