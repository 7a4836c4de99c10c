"""``edgeveil perturb``: export a noisy graph and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from edgeveil.cli.common import Epsilon, NoiseSeed, remembered, say
from edgeveil.cli.method_options import SetOption, settings
from edgeveil.cli.option_groups import GraphOptions, LedgerOptions
from edgeveil.cli.stored_options import StoredOptions
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.defences.defence import EdgeMechanism
    from edgeveil.graph.graph import Graph
    from edgeveil.graph.stored.graph_in_files import StoredGraph

EXAMPLE = """Example: edgeveil perturb cora --defence lapgraph --epsilon 4 --out noisy-cora

Own files: edgeveil perturb --edges friends.csv --nodes users.csv --defence lapgraph --epsilon 4 --out noisy"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(perturb)


def perturb(
    *,
    given: GraphOptions,
    defence: Annotated[str, typer.Option(help="edgerand or lapgraph.")] = "lapgraph",
    epsilon: Epsilon = None,
    set_: SetOption = None,
    out: Annotated[
        Path, typer.Option(help="New folder for graph.npz (edges/ where edges stay in files) and manifest.json.")
    ] = Path("noisy"),
    seed: NoiseSeed = None,
    record_in: LedgerOptions,
    stored: StoredOptions,
) -> None:
    """Write the perturbed edges and the guarantee; features, labels and splits of the graph stay behind.

    Node ids are kept, because edge privacy does not hide the set of nodes; so that set must not come from the edges:
    own edges need --nodes, --features or --labels. Ids of own files come out sorted. Every export of the same graph
    spends its epsilon anew: two exports at epsilon 4 cost 8 together.
    """
    from dataclasses import asdict

    from edgeveil.defences.defend import make_defence
    from edgeveil.defences.recorded import record
    from edgeveil.graph.graph import Graph
    from edgeveil.graph.npz import atomic_write, write_npz

    mechanism = make_defence(defence, epsilon, **settings(set_, [defence]).get(defence, {}))
    if not hasattr(mechanism, "perturb"):
        raise UsageError(f"{defence!r} does not make a noisy graph; use edgerand or lapgraph, or `edgeveil release`")
    made = out / "graph.npz"
    if made.exists() or (out / "manifest.json").exists():
        raise UsageError(f"{made} exists; a new export spends epsilon again, so choose another --out")
    with stored.opened(given.files, given.nodes, name=given.graph, work=out.with_name(f".{out.name}-work")) as graph:
        if graph is not None:
            from_files(cast("EdgeMechanism", mechanism), graph, out, seed, record_in)
    if graph is not None:
        if stored.work is None:
            shutil.rmtree(out.with_name(f".{out.name}-work"))
        return
    secret = given.load()
    secret.check_public_nodes()
    if given.files.edges is not None:
        secret = _canonical(secret)
    guarantee = mechanism.mechanism_guarantee(seed)  # type: ignore[attr-defined]
    with remembered(record_in.ledger, out):
        if record_in.ledger is not None:
            record(guarantee=guarantee, graph=secret, what=f"perturb {defence}", **record_in.asked())
    noisy = mechanism.perturb(secret, seed=seed)
    manifest = {
        "format": 1,
        "defence": defence,
        "params": asdict(mechanism),  # type: ignore[call-overload]
        "dataset": secret.name,
        "num_nodes": noisy.num_nodes,
        "num_edges": noisy.num_edges,
        "guarantee": guarantee.to_json(),
    }
    bare = Graph(
        noisy.indptr, noisy.indices, name=noisy.name, is_twin=noisy.is_twin, node_ids=noisy.node_ids, public_nodes=True
    )
    write_npz(bare, made)
    atomic_write(out / "manifest.json", (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
    say(guarantee.statement())
    typer.echo(f"{made}: {noisy.num_nodes:,} nodes, {noisy.num_edges:,} noisy edges")


def from_files(
    mechanism: EdgeMechanism, graph: StoredGraph, out: Path, seed: int | None, record_in: LedgerOptions
) -> None:
    """The same for edges that stay in files, in chunks, to a folder of parquet files."""
    from edgeveil.defences.stored.perturb_stored import perturb_stored

    with remembered(record_in.ledger, out):
        guarantee, count = perturb_stored(mechanism, graph, out, seed=seed, **record_in.asked())
    say(guarantee.statement())
    typer.echo(f"{out / 'edges'}: {graph.num_nodes:,} nodes, {count:,} noisy edges")


def _canonical(graph: Graph) -> Graph:
    """The graph with its nodes in canonical order, whatever order a table of own files has."""
    if graph.node_ids is None:
        return graph
    from edgeveil.graph.files.ids import canonical_order

    place = {str(node): i for i, node in enumerate(graph.node_ids)}
    return graph.subgraph([place[node] for node in canonical_order(place)])
