"""Leakage of a model that exists already, in the form of an audit's result; nothing is trained, no label is needed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from edgeveil.attacks.base import ATTACKS
from edgeveil.audits.audit import AuditPlan, budget_curve, choose_nodes
from edgeveil.audits.leak import measure_leak
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.release.release import Release
from edgeveil.runs.rows import Row, plain, release_labels
from edgeveil.seeds import derive

__all__ = ["leak_only"]


def leak_only(plan: AuditPlan, target: Any, truth: Graph, name: str = "existing model") -> dict[str, Any]:
    """Attack a release or target that answers for the nodes of `truth`."""
    if target.num_nodes != truth.num_nodes:
        raise InputError(
            f"the model answers for {target.num_nodes} nodes, but {truth.name} has {truth.num_nodes}; "
            "give the graph it was made for"
        )
    if truth.num_edges == 0:
        raise InputError(f"{truth.name} has no edges: there is nothing to find")
    nodes = choose_nodes(truth, plan.nodes, derive(plan.seed, "attacked nodes"))
    if hasattr(target, "restrict"):
        target.restrict(nodes)  # every row that a server sends is paid for
    attacks = {
        a: {"queries": plan.queries} if a == "linkteller-grouped" else {} for a in plan.attacks if _fits(a, target)
    }
    if not attacks:
        raise InputError(
            f"none of {', '.join(plan.attacks)} fits what this model answers and what is known of its features"
        )
    leak = measure_leak(target, truth, nodes, attacks, seed=plan.seed)
    skipped = [a for a in plan.attacks if a not in attacks]
    if skipped:
        leak.notes.append(f"not run, because answers or features do not suffice: {', '.join(skipped)}")
    base = {"protocol": "subset", "degree": "unconstrained", "n_nodes": len(nodes), "seed": plan.seed}
    if isinstance(target, Release):
        labels, statement = release_labels(target, seed=plan.seed), target.guarantee.statement()
        reference = target.guarantee.reference
    else:
        labels = {
            "dataset": truth.name,
            "is_twin": truth.is_twin,
            "defence": "unknown",
            "model": name,
            "status": "none",
        }
        statement, reference = "Nothing is known about how this model was made, so it promises nothing.", ""
    rows = [Row(**{**labels, **base, **figure}).to_json() for figure in leak.figures]
    result = {
        "rows": rows,
        "statement": statement,
        "reference": reference,
        "notes": leak.notes,
        "leak": {k: v for k, v in asdict(leak).items() if k != "figures"},
        "utility_by_degree": [],
        "budget": budget_curve(target, truth, nodes, plan.seed) if isinstance(target, Release) else [],
    }
    out: dict[str, Any] = plain(result)
    return out


def _fits(attack: str, target: Any) -> bool:
    """Whether the target's answers are rich enough, and its features known in its own space, as the attack needs."""
    needs = ATTACKS.get(attack).needs
    probing = attack.startswith("linkteller") and getattr(target, "influence", None) is None  # perturbs known rows
    compares = ATTACKS.entry(attack).preset.get("source") == "attr"
    if (probing or compares or "features" in needs) and getattr(target, "features", None) is None:
        return False
    return not ("graded answers" in needs and getattr(target, "answer_kind", "logits") == "labels")
