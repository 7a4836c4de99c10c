"""``edgeveil attack``: what one existing model gives away, as scored pairs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.common import (
    DataRoot,
    Json,
    Key,
    Knows,
    SeedOption,
    Shadow,
    console,
    load_graph,
    open_release,
    say,
    share,
    words,
    write_json_lines,
)
from edgeveil.cli.method_options import SetOption, settings
from edgeveil.cli.option_groups import TableOptions
from edgeveil.cli.truth import read_truth
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.attacks.attack import AttackResult
    from edgeveil.graph.graph import Graph
    from edgeveil.release.target import Target as Service
    from edgeveil.runs.score import Attacked

EXAMPLE = """Example: edgeveil attack --release cora-lapgraph --attack linkteller --truth cora

A live server: edgeveil attack --url http://127.0.0.1:8440 --key ev_... --features x.npy --truth cora"""
FIGURES = ("auc", "average_precision", "precision", "recall", "f1", "tpr_at_fpr_001")


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(attack)


def attack(
    *,
    release: Annotated[Path | None, typer.Option(help="Folder made by `edgeveil release`.")] = None,
    url: Annotated[str | None, typer.Option(help="Address of an `edgeveil serve`.")] = None,
    key: Key = None,
    attacks: Annotated[
        str, typer.Option("--attack", help="Comma-separated: linkteller, flatroot, stored-graph, lsa2-post ...")
    ] = "linkteller",
    nodes: Annotated[
        str | None,
        typer.Option(help="How many nodes to draw, a list such as 3,8,15, or all. Default: 500; flatroot: all."),
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Bob's features in model space: npy, npz, or the folder of a release.")
    ] = None,
    truth: Annotated[
        str | None, typer.Option(help="True edges to score against: dataset, graph.npz or a csv of edges.")
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            help="For a --truth table with names: the file with one line per node that the model used. A "
            "--release knows them."
        ),
    ] = None,
    tables: TableOptions,
    queries: Annotated[int | None, typer.Option(help="Query budget of linkteller-grouped and flatroot.")] = None,
    mode: Annotated[str | None, typer.Option(help="exact or query, for linkteller and flatroot on a release.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Relative step of linkteller; default: suits the answers.")
    ] = None,
    set_: SetOption = None,
    shadow: Shadow = None,
    knows: Knows = None,
    density: Annotated[float | None, typer.Option(help="Density belief; default with --truth: the true one.")] = None,
    transcript: Annotated[Path | None, typer.Option(help="Record answers here; the same command resumes.")] = None,
    pause: Annotated[float, typer.Option(help="Seconds between queries to --url.")] = 0.0,
    retries: Annotated[int, typer.Option(help="Further tries after a failed query to --url.")] = 5,
    snapshot: Annotated[str | None, typer.Option(help="Snapshot of the server to attack.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write scored pairs to this csv file, best first.")] = None,
    json_file: Json = None,
    seed: SeedOption = 0,
    data_root: DataRoot = None,
) -> None:
    """Score node pairs by how likely they are edges; compare with the truth only if it is given.

    Against a server every answer is paid for; with --transcript an interrupted attack goes on where it stopped.
    """
    from edgeveil.attacks.attack import ATTACKS
    from edgeveil.attacks.run_attack import attack as run
    from edgeveil.runs.run_config import AttackConfig
    from edgeveil.runs.score import Given, attack_service

    if (release is None) == (url is None):
        raise UsageError("name what to attack: either --release DIR or --url URL")
    given = settings(set_, attacks=words(attacks))
    public = None if shadow is None else load_graph(shadow, data_root=data_root)
    known = None if features is None else read_features(features)
    service, names = _open(release, url, key, known, snapshot, pause, retries)
    some = _choose(nodes or "500", service.num_nodes, seed)
    if hasattr(service, "restrict") and not any(map(_whole, words(attacks))):
        service.restrict(some)
    asked = service
    if transcript is not None:
        from edgeveil.release.transcript import RecordedTarget

        asked, known = RecordedTarget(service, transcript), service.features
    graph = None if truth is None else read_truth(
        truth, service.num_nodes, data_root, ids, names=names, header=tables.header, columns=tables.columns,
    )  # fmt: skip
    if knows is not None and graph is None:
        raise UsageError("--knows draws from the true edges; name them with --truth")
    if graph is None and out is None:
        out = Path("scores.csv")
    rows = []
    for name in words(attacks):
        chosen = None if nodes is None and _whole(name) else some
        options = {"queries": queries, "mode": mode, "delta": delta, **given.get(name, {})}
        options = {k: v for k, v in options.items() if v is not None and ATTACKS.takes(name, k)}
        if graph is None:
            result = run(asked, name, nodes=chosen, features=known, seed=seed, shadow=public, **options)
            rows.append(_row(result))
        else:
            granted = share(knows) if ATTACKS.get(name).needs & {"known edges", "knowledge"} else 0.0
            config = AttackConfig(
                name=name, params=options, protocol="given", seed=seed, knows=granted,
                shadow=None if public is None else public.name,
            )  # fmt: skip
            whom, shadows = Given(nodes=chosen, features=known), {} if public is None else {public.name: public}
            (attacked,) = attack_service(lambda _: asked, graph, (config,), seed, whom, shadows)
            result = attacked.result
            rows.append(_row(result, attacked, graph, density))
        say(f"{name}: {result.queries} queries, {result.rows} rows, {result.seconds:.1f} s")
        _say_found(name, rows[-1])
        for note in result.notes:
            say(f"note: {note}")
        if out is not None:
            _write_scores(out, result, several=len(words(attacks)) > 1)
    if hasattr(service, "close"):
        service.close()
    _print(rows)
    if json_file is not None:
        write_json_lines(json_file, rows)


def _open(
    release: Path | None,
    url: str | None,
    key: str | None,
    features: Any,
    snapshot: str | None,
    pause: float,
    retries: int,
) -> tuple[Service, Any]:
    """What to attack, and the names of its nodes where it brings them."""
    if url is not None:
        from edgeveil.release.remote import HttpTarget

        return HttpTarget(url, key=key, features=features, snapshot=snapshot, pause=pause, retries=retries), None
    from edgeveil.release.target import Target

    assert release is not None
    opened = open_release(release)
    return Target.local(opened), opened.node_ids


def read_features(path: Path) -> Any:
    """Features in model space from an array file or from a saved release."""
    import numpy as np
    import scipy.sparse as sp

    if (path / "manifest.json").is_file():
        return open_release(path).matrix
    if not path.is_file() or path.suffix not in (".npy", ".npz"):
        raise UsageError(f"no features at {path}; give a .npy or .npz file or the folder of a release")
    found = np.load(path, allow_pickle=False)
    if path.suffix == ".npy":
        return found
    with found as archive:
        if "format" in archive.files:
            return sp.load_npz(path).tocsr()
        if len(archive.files) != 1:
            raise UsageError(f"{path} holds {len(archive.files)} arrays; one matrix of features is expected")
        return archive[archive.files[0]]


def _choose(text: str, num_nodes: int, seed: int) -> Any:
    """Node numbers: all, a list, or a random draw of so many."""
    import numpy as np

    from edgeveil.seeds import stream

    if text == "all":
        return np.arange(num_nodes)
    parts = words(text)
    if not all(part.isdigit() for part in parts):
        raise UsageError(f"--nodes wants a number, a list such as 3,8,15, or all; got {text!r}")
    if len(parts) > 1:
        return np.array([int(part) for part in parts])
    count = int(parts[0])
    if count < 2:
        raise UsageError(f"--nodes {text}: an attack needs at least two nodes")
    if count >= num_nodes:
        return np.arange(num_nodes)
    return np.sort(stream(seed, "attacked nodes").choice(num_nodes, count, replace=False))


def _whole(name: str) -> bool:
    """Whether the attack is about the whole graph in any case."""
    from edgeveil.attacks.attack import ATTACKS

    return bool(ATTACKS.get(name).whole)


def _say_found(name: str, row: dict[str, Any]) -> None:
    """What an attack that asserts edges asserts."""
    if "found" not in row:
        return
    true = f"{row['found_true']:,} of {row['n_edges']:,} true edges, {row['found'] - row['found_true']:,} false; "
    proof = {True: "certified", False: "not certified", None: "no certificate"}[row["certified"]]
    undecided = f", {row['undecided']:,} pairs undecided" if row["undecided"] else ""
    say(f"{name}: asserts {row['found']:,} edges; {true if 'found_true' in row else ''}{proof}{undecided}")


def _row(
    result: AttackResult, attacked: Attacked | None = None, truth: Graph | None = None, density: float | None = None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "attack": result.attack, "access": result.access, "queries": result.queries, "rows": result.rows,
        "seconds_attack": result.seconds, "n_pairs": result.num_pairs, "notes": list(result.notes),
    }  # fmt: skip
    if result.found is not None:
        undecided = 0 if result.undecided is None else result.undecided.shape[1]
        row |= {"found": result.found.shape[1], "certified": result.certified, "undecided": undecided}
    if attacked is None or truth is None:
        return row
    if result.found is not None:
        row["found_true"] = int(truth.has_edges(result.found[0], result.found[1]).sum())
    from edgeveil.runs.score import at_density

    belief, figures = at_density(attacked, density)
    return row | {"n_edges": attacked.edges, "density": belief} | {k: figures.get(k) for k in FIGURES}


def _write_scores(path: Path, result: AttackResult, several: bool) -> None:
    if several:
        path = path.with_name(f"{path.stem}-{result.attack}{path.suffix}")
    path.parent.mkdir(parents=True, exist_ok=True)
    order = result.top(len(result.scores))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["u", "v", "score"])
        u, v = result.pairs[:, order]
        table.writerows(zip(u.tolist(), v.tolist(), result.scores[order].tolist(), strict=True))
    say(f"{path}: {len(order)} scored pairs, best first")


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    scored = any("auc" in row for row in rows)
    table = Table()
    for head in ("attack", "access", "queries", "pairs", *(("edges", *FIGURES) if scored else ())):
        table.add_column(head)
    for row in rows:
        cells = [row["attack"], row["access"], str(row["queries"]), str(row["n_pairs"])]
        if scored:
            cells += [str(row["n_edges"]), *(_number(row[name]) for name in FIGURES)]
        table.add_row(*cells)
    console().print(table)


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}"
