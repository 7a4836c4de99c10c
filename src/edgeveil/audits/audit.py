"""The owner's audit: every chosen defence over a grid of epsilon, each release attacked on the same nodes.

One task trains one release and attacks it; tasks are pure, so they run on any executor, and finished ones are kept in
a file that only the owner can read, so an interrupted audit goes on where it stopped.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.api import attack
from edgeveil.attacks.base import ATTACKS
from edgeveil.audits.leak import degree_bins, measure_leak
from edgeveil.defences.api import defend, make_defence
from edgeveil.defences.base import DEFENCES
from edgeveil.errors import InputError, StorageError
from edgeveil.graph.graph import Graph
from edgeveil.graph.splits import apply_split
from edgeveil.metrics.protocol import subset
from edgeveil.metrics.ranking import at_count, ranking
from edgeveil.metrics.utility import predicted
from edgeveil.models.presets import preset
from edgeveil.release.release import Release
from edgeveil.runs.code_digest import code_digest
from edgeveil.runs.executors import Executor
from edgeveil.runs.rows import Row, plain, release_labels
from edgeveil.runs.run_config import content_id
from edgeveil.runs.tasks import Outcome, Task
from edgeveil.seeds import derive

__all__ = [
    "DEFAULT_ATTACKS",
    "DEFAULT_DEFENCES",
    "MIN_EDGES",
    "AuditPlan",
    "audit_task",
    "audit_tasks",
    "check_plan",
    "choose_nodes",
    "run_audit",
    "with_default_split",
]

DEFAULT_DEFENCES = ("none", "mlp", "edgerand", "lapgraph", "lpgnet-1", "lpgnet-2", "gp-t")
DEFAULT_ATTACKS = ("linkteller", "linkteller-grouped", "lsa2-post", "lsa2-attr")
MIN_EDGES = 30  # fewer true edges among the attacked nodes make every share a coin toss
Int = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """What to try. `nodes` are attacked, all pairs among them; `queries` is the budget of the grouped attack."""

    defences: tuple[str, ...] = DEFAULT_DEFENCES
    epsilons: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    model: str = "gcn"
    attacks: tuple[str, ...] = DEFAULT_ATTACKS
    runs: int = 1
    seed: int = 0
    nodes: int = 500
    queries: int = 100
    preset: str = "default"
    setting: str | None = None
    utility: str | None = None

    def cells(self) -> Iterator[tuple[str, float | None, int]]:
        """Every release to train: defence, epsilon (None where it takes none), seed."""
        for run, name in itertools.product(range(self.runs), self.defences):
            entry = DEFENCES.entry(name)
            fields = getattr(entry.cls, "__dataclass_fields__", {})
            takes = "epsilon" in fields and "epsilon" not in entry.preset
            for epsilon in self.epsilons if takes else (None,):
                yield name, epsilon, self.seed + run


def choose_nodes(graph: Graph, size: int, seed: int) -> Int:
    """The attacked nodes: a uniform sample, or every node of a graph that is smaller than the sample."""
    if graph.num_nodes <= size:
        return np.arange(graph.num_nodes)
    return subset(graph, "unconstrained", seed=seed % 2**32, size=size)


def audit_tasks(plan: AuditPlan, graphs: Mapping[str, Graph]) -> list[Task]:
    """One task per release; ids cover the settings, the content of the graphs and the code."""
    prints = {role: graph.fingerprint for role, graph in graphs.items()}
    tasks = []
    for name, epsilon, seed in plan.cells():
        config = {**asdict(plan), "defence": name, "epsilon": epsilon, "run_seed": seed}
        for key in ("defences", "epsilons", "runs"):
            config.pop(key)
        shared = {k: v for k, v in config.items() if k != "seed"}
        task_id = content_id(plain(shared), prints, code_digest())
        tasks.append(Task(task_id, config, group=f"{seed}", needs=tuple(graphs)))
    return tasks


def audit_task(config: Mapping[str, Any], graphs: Mapping[str, Graph]) -> dict[str, Any]:
    """Train one release, attack it, and return rows and curves as plain data."""
    graph, inference = graphs["graph"], graphs.get("inference")
    seed = int(config["run_seed"])
    model = "mlp" if config["defence"] == "mlp" else config["model"]
    release = defend(
        graph, config["defence"], epsilon=config["epsilon"], model=model, seed=seed, inference_graph=inference,
        setting=config["setting"], preset=config["preset"],
    )  # fmt: skip
    truth = inference or graph
    nodes = choose_nodes(truth, int(config["nodes"]), derive(seed, "attacked nodes"))
    params = {name: _attack_params(name, config) for name in config["attacks"]}
    leak = measure_leak(release, truth, nodes, params, seed=seed)
    metric = config["utility"] or default_metric(truth)
    useful = release.utility("test").get(metric) if _can_score(truth) else None
    base = release_labels(release, split=graph.split, seed=seed) | {
        "protocol": "subset", "degree": "unconstrained", "utility_metric": metric, "utility": useful,
        "n_nodes": len(nodes),
    }  # fmt: skip
    rows = [Row(**{**base, **figure}).to_json() for figure in leak.figures or [{}]]
    bins = _utility_by_degree(release, truth)
    result = {
        "rows": rows,
        "statement": release.guarantee.statement(),
        "reference": release.guarantee.reference,
        "notes": [*release.notes, *leak.notes],
        "leak": {k: v for k, v in asdict(leak).items() if k != "figures"},
        "utility_by_degree": bins,
        "validation": _validation(release, truth, metric),
        "budget": budget_curve(release, truth, nodes, seed)
        if "linkteller-grouped" in params and config["defence"] == "none"
        else [],
    }
    out: dict[str, Any] = plain(result)
    return out


def default_metric(graph: Graph) -> str:
    """F1 of the rare class where there are two, accuracy (which is micro-F1) otherwise."""
    return "rare_f1" if graph.num_classes == 2 and not graph.multilabel else "micro_f1"


def _can_score(graph: Graph) -> bool:
    return graph.y is not None and (graph.masks is None or bool(graph.masks.test.any()))


def _validation(release: Release, truth: Graph, metric: str) -> float | None:
    """Utility on validation nodes: what a choice may look at."""
    if truth.masks is None or not truth.masks.val.any():
        return None
    value: float | None = release.utility("val").get(metric)
    return value


def _attack_params(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    return {"queries": int(config["queries"])} if name == "linkteller-grouped" else {}


def _utility_by_degree(release: Release, truth: Graph) -> list[dict[str, Any]]:
    if not _can_score(truth) or truth.multilabel:
        return []
    assert truth.y is not None
    test = truth.masks.test if truth.masks is not None else np.ones(truth.num_nodes, dtype=bool)
    chosen = np.flatnonzero(test & (truth.y >= 0))
    right = predicted(release.predict(), multilabel=False)[chosen] == truth.y[chosen]
    bins = degree_bins(truth, chosen)
    return [{"bin": name, "nodes": int(m.sum()), "utility": float(right[m].mean())} for name, m in bins.items()]


def budget_curve(target: Any, truth: Graph, nodes: Int, seed: int, features: Any = None) -> list[dict[str, Any]]:
    """Edges found against the number of queries: the grouped attack at rising budgets, then one query per node."""
    points = []
    budgets: list[int | None] = [q for q in (10, 25, 50, 100, 200) if q < len(nodes)]
    for budget in [*budgets, None]:
        extra: dict[str, Any] = {"mode": "query"} if budget is None else {"queries": budget}
        name = "linkteller" if budget is None else "linkteller-grouped"
        result = attack(target, name, nodes=nodes, seed=seed, features=features, **extra)
        edges = truth.has_edges(result.pairs[0], result.pairs[1])
        figures = at_count(result.scores, edges, int(edges.sum()))
        points.append(
            {"queries": result.queries, "recall": figures["recall"], "auc": ranking(result.scores, edges)["auc"]}
        )
    return points


def run_audit(
    plan: AuditPlan,
    graph: Graph,
    inference: Graph | None,
    executor: Executor,
    keep: Path,
    progress: Callable[[Outcome | None, int, int], None] = lambda *_: None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Run what is not finished yet; returns one result per release, in plan order, and what failed.

    `progress` hears (outcome, finished, total), first with None and what an earlier audit had finished.
    """
    check_plan(plan, inference or graph)
    graphs = {"graph": graph} | ({"inference": inference} if inference is not None else {})
    tasks = audit_tasks(plan, graphs)
    done = read_kept(keep)
    todo = [t for t in tasks if t.id not in done]
    failures = []
    progress(None, len(tasks) - len(todo), len(tasks))
    with open_private(keep) as file:
        for number, outcome in enumerate(executor.run("edgeveil.audits.audit:audit_task", todo, graphs), 1):
            if outcome.result is None:
                failures.append(f"{describe(outcome.task)}: {outcome.error}")
            else:
                done[outcome.task.id] = dict(outcome.result)
                file.write(json.dumps({"id": outcome.task.id, "result": outcome.result}) + "\n")
                file.flush()
            progress(outcome, number + len(tasks) - len(todo), len(tasks))
    return [done[t.id] for t in tasks if t.id in done], failures


def describe(task: Task) -> str:
    """A task in the user's words."""
    epsilon = task.config["epsilon"]
    return f"{task.config['defence']}{'' if epsilon is None else f' ε={epsilon:g}'}, seed {task.config['run_seed']}"


def with_default_split(graph: Graph, seed: int = 0) -> Graph:
    """Own graphs come without masks: half of the labelled nodes train, a quarter each validates and tests."""
    return graph if graph.y is None or graph.masks is not None else apply_split(graph, "50:25:25", seed)


def check_plan(plan: AuditPlan, graph: Graph) -> None:
    """Refuse early what would fail late."""
    if graph.num_edges == 0:
        raise InputError(f"{graph.name} has no edges: there is nothing to hide or to find")
    if graph.y is None:
        raise InputError(
            f"{graph.name} has no labels; a model cannot be trained (audit an existing one with --release or --url)"
        )
    if graph.x is None:
        raise InputError(f"{graph.name} has no features, and every model here needs them")
    labelled = graph.y if graph.multilabel else graph.y[graph.y >= 0]
    if not graph.multilabel and len(np.unique(labelled)) < 2:
        raise InputError(f"{graph.name} has one class only; a classifier has nothing to learn")
    if plan.runs < 1 or plan.nodes < 2:
        raise InputError(f"an audit needs at least 1 run and 2 nodes, got {plan.runs} and {plan.nodes}")
    bad = [e for e in plan.epsilons if not (e > 0) or math.isnan(e)]
    if bad:
        raise InputError(f"epsilon must be > 0, got {bad[0]:g}")
    for defence, epsilon, _ in plan.cells():
        make_defence(defence, epsilon)
    preset(plan.preset, graph.name, plan.model)
    for name in plan.attacks:
        ATTACKS.get(name)


def read_kept(path: Path) -> dict[str, dict[str, Any]]:
    """Finished tasks of an earlier, interrupted audit; a last line cut short is dropped."""
    done: dict[str, dict[str, Any]] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            done[entry["id"]] = entry["result"]
    return done


def open_private(path: Path) -> Any:
    """Append to a file that only its owner can read: it names true edges."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}; choose another --out") from error
