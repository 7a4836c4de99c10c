"""``edgeveil advise``: the smallest epsilon, per defence, that is worth using."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeveil.cli.common import Runs, console, numbers, say, words, write_json_lines
from edgeveil.cli.method_options import named
from edgeveil.cli.option_groups import StudyOptions

if TYPE_CHECKING:
    from edgeveil.audits.advise import Advice
    from edgeveil.graph.graph import Graph


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: edgeveil advise cora --defence lapgraph,lpgnet-1 --epsilon 1,2,4,8 --runs 3")(advise)


def advise(
    *,
    study: StudyOptions,
    defence: Annotated[
        str | None, typer.Option(help="Defences to choose among; default: those that advice is on.")
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Candidates, comma separated.")] = "1,2,4,8",
    floor: Annotated[
        float | None, typer.Option(help="Validation utility to beat; default: the better release without edges.")
    ] = None,
    attack: Annotated[
        str | None, typer.Option(help="Attacks on the chosen releases; default: every one that applies.")
    ] = None,
    runs: Runs = 3,
    choose_on: Annotated[
        str | None, typer.Option(help="Choose on this public graph or twin instead of the private one.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for finished parts.")] = Path("advice"),
) -> None:
    """Choose epsilon on validation data (LinkTeller App. G6), then show utility and leakage on test data.

    For the owner of the graph: not private.
    """
    from edgeveil.audits.advise import advise as run_advise
    from edgeveil.cli.progress import RunProgress

    private = with_split(study.load(), study.split_seed)
    with RunProgress(kept=out) as progress:
        advice = run_advise(
            private, floor=floor, choose_on=study.other(choose_on), attacks=None if attack is None else words(attack),
            inference_graph=study.other(study.inference), keep=out / "store.sqlite", progress=progress,
            defences=named(defence, "advised"), epsilons=numbers(epsilon), runs=runs, nodes=study.count,
            **study.training(),
        )  # fmt: skip
    _print(advice)
    if study.json_file is not None:
        write_json_lines(study.json_file, advice.rows)


def _print(advice: Advice) -> None:
    from rich.table import Table

    from edgeveil.audits.advise import rank
    from edgeveil.report.figures import percent
    from edgeveil.report.judged import gain_text

    table = Table(title=f"smallest epsilon above {advice.floor:.3f} ({advice.floor_is})", title_justify="left")
    for name in ("defence", "epsilon", "validation", "points gained", "test utility", "edges found", "by", "guarantee"):
        table.add_column(name)
    for c in rank(advice.choices):
        spread = "" if math.isnan(c.spread) else f" ± {c.spread:.3f}"
        shown = "–" if c.utility is None else f"{c.utility:.3f}"
        table.add_row(
            c.defence,
            f"{c.epsilon:g}",
            f"{c.validation:.3f}{spread}",
            gain_text(c.gain),
            shown,
            percent(c.leakage, 1),
            c.attack,
            c.promise,
        )
    for name in advice.missed:
        table.add_row(name, "none", "not above the floor, beyond the noise", "–", "–", "–", "–", "–")
    screen = console()
    screen.print(table)
    for line in advice.words:
        screen.print(f"• {line}")


def with_split(graph: Graph, split_seed: int) -> Graph:
    """The graph with masks; says so when they had to be drawn."""
    from edgeveil.audits.audit import with_default_split

    ready = with_default_split(graph, split_seed)
    if ready is not graph:
        say("no train/validation/test masks given: drawing 50:25:25 (choose with --split)")
    return ready
