"""``edgeveil release``: train under a defence and keep the result in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.graph.graph import Graph
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
) -> None:
    """Train one model under one defence and save what may be published, with its guarantee.

    Making another release of the same graph spends its epsilon again. A folder made without a defence contains the
    private graph.
    """
    if (out / "manifest.json").exists():
        raise UsageError(f"{out} already holds a release; a new one spends epsilon again, so choose another --out")
    secret = given.load(split=split, split_seed=split_seed)
    other = None if inference is None else load_graph(inference, data_root=given.data_root)
    from edgeveil.audits.audit import with_default_split
    from edgeveil.defences.defend import defend

    secret = secret if other is not None else with_default_split(secret, split_seed)
    options: dict[str, Any] = settings(set_, [defence]).get(defence, {})
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


def _say_utility(made: Release, graph: Graph) -> None:
    """How useful the release is, and on which nodes that was measured. For the owner: not private."""
    from edgeveil.metrics.utility import default_metric

    if graph.y is None or (graph.masks is not None and not graph.masks.test.any()):
        say("no labelled test node, so no utility")
        return
    parts = ("train", "val", "test")
    counts = "" if graph.masks is None else ", ".join(f"{int(getattr(graph.masks, p).sum()):,} {p}" for p in parts)
    metric = default_metric(graph.num_classes, multilabel=graph.multilabel)
    value = made.utility("test")[metric]
    drawn = f"split {graph.split or 'given'} ({counts} nodes); " if counts else ""
    say(f"{drawn}{metric} on test nodes {value:.3f} (for the owner: not private)")
