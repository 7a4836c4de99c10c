"""``edgeveil release``: train under a defence and keep the result in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from edgeveil.cli.common import (
    Epsilon,
    ModelName,
    NoiseSeed,
    ScalingName,
    SettingName,
    SplitName,
    SplitSeed,
    load_graph,
    remembered,
    say,
)
from edgeveil.cli.method_options import SetOption, settings
from edgeveil.cli.option_groups import GraphOptions, LedgerOptions
from edgeveil.cli.stored_options import StoredOptions
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.defences.stored.stored_job import StoredJob
    from edgeveil.graph.graph import Graph
    from edgeveil.graph.stored.graph_in_files import StoredGraph
    from edgeveil.release.release import Release

EXAMPLE = "Example: edgeveil release cora --defence lapgraph --epsilon 4 --out cora-lapgraph"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(release)


def release(
    *,
    given: GraphOptions,
    out: Annotated[Path, typer.Option(help="New folder for the release.")] = Path("release"),
    defence: Annotated[str, typer.Option(help="none, mlp, edgerand, lapgraph, lpgnet, gp-sound ...")] = "lapgraph",
    epsilon: Epsilon = None,
    model: ModelName = "gcn",
    set_: SetOption = None,
    inference: Annotated[str | None, typer.Option(help="Graph to answer for, if it is another one.")] = None,
    setting: SettingName = None,
    scaling: ScalingName = "auto",
    preset: Annotated[str | None, typer.Option(help="Paper whose hyper-parameters to use.")] = None,
    seed: NoiseSeed = None,
    split: SplitName = None,
    split_seed: SplitSeed = 0,
    record_in: LedgerOptions,
    stored: StoredOptions,
) -> None:
    """Train one model under one defence and save what may be published, with its guarantee.

    Making another release of the same graph spends its epsilon again. A folder made without a defence contains the
    private graph.
    """
    if (out / "manifest.json").exists():
        raise UsageError(f"{out} already holds a release; a new one spends epsilon again, so choose another --out")
    options: dict[str, Any] = settings(set_, [defence]).get(defence, {})
    needs_all = {"--inference": inference, "--setting": setting, "--preset": preset}
    asked = {"epsilon": epsilon, "seed": seed, "scaling": scaling, **record_in.asked(), **options}
    check = partial(check_for_files, defence, epsilon, options, needs_all)
    if from_files(given, stored, defence, out, asked, (split, split_seed), check):
        return
    secret = given.load(split=split, split_seed=split_seed)
    other = None if inference is None else load_graph(inference, data_root=given.data_root)
    from edgeveil.audits.audit import with_default_split
    from edgeveil.defences.defend import defend

    secret = secret if other is not None else with_default_split(secret, split_seed)
    options |= {} if preset is None else {"preset": preset}
    with remembered(record_in.ledger, out):
        made = defend(
            secret, defence, epsilon=epsilon, model=model, seed=seed, inference_graph=other, setting=setting,
            scaling=scaling, **record_in.asked(), **options,
        )  # fmt: skip
        made.save(out)
    for note in made.notes:
        say(f"note: {note}")
    say(f"features: scaling {made.scaling}")
    _say_utility(made, other or secret)
    say(made.guarantee.statement())
    typer.echo(f"{out}: {made!r}")


def _split(graph: StoredGraph, split: str | None, seed: int) -> StoredGraph:
    """The graph with the split that is asked for, its own, or the default one."""
    from edgeveil.audits.audit import with_default_split
    from edgeveil.graph.splits import apply_split

    nodes = graph.nodes
    return graph.with_nodes(with_default_split(nodes, seed) if split is None else apply_split(nodes, split, seed))


def check_for_files(
    defence: str, epsilon: float | None, options: dict[str, Any], needs_all: dict[str, str | None]
) -> None:
    """Refuse what a release from files cannot have."""
    from edgeveil.defences.defence import Defence
    from edgeveil.defences.defend import make_defence

    wrong = next((name for name, value in needs_all.items() if value is not None), None)
    if wrong is not None:
        raise UsageError(f"{wrong} needs all edges in memory, but these stay in files; drop it")
    chosen = make_defence(defence, epsilon, **options)
    if type(chosen).release_stored is Defence.release_stored:
        chosen.release_stored(cast("StoredJob", None))  # says what to use instead


def from_files(
    given: GraphOptions, stored: StoredOptions, defence: str, out: Path, asked: dict[str, Any],
    split: tuple[str | None, int], check: Callable[[], None],
) -> bool:  # fmt: skip
    """Make the release if the edges stay in files; after a crash the same command goes on with the same answers."""
    work = out.with_name(f".{out.name}-work")
    with stored.opened(given.files, given.nodes, name=given.graph, work=work, check=check) as graph:
        if graph is None:
            return False
        with remembered(asked["ledger"], out):
            _release_stored(_split(graph, *split), defence, out, asked)
    if stored.work is None:
        shutil.rmtree(work)
    return True


def _release_stored(graph: StoredGraph, defence: str, out: Path, asked: dict[str, Any]) -> None:
    from edgeveil.audits.stored_audit import stored_utility
    from edgeveil.defences.stored.defend_stored import defend_stored

    with defend_stored(graph, defence, **asked) as made:
        made.save(out)
        for note in made.notes:
            say(f"note: {note}")
        judged = stored_utility(made, graph)
        if judged is not None:
            say(f"accuracy on {judged[1]:,} test nodes {judged[0]:.3f} (for the owner: not private)")
        say(made.guarantee.statement())
        typer.echo(f"{out}: {made!r}")


def _say_utility(made: Release, graph: Graph) -> None:
    """How useful the release is, and on which nodes that was measured. For the owner: not private."""
    from edgeveil.audits.gains import MIN_TEST
    from edgeveil.metrics.node_scores import imbalanced
    from edgeveil.metrics.utility import default_metric

    if graph.y is None or (graph.masks is not None and not graph.masks.test.any()):
        say("no labelled test node, so no utility")
        return
    parts = ("train", "val", "test")
    counts = "" if graph.masks is None else ", ".join(f"{int(getattr(graph.masks, p).sum()):,} {p}" for p in parts)
    skewed = not graph.multilabel and imbalanced(graph.y)
    metric = "macro_f1" if skewed else default_metric(graph.num_classes, multilabel=graph.multilabel)
    found = made.utility("test")
    few = f"; {found['nodes']} test nodes are too few to judge by" if found["nodes"] < MIN_TEST else ""
    drawn = f"split {graph.split or 'given'} ({counts} nodes); " if counts else ""
    say(f"{drawn}{metric} on test nodes {found[metric]:.3f} (for the owner: not private){few}")
