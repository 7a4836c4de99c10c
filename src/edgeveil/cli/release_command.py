"""``edgeveil release``: train under a defence and keep the result in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.common import (
    DataRoot,
    Delimiter,
    Edges,
    EdgeSetName,
    Features,
    GraphName,
    Header,
    IdColumn,
    LabelColumn,
    Labels,
    LedgerFile,
    ModelName,
    NodeFile,
    ScalingName,
    Source,
    SplitName,
    SplitSeed,
    Target,
    TenantName,
    load_graph,
    remembered,
    say,
)
from edgeveil.cli.method_options import SetOption, settings
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.graph.graph import Graph
    from edgeveil.release.release import Release

EXAMPLE = "Example: edgeveil release cora --defence lapgraph --epsilon 4 --out cora-lapgraph"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(release)


def release(
    graph: GraphName = None,
    out: Annotated[Path, typer.Option(help="New folder for the release.")] = Path("release"),
    defence: Annotated[str, typer.Option(help="none, mlp, edgerand, lapgraph, lpgnet, gp-sound ...")] = "lapgraph",
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget for one undirected edge.")] = None,
    model: ModelName = "gcn",
    set_: SetOption = None,
    inference: Annotated[str | None, typer.Option(help="Graph to answer for, if it is another one.")] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            help="transductive, inductive (both graphs pay), inductive-different (you assert: no common edge) or "
            "inductive-evolving (you assert: the graph grows)."
        ),
    ] = None,
    scaling: ScalingName = "auto",
    preset: Annotated[str | None, typer.Option(help="Paper whose hyper-parameters to use.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="For experiments only: reproducible noise is not private. Default: secure noise.")
    ] = None,
    split: SplitName = None,
    split_seed: SplitSeed = 0,
    edges: Edges = None,
    header: Header = None,
    features: Features = None,
    labels: Labels = None,
    id_column: IdColumn = None,
    source: Source = None,
    target: Target = None,
    label_column: LabelColumn = None,
    delimiter: Delimiter = None,
    nodes: NodeFile = None,
    ledger: LedgerFile = None,
    edge_set: EdgeSetName = None,
    tenant: TenantName = "owner",
    data_root: DataRoot = None,
) -> None:
    """Train one model under one defence and save what may be published, with its guarantee.

    Making another release of the same graph spends its epsilon again. A folder made without a defence contains the
    private graph.
    """
    if (out / "manifest.json").exists():
        raise UsageError(f"{out} already holds a release; a new one spends epsilon again, so choose another --out")
    secret = load_graph(
        graph, edges=edges, features=features, labels=labels, nodes=nodes, header=header, split=split,
        split_seed=split_seed, data_root=data_root,
        columns={"id_column": id_column, "source": source, "target": target, "label_column": label_column,
                 "delimiter": delimiter},
    )  # fmt: skip
    other = None if inference is None else load_graph(inference, data_root=data_root)
    from edgeveil.audits.audit import with_default_split
    from edgeveil.defences.defend import defend

    secret = secret if other is not None else with_default_split(secret, split_seed)
    options: dict[str, Any] = settings(set_, [defence]).get(defence, {})
    options |= {} if preset is None else {"preset": preset}
    with remembered(ledger, out):
        made = defend(
            secret, defence, epsilon=epsilon, model=model, seed=seed, inference_graph=other, setting=setting,
            ledger=ledger, edge_set=edge_set, tenant=tenant, scaling=scaling, **options,
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
