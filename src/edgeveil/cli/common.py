"""What every command shares: how a graph is named, how lists are written, how rows and errors come out."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from edgeveil.errors import StorageError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from edgeveil.graph.graph import Graph
    from edgeveil.release.release import Release

__all__ = [
    "AsJsonLines",
    "DataRoot",
    "Delimiter",
    "EdgeSetName",
    "Edges",
    "Epsilon",
    "ExecutorName",
    "Features",
    "GraphName",
    "Header",
    "IdColumn",
    "Inference",
    "Json",
    "JunitFile",
    "Key",
    "Knows",
    "LabelColumn",
    "Labels",
    "LedgerFile",
    "ModelName",
    "NodeFile",
    "NodesOption",
    "NoiseSeed",
    "PresetName",
    "Runs",
    "ScalingName",
    "SeedOption",
    "SettingName",
    "Shadow",
    "Source",
    "SplitName",
    "SplitSeed",
    "Target",
    "TenantName",
    "Workers",
    "console",
    "count_and_file",
    "load_graph",
    "numbers",
    "open_release",
    "remembered",
    "say",
    "share",
    "words",
    "write_json_lines",
]

GraphName = Annotated[
    str | None,
    typer.Argument(metavar="GRAPH", help="Dataset name, a folder or file in graph.npz format, or own files below."),
]
Edges = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|FOLDER|URL",
        help="Own edge list, any node ids: csv, tsv or parquet; or a folder or fsspec address of parquet files.",
    ),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line of --edges names its columns; default: found."),
]
Features = Annotated[str | None, typer.Option(metavar="FILE", help="Own features: npz, npy, csv or parquet.")]
Labels = Annotated[str | None, typer.Option(metavar="FILE", help="Own labels: csv or parquet with node id and class.")]
NodeFile = Annotated[Path | None, typer.Option("--nodes", help="Own list of all nodes: one id per line.")]
IdColumn = Annotated[str | None, typer.Option(help="Column with node ids in --features, --labels, --nodes.")]
Source = Annotated[str | None, typer.Option(help="Column of --edges with one end; a name, or a number from 1.")]
Target = Annotated[str | None, typer.Option(help="Column of --edges with the other end.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column of --labels with the class.")]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates cells in own files; default: found. Also tab, semicolon, space.")
]
DataRoot = Annotated[
    Path | None,
    typer.Option(exists=True, file_okay=False, help="Folder with <name>/graph.npz files, searched first."),
]
SplitName = Annotated[
    str | None, typer.Option(help="public, 50:25:25, 20-per-class, 64:16:20, 0..9 ...; default: the dataset's own.")
]
LedgerFile = Annotated[
    str | None, typer.Option(metavar="FILE|URL", help="Record the spend in this privacy ledger; refused beyond a cap.")
]
EdgeSetName = Annotated[str | None, typer.Option(help="Name of these edges in the ledger; default: the graph's name.")]
TenantName = Annotated[str, typer.Option(help="Who is told, for the ledger.")]
SplitSeed = Annotated[int, typer.Option(help="Seed of a drawn split.")]
SeedOption = Annotated[
    int, typer.Option(help="Seed of everything random; the noise is then reproducible, not private.")
]
NoiseSeed = Annotated[
    int | None, typer.Option(help="For experiments only: reproducible noise is not private. Default: secure noise.")
]
Epsilon = Annotated[float | None, typer.Option(help="Privacy budget for one undirected edge.")]
SettingName = Annotated[
    str | None,
    typer.Option(
        help="transductive, inductive (both graphs pay), inductive-different (you assert: no common edge) or "
        "inductive-evolving (you assert: the graph grows)."
    ),
]
Shadow = Annotated[
    str | None, typer.Option(help="A public graph for attacks that learn from one: a name or graph.npz.")
]
Knows = Annotated[
    str | None, typer.Option(help="Share of the true edges that attacks which learn may know, such as 5%.")
]
Key = Annotated[str | None, typer.Option(envvar="EDGEVEIL_KEY", help="API key for --url.")]
ModelName = Annotated[
    str,
    typer.Option(
        metavar="NAME|PATH",
        help="gcn, gat, gatv2, sage, graphconv or transformer; or your own torch module: pkg.module:factory, "
        "file.py:factory, pyg:GIN (factory takes the numbers of features and classes).",
    ),
]
Runs = Annotated[int, typer.Option(min=1, help="Repetitions with other seeds.")]
NodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--nodes",
        metavar="N|FILE",
        help="How many nodes are attacked, all pairs among them (default 500, in audits more where edges are rare); or "
        "a file that lists all nodes of --edges, one id per line. Give it twice for both.",
    ),
]
PresetName = Annotated[str, typer.Option(help="Hyper-parameters: default, linkteller, lpgnet, graphprivatizer.")]
ScalingName = Annotated[
    str,
    typer.Option(
        "--scaling",
        help="How features are scaled: auto (a paper's dataset as in the paper; own data: by row if they are sparse "
        "bags of words, else standardised), row, standard, none or minmax.",
    ),
]
Inference = Annotated[str | None, typer.Option(help="Another graph to answer for and attack (inductive).")]
ExecutorName = Annotated[str, typer.Option(help="serial, processes or ray.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per core.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the rows as JSON Lines to this file.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
JunitFile = Annotated[Path | None, typer.Option(help="Write how --require came out as JUnit XML.")]


def console() -> Console:
    """Rich console on standard output; plain lines when it is not a terminal."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=not terminal, width=None if terminal else 160)


def say(message: str) -> None:
    """A remark for people, on standard error, so that standard output stays data."""
    print(message, file=sys.stderr, flush=True)


def words(text: str) -> list[str]:
    """``"a,b"`` as a list; empty parts are dropped."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"expected a comma-separated list, got {text!r}")
    return parts


def share(text: str | None) -> float:
    """``5%`` or ``0.05`` as a share below one; nothing is 0."""
    if text is None:
        return 0.0
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a share; write 5% or 0.05") from error
    if not 0 < value < 1:
        raise UsageError(f"a share lies between 0 and 1 (0% and 100%), got {text!r}")
    return value


def numbers(text: str) -> list[float]:
    """``"1,2,4"`` as numbers; ``inf`` is allowed, NaN is not."""
    values = []
    for part in words(text):
        try:
            value = float(part)
        except ValueError as error:
            raise UsageError(f"{part!r} is not a number; write a list such as 1,2,4,8") from error
        if math.isnan(value):
            raise UsageError("NaN is not a usable number; write a list such as 1,2,4,8")
        values.append(value)
    return values


def load_graph(
    name: str | None,
    *,
    edges: str | Path | None = None,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    nodes: Path | None = None,
    header: bool | None = None,
    split: str | None = None,
    split_seed: int = 0,
    data_root: Path | None = None,
    columns: Mapping[str, str | None] | None = None,
    quiet: bool = False,
) -> Graph:
    """The graph a command line means: own files, a graph.npz, or a dataset by name. Unreadable files are bad usage."""
    try:
        own: dict[str, str | Path | None] = {"features": features, "labels": labels, "nodes": nodes}
        said = {key: value for key, value in (columns or {}).items() if value is not None}
        if edges is None and said:
            raise UsageError(
                f"--{next(iter(said)).replace('_', '-')} goes with --edges; a dataset brings its own columns"
            )
        graph = _load_graph(name, edges, own, header, split, split_seed, data_root, said)
        if not quiet:
            _say_reading(graph)
        return graph
    except StorageError as error:
        raise UsageError(str(error)) from error


def _load_graph(
    name: str | None, edges: str | Path | None, own: dict[str, str | Path | None],
    header: bool | None, split: str | None, split_seed: int, data_root: Path | None, columns: dict[str, str],
) -> Graph:  # fmt: skip
    if edges is not None:
        if name is not None:
            raise UsageError(f"give either the graph {name!r} or --edges, not both")
        from edgeveil.graph.files.read_graph import read_graph

        graph = read_graph(
            edges, own["features"], own["labels"], nodes=own["nodes"], header=header, **cast(Any, columns)
        )
        return graph if split is None else _resplit(graph, split, split_seed)
    if any(given is not None for given in (*own.values(), header)):
        raise UsageError(
            "--features, --labels, --nodes FILE and --header go with --edges; a named dataset brings its own"
        )
    if name is None:
        raise UsageError("which graph? name a dataset (edgeveil data list), a graph.npz, or pass --edges")
    path = Path(name)
    if path.suffix == ".npz" or (path / "graph.npz").is_file():
        from edgeveil.graph.npz import read_npz

        graph = read_npz(path if path.suffix == ".npz" else path / "graph.npz")
        return graph if split is None else _resplit(graph, split, split_seed)
    from edgeveil.graph.datasets import load

    return load(name, split=split, split_seed=split_seed, data_root=data_root)


def _say_reading(graph: Graph) -> None:
    """How own files were read and what columns became; the whole of it: edgeveil inspect."""
    for what, how in graph.reading.items():
        say(f"{what}: {how}")
    for line in graph.table.describe() if graph.table is not None and graph.table.changed else ():
        say(f"  column {line}")


def count_and_file(given: list[str] | None, default: int = 500) -> tuple[int, Path | None]:
    """The two things that ``--nodes`` may say: how many nodes are attacked, and which file lists all of them."""
    counts = [text for text in given or [] if text.isdecimal()]
    files = [text for text in given or [] if not text.isdecimal()]
    if len(counts) > 1 or len(files) > 1:
        raise UsageError(f"--nodes takes one number and one file at most, got {', '.join(given or [])}")
    count = int(counts[0]) if counts else default
    if count < 2:
        raise UsageError(f"--nodes {count}: an attack needs at least two nodes")
    if files and not Path(files[0]).is_file():
        raise UsageError(f"--nodes {files[0]}: neither a number of nodes nor a file that lists them")
    return count, Path(files[0]) if files else None


def _resplit(graph: Graph, split: str, seed: int) -> Graph:
    from edgeveil.graph.splits import apply_split

    return apply_split(graph, split, seed)


def open_release(path: Path) -> Release:
    """A saved release; one that cannot be read is bad usage."""
    from edgeveil.release.release import Release

    try:
        return Release.load(path)
    except StorageError as error:
        raise UsageError(str(error)) from error


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON Lines in one atomic step; NaN and infinity become null."""
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(_plain(row), ensure_ascii=False) + "\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another file"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def remembered(ledger: str | None, out: Path, *others: Path) -> Iterator[None]:
    """Around a command that records: refuse a ledger older than heads nearby, and leave its head beside `out`."""
    if ledger is None:
        yield
        return
    from edgeveil.privacy.ledger import open_ledger, require_extra

    require_extra("recording in a ledger")
    from edgeveil.privacy.ledger.heads import check_recorded, keep_recorded

    with open_ledger(ledger) as opened:
        check_recorded(opened, out, *others)
    yield
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    keep_recorded(ledger, out)
