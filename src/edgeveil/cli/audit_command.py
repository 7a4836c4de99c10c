"""``edgeveil audit``: what does a model on this graph give away, and which defence helps?"""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.common import (
    JunitFile,
    Key,
    Knows,
    SettingName,
    Shadow,
    numbers,
    open_release,
    say,
    share,
    words,
    write_json_lines,
)
from edgeveil.cli.method_options import SetOption, named, settings
from edgeveil.cli.option_groups import StudyOptions
from edgeveil.cli.stored_options import StoredOptions
from edgeveil.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from edgeveil.graph.graph import Graph
    from edgeveil.report.audit_data import AuditData
    from edgeveil.report.audit_report import Audit
    from edgeveil.report.gate import Clause

EXAMPLE = """Example: edgeveil audit cora --defence none,mlp,lapgraph,lpgnet-2 --epsilon 2,4,8 --runs 3 --out audit

Own files: edgeveil audit --edges friends.csv --features users.csv --labels classes.csv --out audit"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(audit)


def audit(
    *,
    study: StudyOptions,
    defence: Annotated[str | None, typer.Option(help="Defences to try, comma separated; default: see below.")] = None,
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
    queries: Annotated[int, typer.Option(min=1, help="Query budget of attacks that have one.")] = 100,
    set_: SetOption = None,
    shadow: Shadow = None,
    knows: Knows = None,
    setting: SettingName = None,
    release: Annotated[Path | None, typer.Option(help="Audit this saved release instead of training.")] = None,
    url: Annotated[str | None, typer.Option(help="Audit a live server instead of training.")] = None,
    key: Key = None,
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
    junit: JunitFile = None,
    out: Annotated[Path, typer.Option(help="Folder for report.html, rows.jsonl and audit.json.")] = Path("audit"),
    stored: StoredOptions,
    sample: Annotated[
        int, typer.Option(min=100, help="Nodes that are looked at of a graph whose edges stay in files.")
    ] = 10_000,
) -> None:
    """Train the chosen defences over a grid of epsilon, attack each, compare, and write an HTML report.

    For the owner of the graph: the results are computed from the private edges and are not private themselves.
    """
    from edgeveil.attacks.attack import by_strength
    from edgeveil.audits.audit import AuditPlan
    from edgeveil.audits.inspection import short_inspection
    from edgeveil.cli.foreign_models import check_order, open_model
    from edgeveil.cli.progress import RunProgress
    from edgeveil.cli.truth import in_order_of
    from edgeveil.report.audit_report import audit as run_audit
    from edgeveil.report.gate import check_names

    clauses = read_gate(require, junit)
    defences, attacks = named(defence), words(attack) if attack else list(by_strength())
    if clauses and release is None and url is None and callable_ is None:
        plan = AuditPlan(defences=tuple(defences), epsilons=tuple(numbers(epsilon)))
        check_names(clauses, ((name, at) for name, at, _ in plan.cells()))
    train, existing_part = stored_part(study, stored, release, url or callable_, sample)
    train = study.load() if train is None else train
    for line in short_inspection(train):
        say(line)
    if train.y is not None and train.masks is None:
        say("no train/validation/test masks given: every run draws 50:25:25 (choose with --split)")
    other = study.other(study.inference)
    existing, name = existing_part or open_model(other or train, release, url, key, callable_, model_features)
    names = getattr(existing, "node_ids", None)
    if existing is not None and study.files.edges is not None and names is None:
        check_order(train)
    train = in_order_of(train, names if other is None else None)
    if existing is None and (other or train).num_nodes < study.count:
        few = other or train
        say(f"{few.name} has {few.num_nodes} nodes, fewer than {study.count}: all of them are attacked")
    with ExitStack() as stack:
        progress = stack.enter_context(RunProgress(kept=out))
        if hasattr(existing, "close"):
            stack.callback(existing.close)
        found = run_audit(
            train, target=existing, target_name=name, inference_graph=other, keep=out / "store.sqlite",
            progress=progress, command=command_line(sys.argv[1:]), source=study.words(), tell=say,
            defences=defences, epsilons=numbers(epsilon), attacks=attacks, runs=runs or 1, queries=queries,
            minutes=minutes if runs is None else None, coins=coins, setting=setting, shadow=study.other(shadow),
            knows=share(knows), params=settings(set_, defences, attacks), **study.asked_nodes(), **study.training(),
        )  # fmt: skip
    _show(found, out, study.json_file)
    if exposed is not None:
        found.write_exposed(exposed)
        say(f"which edges are found: {exposed} (readable by you only)")
    for line in found.data.failures:
        say(f"failed: {line}")
    if not hold_gate(found.data, clauses, junit) or found.data.failures:
        raise typer.Exit(1)


def stored_part(
    study: StudyOptions, stored: StoredOptions, release: Path | None, other: str | None, sample: int
) -> tuple[Graph | None, tuple[Any, str] | None]:
    """A sample of a graph whose edges stay in files, and the release audited on it; nothing for other graphs."""
    with stored.opened(study.files, study.node_file, name=study.graph) as graph:
        if graph is None:
            return None, None
        from edgeveil.audits.stored_audit import part_of_release, sampled_graph

        if other is not None or study.inference is not None:
            raise UsageError("--url, --callable and --inference need all edges in memory, but these stay in files")
        size = sample if release is None else study.count
        nodes, part = sampled_graph(graph, size, study.seed)
        say(f"a sample of {len(nodes):,} of {graph.num_nodes:,} nodes, grown from random ones; edges out of it are cut")
        if study.split is not None:
            from edgeveil.graph.splits import apply_split

            part = apply_split(part, study.split, study.split_seed)
        return part, None if release is None else (part_of_release(open_release(release), nodes), str(release))


def read_gate(require: str | None, junit: Path | None) -> list[Clause]:
    """The thresholds, read before anything is trained; no file of an earlier gate stays where this one will write."""
    if require is None:
        if junit is not None:
            raise UsageError("--junit says how --require came out; give both")
        return []
    from edgeveil.report.gate import parse_require

    clauses = parse_require(require)
    if junit is not None:
        try:
            junit.parent.mkdir(parents=True, exist_ok=True)
            junit.touch()
            junit.unlink()
        except OSError as error:
            raise UsageError(f"cannot write {junit}: {error.strerror or error}; choose another --junit") from error
    return clauses


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
