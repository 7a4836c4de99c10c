"""``edgeveil audit``: what does a model on this graph give away, and which defence helps?"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    load_graph,
    numbers,
    say,
    words,
    write_json_lines,
)
from edgeveil.errors import EdgeveilError, MissingExtra, UsageError

if TYPE_CHECKING:
    from edgeveil.bench.audit import AuditPlan
    from edgeveil.bench.tasks import Outcome
    from edgeveil.graph.graph import Graph
    from edgeveil.report.data import AuditData

EXAMPLE = """Example: edgeveil audit cora --defence none,mlp,lapgraph,lpgnet-2 --epsilon 2,4,8 --runs 3 --out audit

Own files: edgeveil audit --edges friends.csv --features users.csv --labels classes.csv --out audit"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(audit)


def audit(
    graph: GraphName = None,
    defence: Annotated[str, typer.Option(help="Defences to try, comma separated.")] = (
        "none,mlp,edgerand,lapgraph,lpgnet-1,lpgnet-2,gp-t"
    ),
    model: Annotated[str, typer.Option(help="gcn, gat, gatv2, sage, graphconv or transformer.")] = "gcn",
    epsilon: Annotated[str, typer.Option(help="Privacy budgets for one undirected edge, comma separated.")] = "1,2,4,8",
    attack: Annotated[str, typer.Option(help="Attacks, comma separated.")] = (
        "linkteller,linkteller-grouped,lsa2-post,lsa2-attr"
    ),
    runs: Annotated[int, typer.Option(min=1, help="Repetitions with other seeds.")] = 1,
    seed: SeedOption = 0,
    nodes: Annotated[int, typer.Option(min=2, help="Attacked nodes; all pairs among them are guessed.")] = 500,
    queries: Annotated[int, typer.Option(min=1, help="Query budget of linkteller-grouped.")] = 100,
    preset: Annotated[
        str, typer.Option(help="Hyper-parameters: default, linkteller, lpgnet, graphprivatizer.")
    ] = "default",
    inference: Annotated[str | None, typer.Option(help="Another graph to answer for and attack (inductive).")] = None,
    setting: Annotated[
        str | None, typer.Option(help="transductive, inductive-different or inductive-evolving.")
    ] = None,
    edges: Edges = None,
    features: Features = None,
    labels: Labels = None,
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
    out: Annotated[Path, typer.Option(help="Folder for report.html, rows.jsonl and audit.json.")] = Path("audit"),
    json_file: Json = None,
    executor: Annotated[str, typer.Option(help="serial, processes or ray.")] = "processes",
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per core.")] = None,
) -> None:
    """Train the chosen defences over a grid of epsilon, attack each, compare, and write an HTML report.

    For the owner of the graph: the results are computed from the private edges and are not private themselves.
    """
    from edgeveil.bench.audit import AuditPlan

    default = None if edges else default_graph(data_root)
    train = load_graph(
        graph, edges=edges, features=features, labels=labels, split=split, split_seed=split_seed, data_root=data_root,
        default=default,
    )  # fmt: skip
    train = with_default_split(train, split_seed)
    plan = AuditPlan(
        defences=tuple(words(defence)), epsilons=tuple(numbers(epsilon)), model=model, attacks=tuple(words(attack)),
        runs=runs, seed=seed, nodes=nodes, queries=queries, preset=preset, setting=setting,
    )  # fmt: skip
    existing = [option for option in (release, url, callable_) if option is not None]
    if len(existing) > 1:
        raise UsageError("give one of --release, --url and --callable")
    other = None if inference is None else load_graph(inference, data_root=data_root)
    started = time.perf_counter()
    failures: list[str] = []
    verified: list[dict[str, Any]] = []
    if existing:
        from edgeveil.cli.existing import audit_existing

        results = audit_existing(plan, other or train, release, url, key, callable_, model_features)
    else:
        results, failures = run_plan(plan, train, other, executor, workers, out)
        verified = _verify(plan)
    if not results:
        raise EdgeveilError("every part of the audit failed:\n" + "\n".join(failures))
    data = _collect(plan, other or train, results, failures, verified, time.perf_counter() - started)
    _show(data, out, json_file)
    if exposed is not None:
        from edgeveil.bench.exposed import write_exposed

        write_exposed(exposed, other or train, results)
        say(f"which edges are found: {exposed} (readable by you only)")
    if failures:
        for line in failures:
            say(f"failed: {line}")
        raise typer.Exit(1)


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


def with_default_split(graph: Graph, split_seed: int) -> Graph:
    """Own graphs come without masks: half of the labelled nodes train, a quarter each validates and tests."""
    if graph.y is None or graph.masks is not None:
        return graph
    from edgeveil.graph.splits import apply_split

    say("no train/validation/test masks given: drawing 50:25:25 (choose with --split)")
    return apply_split(graph, "50:25:25", split_seed)


def run_plan(
    plan: AuditPlan, graph: Graph, inference: Graph | None, executor: str, workers: int | None, out: Path
) -> tuple[list[dict[str, Any]], list[str]]:
    """Train and attack what is not finished, with progress on standard error; results and failures."""
    from edgeveil.bench.audit import run_audit
    from edgeveil.bench.executors import make_executor
    from edgeveil.cli.progress import RunProgress

    attacked = inference or graph
    if attacked.num_nodes < plan.nodes:
        say(f"{attacked.name} has {attacked.num_nodes} nodes, fewer than {plan.nodes}: all of them are attacked")
    started = time.perf_counter()
    with RunProgress() as bar:

        def step(outcome: Outcome | None, done: int, total: int) -> None:
            if outcome is None:
                bar.begin(total, done)
            else:
                bar.advance(outcome, (time.perf_counter() - started) / done * (total - done))

        return run_audit(plan, graph, inference, make_executor(executor, workers), out / ".cells.jsonl", progress=step)


def _verify(plan: AuditPlan) -> list[dict[str, Any]]:
    from edgeveil.bench.verified import verify_plan

    return verify_plan(plan.defences, plan.epsilons, plan.seed)


def _collect(
    plan: AuditPlan, graph: Graph, results: list[dict[str, Any]], failures: list[str],
    verified: list[dict[str, Any]], seconds: float,
) -> AuditData:  # fmt: skip
    from edgeveil.report.collect import collect, versions

    attacked = min(plan.nodes, graph.num_nodes)
    settings = {
        "nodes": attacked,
        "summary": f"{plan.runs} run{'s' if plan.runs > 1 else ''}, {attacked} nodes attacked, seed {plan.seed}",
        "method": (
            f"Each defence trained a {plan.model.upper()} (or its own model) with the {plan.preset} hyper-parameters, "
            "which are small so that an audit takes minutes. All pairs among the attacked nodes were scored by every "
            "attack and compared with the true edges; LinkTeller was computed exactly from the model, which gives the "
            "scores that one query per node would give. Seeded noise: reproducible, not private."
        ),
        "command": shlex.join(["edgeveil", *sys.argv[1:]]),
        "versions": versions(),
        "seconds": seconds,
    }
    return collect(graph, results, settings=settings, failures=failures, verified=verified)


def _show(data: AuditData, out: Path, json_file: Path | None) -> None:
    from edgeveil.report.data import write_audit
    from edgeveil.report.terminal import print_audit

    write_json_lines(out / "rows.jsonl", data.rows)
    if json_file is not None:
        write_json_lines(json_file, data.rows)
    write_audit(data, out / "audit.json")
    print_audit(data)
    try:
        from edgeveil.report.page import write_report

        say(f"report: {write_report(data, out / 'report.html').resolve()}")
    except MissingExtra as error:
        say(f"no HTML report: {error}")
