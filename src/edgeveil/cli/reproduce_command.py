"""``edgeveil reproduce``: run a paper's table and set ours beside the printed figures."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeveil.cli.common import DataRoot, Json, load_graph, say, words
from edgeveil.cli.progress import RunProgress, duration
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.papers.draw import Drawing
    from edgeveil.papers.recipes import Mode
    from edgeveil.papers.reproduce import TableResult
    from edgeveil.runs.run_config import RunConfig

MODES: tuple[Mode, ...] = ("quick", "default", "full")
EXAMPLE = """
Example:

  edgeveil reproduce --list

  edgeveil reproduce linkteller:I --quick

  edgeveil reproduce lpgnet:7 --full --cells table7.csv

  edgeveil reproduce linkteller:II --model pyg:GIN
"""


def register(app: typer.Typer) -> None:
    app.command("reproduce", epilog=EXAMPLE)(reproduce)


def reproduce(
    table: Annotated[
        str | None, typer.Argument(metavar="PAPER:TABLE", help="linkteller:I, lpgnet:7, graphprivatizer:6 ...")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few seeds and a part of the cells: minutes.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's number of runs.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Tables, cells and estimated time on this machine.")] = False,
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
    executor: Annotated[str, typer.Option(help="serial, processes or ray.")] = "processes",
    workers: Annotated[int | None, typer.Option(help="Parallel workers; default: one per core.")] = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster to join.")] = None,
    data_root: DataRoot = None,
    cells: Annotated[Path | None, typer.Option(help="Also write the comparison, cell by cell, as CSV.")] = None,
    json_file: Json = None,
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

    mode: Mode = "quick" if quick else "full" if full else "default"
    figure = find_figure(table)
    wanted = {word.lower().replace("_", "-") for word in words(dataset)} if dataset else None
    load = cache(lambda name: load_graph(name, data_root=data_root))
    with Store(store or out / "reproduce.sqlite") as kept, RunProgress() as progress:
        if figure is not None:
            drawing = draw_figure(
                *figure, kept, make_executor(executor, workers, address=address), load, mode=mode, seeds=seeds,
                model=model, any_code=any_code, progress=progress,
            )  # fmt: skip
            _draw(drawing, out)
            return
        result = run_table(
            table, kept, make_executor(executor, workers, address=address), load, mode=mode, variants=variants,
            seeds=seeds, keep=None if wanted is None else lambda cell: cell.published.dataset in wanted,
            model=model, any_code=any_code, progress=progress,
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
    """Every table and figure with its runs and estimated time per mode; a table that cannot be run says why."""
    from edgeveil.models.kernels.threads import available
    from edgeveil.papers.books import BOOKS
    from edgeveil.papers.draw import figure_runs
    from edgeveil.papers.figure_recipes import FIGURES
    from edgeveil.papers.reproduce import needed

    cores = workers or available()
    print(f"{'table':<24}{'figures':>8}" + "".join(f"{f'{mode}: runs':>16}{'time':>8}" for mode in MODES))
    for book in BOOKS.values():
        for name in book.tables():
            every = list(book.cells(name, "full"))
            line = f"{f'{book.name}:{name}':<24}{len(every):>8}"
            for mode in MODES:
                cells = every if mode != "quick" else book.cells(name, mode)
                base = needed((cell for cell in cells if not cell.why), 1, ("published", "correct"))
                line += _cost(base, book.seeds(name, mode), cores)
            reasons = {cell.why for cell in every}
            print(line + (f"  cannot be run: {min(reasons)}" if "" not in reasons else ""), flush=True)
        for figure, (what, _) in FIGURES[book.name].items():
            costs = (_cost(*figure_runs(book.name, figure, mode), cores) for mode in MODES)
            print(f"{f'{book.name}:{figure}':<24}{'drawn':>8}{''.join(costs)}  {what}", flush=True)
    print(f"Times are for {cores} core(s) of this machine; runs that tables share are done once and counted in each.")


def _cost(runs: list[RunConfig], seeds: int, cores: int) -> str:
    from edgeveil.runs.costs import estimate, speed

    time = duration(estimate(runs) * seeds * speed() / cores) if runs else "-"
    return f"{len(runs) * seeds:>16}{time:>8}"
