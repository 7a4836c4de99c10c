"""``edgeveil perturb``: export a noisy graph and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from edgeveil.cli.common import DataRoot, Edges, Features, GraphName, Labels, load_graph, say
from edgeveil.errors import UsageError

EXAMPLE = "Example: edgeveil perturb cora --defence lapgraph --epsilon 4 --out noisy-cora"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(perturb)


def perturb(
    graph: GraphName = None,
    defence: Annotated[str, typer.Option(help="edgerand or lapgraph.")] = "lapgraph",
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget for one undirected edge.")] = None,
    out: Annotated[Path, typer.Option(help="New folder for graph.npz and manifest.json.")] = Path("noisy"),
    seed: Annotated[
        int | None, typer.Option(help="For experiments only: reproducible noise is not private. Default: secure noise.")
    ] = None,
    edges: Edges = None,
    features: Features = None,
    labels: Labels = None,
    data_root: DataRoot = None,
) -> None:
    """Write the perturbed edges and the guarantee; features, labels and splits of the graph stay behind.

    Node ids are kept, because edge privacy does not hide the set of nodes. Every export of the same graph spends its
    epsilon anew: two exports at epsilon 4 cost 8 together.
    """
    from dataclasses import asdict

    from edgeveil.defences.api import make_defence
    from edgeveil.graph.graph import Graph
    from edgeveil.graph.npz import atomic_write, write_npz

    mechanism = make_defence(defence, epsilon)
    if not hasattr(mechanism, "perturb"):
        raise UsageError(f"{defence!r} does not make a noisy graph; use edgerand or lapgraph, or `edgeveil release`")
    target = out / "graph.npz"
    if target.exists():
        raise UsageError(f"{target} exists; a new export spends epsilon again, so choose another --out")
    secret = load_graph(graph, edges=edges, features=features, labels=labels, data_root=data_root)
    noisy = mechanism.perturb(secret, seed=seed)
    guarantee = mechanism.mechanism_guarantee(seed)  # type: ignore[attr-defined]
    manifest = {
        "format": 1,
        "defence": defence,
        "params": asdict(mechanism),  # type: ignore[call-overload]
        "dataset": secret.name,
        "num_nodes": noisy.num_nodes,
        "num_edges": noisy.num_edges,
        "guarantee": guarantee.to_json(),
    }
    write_npz(
        Graph(noisy.indptr, noisy.indices, name=noisy.name, is_twin=noisy.is_twin, node_ids=noisy.node_ids), target
    )
    atomic_write(out / "manifest.json", (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
    say(guarantee.statement())
    typer.echo(f"{target}: {noisy.num_nodes:,} nodes, {noisy.num_edges:,} noisy edges")
