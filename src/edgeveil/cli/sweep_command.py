"""``edgeveil sweep``: run a plan of many settings, resumable, on this machine or a cluster."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.common import DataRoot, ExecutorName, Json, Workers, load_graph, say
from edgeveil.cli.method_options import SetOption, settings
from edgeveil.cli.progress import RunProgress, duration
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.runs.run_config import RunConfig
    from edgeveil.runs.sweep import Summary

EXAMPLE = """
Example:

  edgeveil sweep plan.toml --out runs/cora

  edgeveil sweep plan.toml --out runs/cora --executor ray --address 10.0.0.5:6379

The plan's fields are described in docs/sweeps.md. Finished runs are never repeated: stop it at any
time and give the same command again.
"""


def register(app: typer.Typer) -> None:
    app.command("sweep", epilog=EXAMPLE)(sweep)


def sweep(
    plan: Annotated[Path | None, typer.Argument(metavar="PLAN.toml", help="Grids of runs; see docs/sweeps.md.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the store and the exported rows.")] = Path("runs"),
    store: Annotated[Path | None, typer.Option(help="The store itself; default: OUT/store.sqlite.")] = None,
    executor: ExecutorName = "processes",
    workers: Workers = None,
    address: Annotated[
        str | None, typer.Option(help="Ray cluster to join; default: start one on this machine.")
    ] = None,
    scaling: Annotated[
        str | None,
        typer.Option(help="How features are scaled, in place of the plan's: auto, row, standard, none or minmax."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            help="Model in place of the plan's: a name, or your own: pkg.module:factory, file.py:factory or pyg:GIN.",
        ),
    ] = None,
    data_root: DataRoot = None,
    export: Annotated[
        list[Path] | None, typer.Option(help="Also export all rows: .jsonl, .csv or .parquet; repeatable.")
    ] = None,
    json_file: Json = None,
    set_: SetOption = None,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Run nothing but the runs that failed before.")
    ] = False,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Accept finished rows of another version of the code.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make a damaged store anew from its log, then stop.")
    ] = False,
) -> None:
    """Run every combination of a plan that the store does not hold yet."""
    from edgeveil.runs.plan import load_plan
    from edgeveil.runs.store import Store
    from edgeveil.runs.store import rebuild as rebuild_store

    path = store or out / "store.sqlite"
    if rebuild:
        print(f"{path}: {rebuild_store(path)} finished runs rebuilt from its log")
        return
    if plan is None:
        raise UsageError("which plan? give a TOML file, for example: edgeveil sweep plan.toml --out runs")
    loaded = load_plan(plan)
    runs = _with(loaded.scaled(scaling).modelled(model).runs(), set_)
    if dry_run:
        from edgeveil.runs.sweep import describe

        for run in runs:
            print(describe(run.to_json()))
        print(f"{len(runs)} runs")
        return
    from edgeveil.runs.executors import make_executor
    from edgeveil.runs.sweep import sweep as run_sweep

    chosen = make_executor(executor, workers, address=address)
    with Store(path) as kept, RunProgress() as progress:
        summary = run_sweep(
            runs, kept, chosen, lambda name: load_graph(name, data_root=data_root), plan=loaded.name,
            any_code=any_code, only_failed=only_failed, progress=progress,
        )  # fmt: skip
        targets = [out / "rows.jsonl", *([json_file] if json_file else []), *(export or [])]
        written = _export(kept, targets)
    print(f"{summary.total} runs: {summary.done} done now, {summary.skipped} before, {len(summary.failures)} failed; "
          f"{written} rows in {path} and {', '.join(map(str, targets))}; {duration(summary.seconds)}")  # fmt: skip
    if summary.failures:
        _list_failures(summary, plan, path, out)
        raise typer.Exit(1)


def _with(runs: list[RunConfig], given: list[str] | None) -> list[RunConfig]:
    """The runs with the parameters of ``--set`` in place of the plan's."""
    defences = list(dict.fromkeys(run.defence for run in runs))
    attacks = list(dict.fromkeys(attack.name for run in runs for attack in run.attacks))
    params = settings(given, defences, attacks)
    return [_replaced(run, params) for run in runs] if params else runs


def _replaced(run: RunConfig, params: Mapping[str, Mapping[str, Any]]) -> RunConfig:
    attacks = tuple(a.model_copy(update={"params": {**a.params, **params.get(a.name, {})}}) for a in run.attacks)
    own = {**run.defence_params, **params.get(run.defence, {})}
    return run.model_copy(update={"defence_params": own, "attacks": attacks})


def _export(store: object, targets: list[Path]) -> int:
    from edgeveil.runs.row_files import export
    from edgeveil.runs.store import Store

    assert isinstance(store, Store)
    rows = list(store.rows())
    for target in targets:
        export(rows, target)
    return len(rows)


def _list_failures(summary: Summary, plan: Path, store: Path, out: Path) -> None:
    for run, (what, reason) in summary.failures.items():
        say(f"failed {run} ({what}): {reason.strip().splitlines()[-1]}")
    command = shlex.join(["edgeveil", "sweep", str(plan), "--out", str(out), "--store", str(store), "--only-failed"])
    say(f"every other row is kept; run only the failed ones again with: {command}")
