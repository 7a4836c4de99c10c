"""``edgeveil reproduce``: run a paper's table and set ours beside the printed figures."""

from __future__ import annotations

import re
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeveil.cli.common import DataRoot, ExecutorName, Json, Workers, load_graph, say, words
from edgeveil.cli.progress import RunProgress, duration
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.papers.draw import Drawing
    from edgeveil.papers.recipes import Mode
    from edgeveil.papers.reproduce import TableResult
    from edgeveil.runs.executors import Executor
    from edgeveil.runs.sweep import Loader

EXAMPLE = """
Example:

  edgeveil reproduce --list

  edgeveil reproduce linkteller:I --quick

  edgeveil reproduce lpgnet:7 --full --cells table7.csv

  edgeveil reproduce linkteller:II --model pyg:GIN

  edgeveil reproduce graphprivatizer --budget 2h
"""


def register(app: typer.Typer) -> None:
    app.command("reproduce", epilog=EXAMPLE)(reproduce)


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER:TABLE", help="linkteller:I, lpgnet:7, graphprivatizer:6 ...; with --budget also a paper."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few seeds and a part of the cells: minutes.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's number of runs.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Tables: printed, measured, agreeing, time left.")] = False,
    variant: Annotated[str, typer.Option(help="published, correct or both.")] = "both",
    dataset: Annotated[str | None, typer.Option(help="Only the cells of these datasets (comma separated).")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            help="Another model in place of the paper's: a name, or your own: pkg.module:factory, file.py:factory, "
            "pyg:GIN. Its figures stand beside the printed ones and are not judged.",
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds, instead of the mode's.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the store of runs; tables share it.")] = Path("runs"),
    store: Annotated[Path | None, typer.Option(help="The store itself; default: OUT/reproduce.sqlite.")] = None,
    executor: ExecutorName = "processes",
    workers: Workers = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster to join.")] = None,
    data_root: DataRoot = None,
    cells: Annotated[Path | None, typer.Option(help="Also write the comparison, cell by cell, as CSV.")] = None,
    json_file: Json = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Spend this long (2h, 90min) on the runs that decide most figures of a table or paper per hour."
        ),
    ] = None,
    twins: Annotated[
        bool,
        typer.Option("--twins", help="Run cells whose graph no source has on a synthetic twin: shown, not counted."),
    ] = False,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Accept finished runs of another version of the code.")
    ] = False,
) -> None:
    """Run the cells of a printed table and say which of them agree."""
    if quick and full:
        raise UsageError("--quick and --full exclude each other; leave both out for the default")
    if list_all:
        _list(workers)
        return
    if table is None:
        raise UsageError(
            "which table? for example edgeveil reproduce linkteller:I --quick; see edgeveil reproduce --list"
        )
    variants = {"both": ("published", "correct"), "published": ("published",), "correct": ("correct",)}.get(variant)
    if variants is None:
        raise UsageError(f"unknown variant {variant!r}; use published, correct or both")
    from edgeveil.papers.draw import draw_figure, find_figure
    from edgeveil.papers.render import text
    from edgeveil.papers.reproduce import reproduce as run_table
    from edgeveil.runs.executors import make_executor
    from edgeveil.runs.store import Store

    load = cache(lambda name: load_graph(name, data_root=data_root))
    work = make_executor(executor, workers, address=address)
    if budget is not None:
        given: dict[str, object] = {
            "--quick": quick,
            "--full": full,
            "--twins": twins,
            "--variant": variant != "both",
            "--any-code": any_code,
        }
        given |= {"--dataset": dataset, "--model": model, "--seeds": seeds, "--cells": cells, "--json": json_file}
        if useless := [name for name, value in given.items() if value]:
            raise UsageError(f"--budget chooses the runs itself; leave out {', '.join(useless)}")
        _spend(table, store or out / "reproduce.sqlite", work, load, seconds_of(budget))
        return
    mode: Mode = "quick" if quick else "full" if full else "default"
    figure = find_figure(table)
    wanted = {word.lower().replace("_", "-") for word in words(dataset)} if dataset else None
    with Store(store or out / "reproduce.sqlite") as kept, RunProgress() as progress:
        if figure is not None:
            drawing = draw_figure(
                *figure, kept, work, load, mode=mode, seeds=seeds,
                model=model, any_code=any_code, progress=progress,
            )  # fmt: skip
            _draw(drawing, out)
            return
        result = run_table(
            table, kept, work, load, mode=mode, variants=variants,
            seeds=seeds, keep=None if wanted is None else lambda cell: cell.published.dataset in wanted,
            model=model, twins=twins, any_code=any_code, progress=progress,
        )  # fmt: skip
    _write(result, cells, json_file)
    print(text(result))
    for run, (what, reason) in result.summary.failures.items():
        say(f"failed {run} ({what}): {reason.strip().splitlines()[-1]}")


def _draw(drawing: Drawing, out: Path) -> None:
    from edgeveil.papers.draw import series_text
    from edgeveil.report.series import write_drawing

    print(series_text(drawing))
    name = re.sub(r"[^\w.()-]+", "-", drawing.name)
    path = out / f"{name}.svg"
    write_drawing(drawing, path)
    print(f"drawn in {path}")


def _write(result: TableResult, cells: Path | None, json_file: Path | None) -> None:
    if cells is not None:
        from edgeveil.papers.render import cell_rows
        from edgeveil.runs.row_files import write_table

        write_table(cell_rows(result), cells)
    if json_file is not None:
        from edgeveil.runs.row_files import export

        export(result.rows, json_file)


def _list(workers: int | None) -> None:
    """Every table and figure; a table that cannot be run says why."""
    from edgeveil.models.kernels.threads import available
    from edgeveil.papers.listing import lines

    cores = workers or available()
    for line in lines(cores, duration):
        print(line, flush=True)
    print(
        "measured, agree: by the samples kept in this package (docs/fidelity.md); left: up to the default seeds.\n"
        f"Times are for {cores} core(s) of this machine; runs that tables share are done once and counted in each."
    )


def _spend(name: str, path: Path, executor: Executor, load: Loader, seconds: float) -> None:
    from edgeveil.papers.run_budget import spend
    from edgeveil.runs.store import Store

    started = time.monotonic()
    with Store(path) as kept, RunProgress() as progress:
        spent = spend(name, kept, executor, load, seconds, progress=progress)
    took = duration(time.monotonic() - started)
    how = "nothing telling is left" if spent.finished else "run the same command again to go on"
    print(
        f"{spent.runs} runs in {took}; measured figures: {spent.before} before, {spent.after} now; {how}.\n"
        f"Finished runs are in {path}; python scripts/fidelity.py add {path} keeps them in the package."
    )
    for run, (what, reason) in spent.failures.items():
        say(f"failed {run} ({what}): {reason.strip().splitlines()[-1]}")


def seconds_of(text: str) -> float:
    """``2h``, ``90min``, ``45 m`` or ``600s`` in seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(h|min|m|s)\s*", text.lower())
    if found is None or not float(found[1]) > 0:
        raise UsageError(f"--budget {text!r} is no length of time; write 2h, 90min or 600s")
    return float(found[1]) * {"h": 3600, "min": 60, "m": 60, "s": 1}[found[2]]
