"""``edgeveil guard``: pick the query limit Q on validation traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgeveil.cli.common import DataRoot, SeedOption, console, load_graph, numbers, say
from edgeveil.errors import UsageError

EXAMPLE = """Example: edgeveil guard --release cora-none --truth cora --floor 0.99

With your own traffic: edgeveil guard --release cora-none --truth cora --traffic state/audit.jsonl"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(guard)


def guard(
    release: Annotated[Path, typer.Option(help="Folder made by `edgeveil release`.")],
    truth: Annotated[str, typer.Option(help="The true graph: dataset or graph.npz.")],
    traffic: Annotated[Path | None, typer.Option(help="Audit log with honest traffic; default: made-up users.")] = None,
    limits: Annotated[str, typer.Option(help="Candidate limits Q.")] = "5,10,20,50,100,200",
    floor: Annotated[float, typer.Option(min=0, max=1, help="Share of honest queries that must be served.")] = 0.99,
    nodes: Annotated[int, typer.Option(min=2, help="Nodes the attacks are about.")] = 200,
    seed: SeedOption = 0,
    data_root: DataRoot = None,
) -> None:
    """For every limit Q: how many honest queries it serves, and the F1 that attacks keep; then the smallest good Q.

    The limit is a heuristic without a guarantee. The output is for the owner: it is computed from the true edges.
    """
    from edgeveil.serve import require_extra

    require_extra("edgeveil guard")
    from rich.table import Table

    from edgeveil.release.release import Release
    from edgeveil.seeds import stream
    from edgeveil.serve.engine import Engine
    from edgeveil.trials.guard_trial import honest_sessions
    from edgeveil.trials.query_limit import choose_limit, demand_of, leak_at, limit_table, read_demand

    candidates = [int(q) for q in numbers(limits)]
    if min(candidates) < 1:
        raise UsageError(f"limits must be whole numbers >= 1, got {limits!r}")
    model, graph = Release.load(release), load_graph(truth, data_root=data_root)
    if graph.num_nodes != model.num_nodes:
        raise UsageError(f"the release answers for {model.num_nodes} nodes, but {graph.name} has {graph.num_nodes}")
    if traffic is None:
        say("no --traffic: using made-up honest users, a model of traffic rather than traffic")
        demand = demand_of(honest_sessions(Engine(model), 40, seed))
    else:
        demand = read_demand(traffic)
    size = min(nodes, graph.num_nodes)
    chosen = stream(seed, "validation nodes").choice(graph.num_nodes, size, replace=False)
    rows = limit_table(demand, leak_at(model, graph, chosen, candidates, seed))
    table = Table()
    for head in ("limit Q", "honest queries served", "F1 linkteller", "F1 grouped"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(str(row.limit), f"{row.served:.3f}", f"{row.linkteller:.3f}", f"{row.grouped:.3f}")
    console().print(table)
    best = choose_limit(rows, floor)
    typer.echo(
        f"chosen: Q = {best.limit} (serves {best.served:.1%}; F1 {max(best.linkteller, best.grouped):.3f} remains)"
    )
    say("a heuristic without a guarantee; for the owner: not private")
