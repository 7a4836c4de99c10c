"""The owner's audit: every chosen defence over a grid of epsilon, each release attacked on the same nodes.

An audit is a plan of runs like any other: its runs go through the one engine into a store, so that an interrupted audit
goes on where it stopped, and a look at more seeds or more defences repeats nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edgeveil.attacks.attack import ATTACKS, by_strength
from edgeveil.defences.defence import DEFENCES
from edgeveil.defences.defend import make_defence
from edgeveil.errors import InputError
from edgeveil.graph.catalog import names
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import check_scaling
from edgeveil.graph.splits import apply_split
from edgeveil.metrics.node_scores import imbalanced
from edgeveil.models.own_models import model_name
from edgeveil.models.presets import preset
from edgeveil.registry import canonical
from edgeveil.runs.executors import Executor
from edgeveil.runs.measure import DOES_NOT
from edgeveil.runs.plan import model_for, takes_epsilon
from edgeveil.runs.records import Record
from edgeveil.runs.run_config import AttackConfig, RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import Progress, stored, sweep
from edgeveil.runs.time_limit import TimeLimit
from edgeveil.seeds import derive

__all__ = [
    "DEFAULT_SPLIT",
    "MIN_EDGES",
    "AuditPlan",
    "CellName",
    "Found",
    "attack_configs",
    "cell_of",
    "check_attacked",
    "check_plan",
    "drawn_how",
    "enough_nodes",
    "graphs_of",
    "judged_by",
    "make_plan",
    "run_audit",
    "with_default_split",
    "with_shadow",
]

DEFAULT_SPLIT = "50:25:25"
MOST_NODES = 4000  # eight million pairs
MIN_EDGES = 30  # fewer true edges among the attacked nodes make every share a coin toss


CellName = tuple[str, float | None, int]  # defence, epsilon (None where it takes none), seed


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """What to try. `nodes` are attacked, all pairs among them; `queries` is the budget of attacks that have one.

    `params` sets parameters by the name of a defence or attack; `model_params` and `train_params` replace the preset's
    (hidden, dropout; epochs, lr). `shadow` names the public graph for attacks that learn.

    A run's name depends on its own settings alone. To look at more seeds, or at more seeds of some defences, run the
    same plan with a larger `runs` or fewer `defences` into the same store: what is there is not run again.
    """

    defences: tuple[str, ...] = field(default_factory=lambda: DEFENCES.ranked("audited"))
    epsilons: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    model: str = "gcn"
    attacks: tuple[str, ...] = field(default_factory=by_strength)
    runs: int = 1
    seed: int = 0
    nodes: int = 500
    drawn: str = "nodes"  # how: with equal chances, or by "edges" (see `drawn_how`)
    queries: int = 100
    preset: str = "default"
    setting: str | None = None
    utility: str | None = None
    scaling: str = "auto"
    split: str | None = None  # a rule by which every run draws its own split; None: the graph's masks
    split_seed: int = 0
    attacked_runs: int | None = None  # the first so many runs are attacked, the others only trained; None: all
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    model_params: Mapping[str, Any] = field(default_factory=dict)
    train_params: Mapping[str, Any] = field(default_factory=dict)
    shadow: str | None = None
    knows: float = 0.0  # share of the true edges granted to attacks that learn

    def cells(self) -> Iterator[CellName]:
        """Every release to train."""
        for run, name in itertools.product(range(self.runs), self.defences):
            for epsilon in self.epsilons if takes_epsilon(name) else (None,):
                yield name, epsilon, self.seed + run

    def configs(self, graphs: Mapping[str, Graph]) -> list[RunConfig]:
        """The runs on the graphs of `graphs_of`: one graph, or a training and an inference graph."""
        return [self.config(graphs, *cell) for cell in self.cells()]

    def config(self, graphs: Mapping[str, Graph], defence: str, epsilon: float | None, seed: int) -> RunConfig:
        """One run."""
        names, run = list(graphs), seed - self.seed
        attacked = self.attacked_runs is None or run < self.attacked_runs
        attacks = attack_configs(self, seed) if attacked else ()
        return RunConfig(
            dataset=names[-1], train_on=names[0] if len(names) > 1 else None, split=self.split or "given",
            split_seed=self.split_seed + run if self.split else 0, setting=self.setting,
            defence=defence, defence_params=self.params_of(defence), epsilon=epsilon,
            model=model_for(defence, self.model), preset=self.preset, seed=seed, utility=self.utility,
            scaling=self.scaling, model_params=dict(self.model_params), train_params=dict(self.train_params),
            attacks=attacks, details=True,
        )  # fmt: skip

    def params_of(self, method: str) -> dict[str, Any]:
        """What is set for a defence or attack."""
        return next((dict(p) for name, p in self.params.items() if canonical(name) == canonical(method)), {})


def make_plan(wishes: Mapping[str, Any]) -> AuditPlan:
    """A plan from keywords, as `ev.audit` and `ev.advise` take them."""
    unknown = wishes.keys() - set(AuditPlan.__dataclass_fields__)
    if unknown:
        known = ", ".join(AuditPlan.__dataclass_fields__)
        raise InputError(f"an audit has no setting {min(unknown)!r}; it has {known}")
    lists = ("defences", "epsilons", "attacks")
    given: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in wishes.items()}
    if "model" in given:
        given["model"] = model_name(given["model"])
    plan = AuditPlan(**given)
    tried = {canonical(name) for name in (*plan.defences, *plan.attacks)}
    for name in plan.params:
        if canonical(name) not in tried:
            raise InputError(f"parameters are set for {name!r}, which this audit does not try")
    return plan


def attack_configs(plan: AuditPlan, seed: int) -> tuple[AttackConfig, ...]:
    """Every attack of a plan on the same nodes, drawn for this seed; density exact, so that figures are about edges."""
    sample = derive(seed, "attacked nodes") % 2**32
    return tuple(
        AttackConfig(
            name=name, params=_budget(name, plan.queries) | plan.params_of(name),
            nodes=plan.nodes, drawn="edges" if plan.drawn == "edges" else "nodes", sample_seeds=(sample,), seed=seed,
            density="exact",
            shadow=plan.shadow if ATTACKS.get(name).needs & {"shadow graph", "knowledge"} else None,
            knows=plan.knows if ATTACKS.get(name).needs & {"known edges", "knowledge"} else 0.0,
            where_it_fits=plan.attacks == by_strength(), if_it_applies=plan.attacks != by_strength(),
        )
        for name in _with_learners(plan)
    )  # fmt: skip


def _with_learners(plan: AuditPlan) -> tuple[str, ...]:
    """Attacks that learn join the default ones where the owner grants something to learn from."""
    if plan.attacks != by_strength() or not (plan.knows or plan.shadow):
        return plan.attacks
    return (*plan.attacks, *(e.name for e in ATTACKS if "knowledge" in e.cls.needs))


def _budget(attack: str, queries: int) -> dict[str, int]:
    """For attacks that alter features; one that certifies asks what certainty needs."""
    return {"queries": queries} if ATTACKS.takes(attack, "queries") and ATTACKS.get(attack).watches else {}


def graphs_of(graph: Graph, inference: Graph | None) -> dict[str, Graph]:
    """The graphs of an audit under the names that its runs use: training first, then the one that is answered for."""
    first, second = _run_name(graph), _run_name(inference or graph)
    if inference is None:
        return {first: graph}
    return {first: graph, second if second != first else f"{second} (inference)": inference}


def _run_name(graph: Graph) -> str:
    """An own graph that is called like a dataset is not that dataset: its runs have other settings."""
    name = canonical(graph.name)
    return name if graph.dataset or name.removesuffix("-twin") not in names() else f"{name} (own)"


@dataclass(frozen=True)
class Found:
    """Finished runs in the order of the plan, what failed, in words, and what a time limit left no room for."""

    records: list[Record] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    postponed: list[CellName] = field(default_factory=list)


def run_audit(
    plan: AuditPlan,
    graph: Graph,
    inference: Graph | None,
    executor: Executor,
    store: Store,
    progress: Progress | None = None,
    shadow: Graph | None = None,
    *,
    cells: Sequence[CellName] | None = None,
    limit: TimeLimit | None = None,
) -> Found:
    """Run what the store does not hold yet. `shadow` is the graph that the plan calls so.

    `cells`: only these, in this order. With a `limit` some may be postponed.
    """
    check_plan(plan, inference or graph)
    graphs = graphs_of(graph, inference)
    known = graphs if shadow is None or plan.shadow is None else graphs | {plan.shadow: shadow}
    wanted = [plan.config(graphs, *cell) for cell in (plan.cells() if cells is None else cells)]
    summary = sweep(wanted, store, executor, known.__getitem__, plan="audit", progress=progress, limit=limit)
    failures = [f"{what}: {reason}" for what, reason in summary.failures.values()]
    postponed = [cell_of(task.config) for task in summary.postponed]
    return Found([record for _, record in stored(store, summary)], failures, postponed)


def cell_of(config: Mapping[str, Any]) -> CellName:
    """Which release a run's settings ask for."""
    return config.get("defence", "none"), config.get("epsilon"), config.get("seed", 0)


def with_default_split(graph: Graph, seed: int = 0) -> Graph:
    """Own graphs come without masks: half of the labelled nodes train, a quarter each validates and tests."""
    return graph if graph.y is None or graph.masks is not None else apply_split(graph, DEFAULT_SPLIT, seed)


def enough_nodes(graph: Graph, least: int = 500) -> int:
    """How many nodes to attack: as many as hold about 2 MIN_EDGES true edges when drawn with equal chances.

    At least `least`, at most MOST_NODES. Where it takes more than `least`, nodes are drawn by edges (`drawn_how`), that
    gives far more true edges; this number then keeps enough non-edges to tell how many of them are named.
    """
    needed = math.ceil(graph.num_nodes * math.sqrt(2 * MIN_EDGES / max(graph.num_edges, 1)))
    return min(max(least, needed), MOST_NODES)


def drawn_how(graph: Graph, nodes: int) -> str:
    """With equal chances where up to 500 nodes then have 2 MIN_EDGES true edges among them, else by edges."""
    expected = graph.num_edges * (min(nodes, 500) / max(graph.num_nodes, 1)) ** 2
    return "nodes" if expected >= 2 * MIN_EDGES or nodes >= graph.num_nodes else "edges"


def judged_by(plan: AuditPlan, graph: Graph) -> AuditPlan:
    """The plan with macro-F1 as its utility where the classes are imbalanced and no metric was asked for."""
    if plan.utility is None and graph.y is not None and not graph.multilabel and imbalanced(graph.y):
        return replace(plan, utility="macro_f1")
    return plan


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
    check_scaling(plan.scaling)
    bad = [e for e in plan.epsilons if not (e > 0) or math.isnan(e)]
    if bad:
        raise InputError(f"epsilon must be > 0, got {bad[0]:g}")
    for defence, epsilon, _ in plan.cells():
        make_defence(defence, epsilon, **plan.params_of(defence)).check_size(graph)
    preset(plan.preset, graph.dataset, plan.model)
    for name in plan.attacks:
        needs = ATTACKS.create(name, **plan.params_of(name)).needed
        if "shadow graph" in needs and plan.shadow is None:
            raise InputError(f"{name} learns from a shadow graph; name a public one (shadow=, --shadow GRAPH)")
        if needs & {"known edges", "knowledge"} and not plan.knows and plan.shadow is None:
            raise InputError(f"{name} must know some edges or a public graph; give knows= (--knows 5%) or shadow=")


def check_attacked(plan: AuditPlan, records: Sequence[Record]) -> None:
    """Refuse an audit in which none of its attacks applied to any release: it would show no leakage at all."""
    if not plan.attacks or any(row.get("attack") for record in records for row in record.rows):
        return
    notes = (note for record in records for note in record.details.get("notes", ()))
    why = dict.fromkeys(note for note in notes if DOES_NOT in note)
    raise InputError("\n".join(["no attack applies to any release of this audit:", *why]))


def with_shadow(plan: AuditPlan, shadow: Graph | None, graph: Graph) -> AuditPlan:
    """The plan with a public graph for attacks that learn; never the graph under attack."""
    if shadow is None:
        return plan
    if shadow.fingerprint == graph.fingerprint:
        raise InputError(f"the shadow graph {shadow.name} is the graph under attack; name a public one")
    name = canonical(shadow.name)
    return replace(plan, shadow=f"{name} (shadow)" if name == canonical(graph.name) else name)
