"""From the results of an audit to everything its report shows."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

import edgeveil
from edgeveil.attacks.attack import ATTACKS
from edgeveil.audits.audit import AuditPlan
from edgeveil.audits.cells import label, summarise
from edgeveil.audits.gains import gain_rows, gains, measurements, spreads
from edgeveil.defences.defence import DEFENCES
from edgeveil.graph.graph import Graph
from edgeveil.models.presets import preset
from edgeveil.report.audit_data import AuditData
from edgeveil.report.judged import best_defence, judged
from edgeveil.runs.records import Record
from edgeveil.runs.rows import plain, with_edge_free

__all__ = ["audit_data", "collect", "graph_facts", "heatmaps", "references", "versions"]

FIGURES_SAID = (
    "Leakage, the share of edges found, is counted by naming exactly as many pairs as there are true edges among the "
    "attacked pairs; density is true edges over attacked pairs; utility is the F1 of the rarer class where there are "
    "two, else micro-F1, on test nodes."
)
SHOWN = 4  # releases drawn in the figures of detail


def graph_facts(graph: Graph) -> dict[str, Any]:
    """What the report may say about the graph: counts, never a node, an edge or a hash of them."""
    return {
        "name": graph.name,
        "is_twin": graph.is_twin,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "density": graph.density,
    }


def versions() -> dict[str, str]:
    """Versions that can change a number."""
    return {
        "edgeveil": edgeveil.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "torch")},
    }


def class_homophily(graph: Graph) -> list[dict[str, Any]]:
    """Share of the edges at each class that stay inside it, and the class's size."""
    if graph.y is None or graph.multilabel:
        return []
    u, v = graph.edge_index
    ends = np.concatenate([graph.y[u], graph.y[v]])
    same = np.tile(graph.y[u] == graph.y[v], 2)
    out = []
    for c in range(graph.num_classes):
        at = ends == c
        if at.any():
            out.append({"class": c, "share": float(same[at].mean()), "nodes": int((graph.y == c).sum())})
    return out


def audit_data(
    plan: AuditPlan,
    graph: Graph,
    records: Sequence[Record],
    *,
    failures: Sequence[str] = (),
    verified: Sequence[Mapping[str, Any]] = (),
    coins: Sequence[Mapping[str, Any]] = (),
    seconds: float = 0.0,
    command: str = "",
    existing: bool = False,
    more: Mapping[str, Any] | None = None,
) -> AuditData:
    """The results of one plan with everything a reader needs to judge and to repeat them."""
    attacked = max((row.get("n_nodes") or 0 for r in records for row in r.rows), default=0)
    attacked = attacked or min(plan.nodes, graph.num_nodes)
    whole = "all " if attacked == graph.num_nodes else ""
    runs = f"{plan.runs} run{'s' if plan.runs > 1 else ''}, "
    settings = {
        "nodes": attacked,
        "summary": f"{'' if existing else runs}{whole}{attacked} nodes attacked, seed {plan.seed}",
        "method": _attacked_how(plan, attacked) if existing else _trained_how(plan, graph, attacked, records),
        "command": command,
        "versions": versions(),
        "seconds": seconds,
        "existing": existing,
        **(more or {}),
    }
    data = collect(graph, records, settings=settings, failures=failures, verified=verified)
    data.coins = plain([dict(c) for c in coins])
    return data


def _attacked_how(plan: AuditPlan, attacked: int) -> str:
    return (
        f"All {attacked * (attacked - 1) // 2:,} pairs among {attacked} nodes were scored by every attack that the "
        f"model's answers allow and compared with the true edges. {_drawn(plan)}{FIGURES_SAID} "
        f"Seed of the drawn nodes and attacks: {plan.seed}; linkteller-grouped could ask {plan.queries} queries. "
        "Nothing was trained."
    )


def _drawn(plan: AuditPlan) -> str:
    """How nodes were drawn, if not with equal chances."""
    if plan.drawn != "edges":
        return ""
    return (
        "Half of the nodes are ends of randomly drawn edges, because few edges lie among nodes drawn at random; every "
        "pair counts by one over its chance to be drawn, so that shares are estimates for all pairs of the graph. "
    )


def _trained_how(plan: AuditPlan, graph: Graph, attacked: int, records: Sequence[Record]) -> str:
    width = preset(plan.preset, graph.dataset, plan.model).model.hidden
    seeds = ", ".join(str(plan.seed + i) for i in range(plan.runs))
    return (
        f"Each defence trained a {plan.model.upper()} of hidden width {width} (or its own model) with the "
        f"{plan.preset} hyper-parameters; {scaled_how(records)}this is small, so that an audit takes minutes. "
        f"Seed{'s' * (plan.runs > 1)}: "
        f"{seeds}. All {attacked * (attacked - 1) // 2:,} pairs among {attacked} nodes were scored by every attack and "
        f"compared with the true edges. {_drawn(plan)}{FIGURES_SAID} LinkTeller was "
        "computed exactly from the model, which gives the scores that one query per node would give; "
        f"linkteller-grouped could ask {plan.queries} queries. Seeded "
        "noise: reproducible, not private."
    )


def scaled_how(records: Sequence[Record]) -> str:
    """How the features were scaled, by defence where they differ."""
    kinds: dict[str, dict[str, None]] = {}
    for record in records:
        row = record.rows[0]
        kinds.setdefault(row.get("scaling") or "unknown", {})[row["defence"]] = None
    if len(kinds) == 1:
        return f"features scaled by {next(iter(kinds))!r}; "
    return "features scaled by " + ", ".join(f"{kind!r} ({', '.join(who)})" for kind, who in kinds.items()) + "; "


def collect(
    graph: Graph,
    records: Sequence[Record],
    *,
    settings: dict[str, Any],
    failures: Sequence[str] = (),
    verified: Sequence[Mapping[str, Any]] = (),
) -> AuditData:
    """Put the results of all releases together; curves show the first run of the most telling releases."""
    data = AuditData(
        graph=graph_facts(graph),
        rows=with_edge_free(row for record in records for row in record.rows),
        settings=settings,
        homophily=class_homophily(graph),
        verified=[dict(v) for v in verified],
        failures=list(failures),
    )
    data.heatmaps = heatmaps(data.rows)
    _judge(data, records, graph)
    first: dict[tuple[str, Any], Record] = {}
    for record in records:
        row = record.rows[0]
        first.setdefault((row["defence"], row["epsilon"]), record)
    for (defence, epsilon), record in first.items():
        data.guarantees[label(defence, epsilon)] = record.details["statement"]
        reference = record.details["reference"]
        if reference and reference not in data.citations:
            data.citations.append(reference)
    data.citations += [line for line in references(data.rows) if line not in data.citations]
    data.notes = _remarks(records)
    for key in _telling(data, first):
        _add_curves(data, key, first[key])
    return data


def _judge(data: AuditData, records: Sequence[Record], graph: Graph) -> None:
    """Gains over the edge-free baselines and the MLP's interval, from the answers for every test node."""
    found = measurements(records, graph)
    candidates = [(c.defence, c.epsilon) for c in summarise(data.rows) if c.candidate]
    data.gains = gain_rows(gains(found, candidates, int(data.settings.get("looks", 1))))
    noise = spreads(found)
    data.spreads = gain_rows(noise)
    mlp = next((one for one in noise if one.defence == "mlp"), None)
    if mlp is not None:
        low, high = mlp.interval()
        data.baselines = plain({"mlp": mlp.value, "mlp_low": low, "mlp_high": high})


def references(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the defences and attacks of these rows were published; names from elsewhere are passed over."""
    found: dict[str, None] = {}
    for key, known in (("defence", DEFENCES), ("attack", ATTACKS)):
        for name in dict.fromkeys(row.get(key) for row in rows):
            if name in known.names():
                found[known.get(name).reference] = None
    return [line for line in found if line]


def _remarks(records: Sequence[Record]) -> list[str]:
    """What releases and attacks remarked, once each, with the defences it is about."""
    about: dict[str, dict[str, None]] = {}
    for record in records:
        for note in record.details["notes"]:
            about.setdefault(note, {})[label(record.rows[0]["defence"], None)] = None
    return [f"{', '.join(names)}: {note}" for note, names in about.items()]


def _telling(data: AuditData, first: Mapping[tuple[str, Any], Record]) -> list[tuple[str, Any]]:
    """The undefended model, the MLP, the recommended release, and the most useful setting of other defences."""
    cells = judged(data)
    best = best_defence(cells)
    chosen = {k[0]: k for k in first if k[0] in ("none", "mlp")}
    for cell in [*([best] if best else []), *sorted(cells, key=lambda c: -np.nan_to_num(c.utility))]:
        if cell.status == "sound" or len(first) == 1:
            chosen.setdefault(cell.defence, (cell.defence, cell.epsilon))
    return [key for key in chosen.values() if key in first][:SHOWN]


def _add_curves(data: AuditData, key: tuple[str, Any], record: Record) -> None:
    defence, epsilon = key
    name, leak = label(defence, epsilon), record.details["leak"]
    tag = {"defence": defence, "label": name}
    if leak["roc"]:
        data.roc.append({**tag, "attack": leak["strongest"], **leak["roc"]})
    if leak["exposure"]:
        exposure = {k: leak["exposure"][k] for k in ("bins", "nodes")}  # never the shares: they are per node
        data.exposure.append({**tag, **exposure})
    data.reliability += [{**tag, **curve} for curve in leak.get("reliability", ())]
    useful = {b["bin"]: b["utility"] for b in record.details.get("utility_by_degree", ())}
    data.by_degree += [{**tag, **b, "utility": useful.get(b["bin"])} for b in leak["by_degree"]]
    data.budget_curves += [{**tag, **point} for point in record.details["budget"]]


def heatmaps(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Utility and attack AUC over GraphPrivatizer's α×δ grid, where rows hold a full one (strongest attack)."""
    out = []
    grids: dict[tuple[str, Any], list[Mapping[str, Any]]] = {}
    for row in rows:
        params = row.get("params") or {}
        if row.get("belief") in ("k", None) and {"alpha", "delta"} <= params.keys():
            grids.setdefault((row["defence"], row.get("epsilon")), []).append(row)
    for (defence, epsilon), part in grids.items():
        alphas = sorted({row["params"]["alpha"] for row in part})
        deltas = sorted({row["params"]["delta"] for row in part})
        if len(alphas) < 2 or len(deltas) < 2:
            continue
        for key, name in (("utility", "utility (%)"), ("auc", "attack AUC (%)")):
            values = [[_mean_at(part, a, d, key) for d in deltas] for a in alphas]
            if not any(v is None for line in values for v in line):
                title = f"{label(defence, epsilon)}: {name}"
                out.append({"title": title, "alpha": alphas, "delta": deltas, "values": values})
    return out


def _mean_at(rows: Sequence[Mapping[str, Any]], alpha: float, delta: float, key: str) -> float | None:
    at = [r for r in rows if r["params"]["alpha"] == alpha and r["params"]["delta"] == delta and r[key] is not None]
    by_attack: dict[str, list[float]] = {}
    for row in at:
        by_attack.setdefault(row["attack"], []).append(100 * float(row[key]))
    return max((sum(v) / len(v) for v in by_attack.values()), default=None)
