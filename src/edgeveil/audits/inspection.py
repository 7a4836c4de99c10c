"""`edgeveil inspect` and the short form that an audit prints: how files were read and what is in the graph."""

from __future__ import annotations

from dataclasses import replace

from edgeveil.audits.audit import AuditPlan
from edgeveil.defences.defence import DEFENCES
from edgeveil.graph.catalog import dataset
from edgeveil.graph.facts import class_shares, components, degree_quantiles, derived_columns, edge_homophily
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import fitting_scaling
from edgeveil.graph.validate import Collapsed
from edgeveil.runs.costs import estimate, speed

__all__ = ["audit_minutes", "inspection", "short_inspection"]

YARDSTICK = "cora"
MORE = 1.75  # a default audit of Cora, coins and second run included, over its first run: 237 and 135 processor seconds


def inspection(graph: Graph) -> list[str]:
    """Everything worth knowing before an audit, one fact per line; for the owner's eyes."""
    lines = [f"{what}: {how}" for what, how in graph.reading.items()]
    lines += [f"column {line}" for line in (graph.table.describe() if graph.table is not None else ())]
    lines += [f"nodes: {graph.num_nodes:,}" + ("" if graph.public_nodes else ", read off the edges: not publishable")]
    lines += [f"edges: {graph.num_edges:,}, density {graph.density:.3g}"]
    if graph.collapsed != Collapsed():
        lines += [f"collapsed: {graph.collapsed}"]
    lines += [_degrees(graph), _parts(graph)]
    shares = class_shares(graph)
    if shares:
        lines += ["classes: " + ", ".join(f"{name} {share:.1%}" for name, share in shares.items()) + _unlabelled(graph)]
    same = edge_homophily(graph)
    if same is not None:
        lines += [f"homophily: {same:.1%} of the edges stay inside a class"]
    if graph.x is not None:
        auto = "the dataset's own" if graph.dataset else fitting_scaling(graph.x)
        lines += [f"features: {graph.num_features:,}, scaling auto: {auto}"]
    lines += [f"warning: {column}" for column in derived_columns(graph)]
    minutes = max(round(audit_minutes(graph)), 1)
    counted = "1 processor minute" if minutes == 1 else f"{minutes:,} processor minutes"
    cost = f"a default audit takes about {counted} on this machine; --minutes bounds it, and what does not fit is named"
    return [*lines, cost]


def _unlabelled(graph: Graph) -> str:
    """How many nodes train and test nothing; "" if all have a label."""
    bare = 0 if graph.y is None or graph.multilabel else int((graph.y < 0).sum())
    return f"; {bare:,} of {graph.num_nodes:,} nodes have no label" if bare else ""


def short_inspection(graph: Graph) -> list[str]:
    """What an audit prints before it starts: the majority class, homophily and what would void its results."""
    shares = class_shares(graph)
    same = edge_homophily(graph)
    facts = [f"{graph.num_nodes:,} nodes", f"{graph.num_edges:,} edges"]
    facts += [f"largest class {max(shares.values()):.1%}"] if shares else []
    facts += [f"homophily {same:.1%}"] if same is not None else []
    warnings = [] if graph.dataset else [f"warning: {column}" for column in derived_columns(graph)]
    return [f"{graph.name}: {', '.join(facts)}", *warnings]


def audit_minutes(graph: Graph, plan: AuditPlan | None = None) -> float:
    """Processor minutes of a default audit, scaled from one of Cora by edges and nodes; a rough guide."""
    whole = plan or AuditPlan()
    chosen = replace(whole, defences=tuple(d for d in whole.defences if not DEFENCES.get(d).fills))
    record = dataset(YARDSTICK)
    size = (graph.num_edges + 10 * graph.num_nodes) / (record.edges + 10 * record.nodes)
    return MORE * estimate(chosen.configs({YARDSTICK: graph})) * size * speed() / 60


def _degrees(graph: Graph) -> str:
    found = degree_quantiles(graph)
    names = {0.0: "least", 0.5: "median", 1.0: "most"}
    return "degrees: " + ", ".join(f"{names.get(q, f'{q:.0%}')} {value:g}" for q, value in found.items())


def _parts(graph: Graph) -> str:
    count, largest = components(graph)
    bare = int((graph.degrees == 0).sum())
    return f"components: {count:,}, the largest with {largest:,} nodes; {bare:,} nodes without edges"
