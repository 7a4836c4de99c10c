"""What the strongest attack proves about a release: coins decide planted edges, one training, guesses, a bound.

Coins take homophily away: nothing but the release can tell how they fell. So the bound is about the release alone, it
holds with the stated confidence, and it says how much of epsilon an attacker of today can use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgeveil.audits.audit import AuditPlan, graphs_of
from edgeveil.audits.verify_model import verify_through
from edgeveil.errors import EdgeveilError
from edgeveil.graph.graph import Graph
from edgeveil.runs.code_digest import run_digest
from edgeveil.runs.executors import Executor
from edgeveil.runs.measure import sharing_work
from edgeveil.runs.records import Record
from edgeveil.runs.rows import comparable, plain
from edgeveil.runs.run_config import content_id
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import Progress, carry_on, stored
from edgeveil.runs.tasks import Task
from edgeveil.runs.time_limit import TimeLimit

__all__ = ["COINS", "CONFIDENCE", "FEWEST", "coin_bounds", "flip", "guessed_share"]

COINS = 1000
FEWEST = 50
CONFIDENCE = 0.95
TRAINING = ("scaling", "preset", "model_params", "train_params")  # as the releases of the audit
FUNCTION = "edgeveil.audits.coins:flip"


def coin_bounds(
    plan: AuditPlan,
    graph: Graph,
    records: Sequence[Record],
    coins: int,
    executor: Executor,
    store: Store,
    *,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """One entry per release with a sound finite epsilon for one edge; `seconds` bounds the work, None does not.

    All bounds hold together with `CONFIDENCE`: each has its part of what may go wrong (Bonferroni), else one of the
    many that an audit states would exceed a true claim by chance. What does not fit into the time is listed with
    ``lower`` None. The largest epsilon comes first: there is most to prove. Finished bounds are kept in the store, and
    an audit that goes on does not repeat them.
    """
    many = min(coins, graph.num_nodes // 3)
    if many < FEWEST:
        return []
    graphs = graphs_of(graph, None)
    claims = sorted(_claims(records), key=lambda c: -c[0]["epsilon"])
    if not claims:
        return []
    together = 1 - (1 - CONFIDENCE) / len(claims)
    tasks = [_task(plan, graphs, row, many, together) for row, _ in claims]
    limit = None if seconds is None else _limit(seconds, executor, tasks, [took for _, took in claims])
    summary = carry_on(tasks, store, executor, graphs, function=FUNCTION, plan="coins", progress=progress, limit=limit)
    found = {task.id: dict(record.details) for task, record in stored(store, summary)}
    failed = {name: {"failed": reason} for name, (_, reason) in summary.failures.items()}
    return [
        {"defence": row["defence"], "epsilon": row["epsilon"], "coins": many, "lower": None}
        | (found | failed).get(task.id, {})
        for task, (row, _) in zip(tasks, claims, strict=True)
    ]


def flip(config: Mapping[str, Any], graphs: Mapping[str, Graph]) -> dict[str, Any]:
    """What executors call: one release with planted coins, and the bound in its details."""
    try:
        with sharing_work():
            found = verify_through(
                graphs[config["dataset"]], config["defence"], epsilon=config["epsilon"], model=config["model"],
                attack_name=None, canaries=config["coins"], guesses=config["guesses"], confidence=config["confidence"],
                seed=config["seed"], params=config["params"], training=config["training"],
            )  # fmt: skip
    except EdgeveilError as error:
        return {"details": {"failed": str(error)}}
    one = found.findings[0]
    return {"details": plain(
        {"lower": one.lower_bound, "ceiling": one.ceiling, "detail": one.detail, "attack": one.test}
    )}  # fmt: skip


def guessed_share(epsilon: float) -> float:
    """How many of the coins are guessed, fixed before anything is seen: under a weak claim only the surest."""
    return 0.9 if epsilon >= 6 else 0.6 if epsilon >= 3 else 0.3


def _task(plan: AuditPlan, graphs: Mapping[str, Graph], row: Mapping[str, Any], coins: int, confidence: float) -> Task:
    name = next(iter(graphs))
    config = plain({
        "dataset": name, "defence": row["defence"], "epsilon": row["epsilon"], "model": plan.model, "coins": coins,
        "confidence": confidence, "guesses": int(guessed_share(row["epsilon"]) * coins), "seed": plan.seed,
        "params": {k: dict(v) for k, v in plan.params.items()},
        "training": {name: getattr(plan, name) for name in TRAINING},
    })  # fmt: skip
    prints = {name: graphs[name].fingerprint}
    return Task(content_id(config, prints, run_digest(config)), config, needs=(name,))


def _limit(seconds: float, executor: Executor, tasks: Sequence[Task], took: Sequence[float]) -> TimeLimit:
    """At first a bound is expected to take twice the training of its release."""
    limit = TimeLimit(seconds, executor.workers)
    for task, train in zip(tasks, took, strict=True):
        limit.learn(task.config, 2 * train)
    return limit


def _claims(records: Sequence[Record]) -> list[tuple[Mapping[str, Any], float]]:
    """First row of every release whose epsilon can be bounded, with what its training took."""
    found: dict[tuple[str, float], tuple[Mapping[str, Any], float]] = {}
    for record in records:
        row, epsilon = record.rows[0], record.config.get("epsilon")
        if row.get("status") == "sound" and comparable(row) and row.get("epsilon") and epsilon == row["epsilon"]:
            found.setdefault((row["defence"], epsilon), (row, float(row.get("seconds_train") or 0.0)))
    return list(found.values())
