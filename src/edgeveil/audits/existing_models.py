"""Leakage of a model that exists already, in the form of an audit's run; nothing is trained, no label is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.attacks.attack import ATTACKS
from edgeveil.audits.audit import AuditPlan, attack_configs
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.release import Release
from edgeveil.release.remote import HttpTarget
from edgeveil.release.target import Target
from edgeveil.runs.measure import foreign_labels, measure_target, owner_details
from edgeveil.runs.records import Record
from edgeveil.runs.rows import plain
from edgeveil.runs.run_config import AttackConfig
from edgeveil.runs.score import draw_sample, sample_seeds, service_of

__all__ = ["audit_existing", "disagreement", "stated"]

RANDOMISED = (
    "the same question got two answers that differ by up to {:.3g}: the model is randomised or in training mode "
    "(dropout); an attacker averages that away, so switch it to evaluation mode before believing these figures"
)
NOTHING_KNOWN = "Nothing is known about how this model was made, so it promises nothing."


def audit_existing(
    plan: AuditPlan,
    target: Any,
    truth: Graph,
    name: str = "existing model",
    guarantee: Guarantee | None = None,
    shadow: Graph | None = None,
) -> Record:
    """Attack a release or target that answers for the nodes of `truth`.

    `guarantee`: what its owner states about it; a release and a server state their own. None of them is checked here.
    """
    if target.num_nodes != truth.num_nodes:
        raise InputError(
            f"the model answers for {target.num_nodes} nodes, but {truth.name} has {truth.num_nodes}; "
            "give the graph it was made for"
        )
    if truth.num_edges == 0:
        raise InputError(f"{truth.name} has no edges: there is nothing to find")
    wanted = attack_configs(plan, plan.seed)
    attacks = [attack for attack in wanted if _fits(attack, target)]
    if not attacks:
        raise InputError(
            f"none of {', '.join(plan.attacks)} fits what this model answers and what is known of its features"
        )
    if hasattr(target, "restrict"):  # every row that a server sends is paid for
        nodes = draw_sample(truth, attacks[0], "unconstrained", sample_seeds(attacks[0], plan.seed)[0])[0]
        target.restrict(nodes)
    known = isinstance(target, Release)
    if isinstance(target, HttpTarget) and guarantee is None:
        guarantee = target.guarantee()
    labels = None if known else foreign_labels(truth, plan.seed) | {"model": name} | stated(guarantee)
    shadows = {} if shadow is None or plan.shadow is None else {plan.shadow: shadow}
    wavers = None if known else disagreement(target)
    found = measure_target(target, truth, attacks, seed=plan.seed, labels=labels, shadows=shadows)
    details = owner_details(found, service_of(target) if known else None, plan.seed)
    if not known:
        details["statement"] = NOTHING_KNOWN if guarantee is None else f"Stated, not checked: {guarantee.statement()}"
        details["reference"] = "" if guarantee is None else guarantee.reference
    details["randomised"] = wavers
    if wavers:
        details["notes"].append(RANDOMISED.format(wavers))
    skipped = [attack.name for attack in wanted if attack not in attacks]
    if skipped:
        details["notes"].append(f"not run, because answers or features do not suffice: {', '.join(skipped)}")
    rows = tuple(row.to_json() for row in found.rows)
    return Record(id="", key="", code="", plan="audit", config={}, rows=rows, details=plain(details))


def stated(guarantee: Guarantee | None) -> dict[str, Any]:
    """The columns of a row that follow from a guarantee."""
    if guarantee is None:
        return {}
    epsilon = guarantee.claimed_epsilon
    return {
        "status": guarantee.status, "unit": guarantee.unit, "randomness": guarantee.randomness, "epsilon": epsilon,
        "delta": None if epsilon is None else guarantee.delta,
    }  # fmt: skip


def disagreement(target: Any) -> float:
    """Largest difference between two answers to the same question: 0 for a model that is a function of its input."""
    first, second = (np.asarray(target.query(), dtype=np.float64) for _ in range(2))
    return float(np.abs(first - second).max(initial=0.0))


def _fits(attack: AttackConfig, target: Any) -> bool:
    """Whether the target's answers are rich enough, and its features known in its own space, as the attack needs."""
    seen = Target.local(target) if isinstance(target, Release) else target
    method = ATTACKS.create(attack.name, **attack.params)
    probing = method.watches and seen.influence is None  # perturbs known rows
    if probing and seen.features is None:
        return False
    if method.needed & {"shadow graph", "knowledge"} and (attack.shadow is not None or attack.knows):
        return True
    return not method.lacks(seen) and not (attack.where_it_fits and method.idle(seen))
