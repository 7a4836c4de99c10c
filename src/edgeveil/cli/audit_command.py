"""``edgeveil audit``: what does a model on this graph give away, and which defence helps?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.common import (
    DataRoot,
    Delimiter,
    Edges,
    ExecutorName,
    Features,
    GraphName,
    Header,
    IdColumn,
    Inference,
    Json,
    LabelColumn,
    Labels,
    ModelName,
    NodesOption,
    PresetName,
    ScalingName,
    SeedOption,
    Source,
    SplitName,
    SplitSeed,
    Target,
    Workers,
    count_and_file,
    load_graph,
    numbers,
    say,
    share,
    words,
    write_json_lines,
)
from edgeveil.cli.method_options import SetOption, named, settings
from edgeveil.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from edgeveil.report.audit_data import AuditData
    from edgeveil.report.audit_report import Audit
    from edgeveil.report.gate import Clause

EXAMPLE = """Example: edgeveil audit cora --defence none,mlp,lapgraph,lpgnet-2 --epsilon 2,4,8 --runs 3 --out audit

Own files: edgeveil audit --edges friends.csv --features users.csv --labels classes.csv --out audit"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(audit)


def audit(
    graph: GraphName = None,
    defence: Annotated[str | None, typer.Option(help="Defences to try, comma separated; default: see below.")] = None,
    model: ModelName = "gcn",
    epsilon: Annotated[str, typer.Option(help="Privacy budgets for one undirected edge, comma separated.")] = "1,2,4,8",
    attack: Annotated[
        str | None,
        typer.Option(help="Attacks, comma separated; default: on every release the strongest ones that apply to it."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Exactly so many runs, all attacked; default: what --minutes allows.")
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(min=0.01, help="Add runs, in up to four looks, until the verdict is decided or this is up."),
    ] = 3.0,
    coins: Annotated[
        int, typer.Option(min=0, help="Planted coins that bound what the strongest attack proves; 0: none.")
    ] = 1000,
    seed: SeedOption = 0,
    nodes: NodesOption = None,
    queries: Annotated[int, typer.Option(min=1, help="Query budget of attacks that have one.")] = 100,
    set_: SetOption = None,
    shadow: Annotated[
        str | None, typer.Option(help="A public graph for attacks that learn from one: a name or graph.npz.")
    ] = None,
    knows: Annotated[
        str | None, typer.Option(help="Share of the true edges that attacks which learn may know, such as 5%.")
    ] = None,
    preset: PresetName = "default",
    scaling: ScalingName = "auto",
    inference: Inference = None,
    setting: Annotated[
        str | None,
        typer.Option(
            help="transductive, inductive (both graphs pay), inductive-different (you assert: no common edge) or "
            "inductive-evolving (you assert: the graph grows)."
        ),
    ] = None,
    edges: Edges = None,
    header: Header = None,
    features: Features = None,
    labels: Labels = None,
    id_column: IdColumn = None,
    source: Source = None,
    target: Target = None,
    label_column: LabelColumn = None,
    delimiter: Delimiter = None,
    split: SplitName = None,
    split_seed: SplitSeed = 0,
    data_root: DataRoot = None,
    release: Annotated[Path | None, typer.Option(help="Audit this saved release instead of training.")] = None,
    url: Annotated[str | None, typer.Option(help="Audit a live server instead of training.")] = None,
    key: Annotated[str | None, typer.Option(envvar="EDGEVEIL_KEY", help="API key for --url.")] = None,
    model_features: Annotated[
        Path | None, typer.Option(help="For --url: features as the server's model sees them: npy, npz, or a release.")
    ] = None,
    callable_: Annotated[
        str | None, typer.Option("--callable", help="Audit a Python function pkg.module:name.")
    ] = None,
    exposed: Annotated[
        Path | None, typer.Option(help="Write which true edges are found, and each node's exposure (mode 0600).")
    ] = None,
    require: Annotated[
        str | None,
        typer.Option(
            help='Exit 1 unless shown, e.g. "leakage<=0.2; utility>=0.7; guarantee=sound" for the recommended release, '
            'or "lpgnet-2@4: leakage<=0.2" for a named one.'
        ),
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write how --require came out as JUnit XML.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for report.html, rows.jsonl and audit.json.")] = Path("audit"),
    json_file: Json = None,
    executor: ExecutorName = "processes",
    workers: Workers = None,
) -> None:
    """Train the chosen defences over a grid of epsilon, attack each, compare, and write an HTML report.

    For the owner of the graph: the results are computed from the private edges and are not private themselves.
    """
    from edgeveil.attacks.attack import by_strength
    from edgeveil.audits.inspection import short_inspection
    from edgeveil.cli.foreign_models import check_order, open_model
    from edgeveil.cli.progress import RunProgress
    from edgeveil.cli.truth import in_order_of
    from edgeveil.report.audit_report import audit as run_audit

    clauses = read_gate(require, junit)
    defences, attacks = named(defence), words(attack) if attack else list(by_strength())
    count, node_file = count_and_file(nodes)
    asked: dict[str, Any] = {"nodes": count} if any(text.isdecimal() for text in nodes or []) else {}
    default = None if edges or node_file else default_graph(data_root)
    train = load_graph(
        graph, edges=edges, features=features, labels=labels, nodes=node_file, header=header, split=split,
        split_seed=split_seed, data_root=data_root, default=default,
        columns={"id_column": id_column, "source": source, "target": target, "label_column": label_column,
                 "delimiter": delimiter},
    )  # fmt: skip
    for line in short_inspection(train):
        say(line)
    if train.y is not None and train.masks is None:
        say("no train/validation/test masks given: every run draws 50:25:25 (choose with --split)")
    other = None if inference is None else load_graph(inference, data_root=data_root)
    public = None if shadow is None else load_graph(shadow, data_root=data_root)
    existing, name = open_model(other or train, release, url, key, callable_, model_features)
    names = getattr(existing, "node_ids", None)
    if existing is not None and edges is not None and names is None:
        check_order(train)
    train = in_order_of(train, names if other is None else None)
    if existing is None and (other or train).num_nodes < count:
        few = other or train
        say(f"{few.name} has {few.num_nodes} nodes, fewer than {count}: all of them are attacked")
    with ExitStack() as stack:
        progress = stack.enter_context(RunProgress(kept=out))
        if hasattr(existing, "close"):
            stack.callback(existing.close)
        found = run_audit(
            train, target=existing, target_name=name, inference_graph=other, executor=executor, workers=workers,
            keep=out / "store.sqlite", progress=progress, command=command_line(sys.argv[1:]),
            defences=defences, epsilons=numbers(epsilon), model=model, attacks=attacks, runs=runs or 1,
            seed=seed, queries=queries, preset=preset, scaling=scaling, setting=setting,
            **asked, split_seed=split_seed, minutes=minutes if runs is None else None, coins=coins, tell=say,
            source=source_words(
                graph or default, header,
                {"--edges": edges, "--features": features, "--labels": labels, "--nodes": node_file,
                 "--id-column": id_column, "--source": source, "--target": target, "--label-column": label_column,
                 "--delimiter": delimiter, "--split": split, "--split-seed": split_seed or None,
                 "--scaling": None if scaling == "auto" else scaling,
                 "--preset": None if preset == "default" else preset, "--data-root": data_root},
            ),
            shadow=public, knows=share(knows), params=settings(set_, defences, attacks),
        )  # fmt: skip
    _show(found, out, json_file)
    if exposed is not None:
        found.write_exposed(exposed)
        say(f"which edges are found: {exposed} (readable by you only)")
    for line in found.data.failures:
        say(f"failed: {line}")
    if not hold_gate(found.data, clauses, junit) or found.data.failures:
        raise typer.Exit(1)


def read_gate(require: str | None, junit: Path | None) -> list[Clause]:
    """The thresholds, read before anything is trained."""
    if require is None:
        if junit is not None:
            raise UsageError("--junit says how --require came out; give both")
        return []
    from edgeveil.report.gate import parse_require

    return parse_require(require)


def hold_gate(data: AuditData, clauses: list[Clause], junit: Path | None) -> bool:
    """Say how every threshold came out; whether all are shown to hold."""
    if not clauses:
        return True
    from edgeveil.report.gate import require

    gate = require(data, clauses)
    if junit is not None:
        gate.write_junit(junit)
    for check in gate.checks:
        say(f"{'ok' if check.outcome == 'holds' else 'FAILED'}: {check.sentence}")
    return gate.passed


def default_graph(data_root: Path | None) -> str:
    """Real Cora if any source here can give it, else its synthetic twin."""
    from edgeveil.errors import DatasetUnavailable
    from edgeveil.graph.datasets import load

    try:
        load("cora", data_root=data_root)
    except DatasetUnavailable:
        say("real Cora is not available here, so the synthetic twin stands in for it")
        return "cora-twin"
    return "cora"


def source_words(graph: str | None, header: bool | None, options: Mapping[str, Any]) -> str:
    """How the next command names the same graph, read and split the same way."""
    named = [] if graph is None else [graph]
    said = [] if header is None else ["--header" if header else "--no-header"]
    given = (word for name, value in options.items() if value is not None for word in (name, str(value)))
    return shlex.join([*named, *given, *said])


def command_line(words: list[str]) -> str:
    """The command as typed, for the report; an API key is a secret and is left out."""
    shown, hide = [], False
    for word in words:
        shown.append("..." if hide else "--key=..." if word.startswith("--key=") else word)
        hide = word == "--key"
    return shlex.join(["edgeveil", *shown])


def _show(found: Audit, out: Path, json_file: Path | None) -> None:
    from edgeveil.report.terminal import print_audit

    if json_file is not None:
        write_json_lines(json_file, found.rows)
    print_audit(found.data)
    for note in found.data.notes:
        say(f"note: {note}")
    try:
        say(f"report: {found.save(out).resolve()}")
    except MissingExtra as error:
        say(f"no HTML report: {error}")
