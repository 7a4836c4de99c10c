"""The one measurement: a release or a target, every attack on it, the truth, rows. Pure in settings, graphs and seed.

Everything that turns a graph into rows comes through here: sweeps, printed tables, audits, advice, trials of the guard
and the check of a claim through a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from edgeveil.attacks.attack import ATTACKS
from edgeveil.defences.defend import defend
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.graph.splits import ALIASES, apply_split, draw
from edgeveil.metrics.node_scores import majority_said, node_scores
from edgeveil.metrics.utility import by_degree, default_metric, homophily
from edgeveil.models.memo import Memo, remembering
from edgeveil.models.own_models import code_of
from edgeveil.models.presets import preset
from edgeveil.release.release import Release
from edgeveil.release.target import Target
from edgeveil.runs.details import budget_curve, leak_details, packed_answers, utility_by_degree
from edgeveil.runs.equal_releases import once
from edgeveil.runs.rows import Row, plain, release_labels
from edgeveil.runs.run_config import AttackConfig, RunConfig
from edgeveil.runs.score import Attacked, Given, Service, attack_service, rows_of, service_of, why_not

__all__ = ["DOES_NOT", "FUNCTION", "Measured", "measure", "measure_target", "run", "sharing_work", "split_of"]

FUNCTION = "edgeveil.runs.measure:run"
DOES_NOT = "does not apply"
DEGREE_EDGES = (1, 6, 11, 21, 51, float("inf"))
_MEMO = Memo()  # one per process: trainings that several runs have in common


@dataclass(frozen=True, eq=False)
class Measured:
    """All that one run found. `release` is None where somebody else's target was attacked."""

    graph: Graph
    release: Release | None
    figures: Mapping[str, float]
    attacked: tuple[Attacked, ...]
    rows: tuple[Row, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)  # named attacks that do not apply, and why

    @property
    def notes(self) -> tuple[str, ...]:
        """What release and attacks remarked, once each, and which attacks do not apply."""
        own = self.release.notes if self.release else ()
        left = [f"{name} {DOES_NOT}: {why}" for name, why in self.unfit.items()]
        return tuple(dict.fromkeys([*own, *(note for part in self.attacked for note in part.result.notes), *left]))


def run(config: Mapping[str, Any], graphs: Mapping[str, Graph]) -> dict[str, Any]:
    """What executors call: plain settings in, plain rows, figures, notes and details out."""
    with sharing_work():
        found = measure(RunConfig.model_validate(config), graphs)
    return {
        "rows": [row.to_json() for row in found.rows],
        "figures": plain(dict(found.figures)),
        "notes": list(found.notes),
        "details": plain(found.details),
    }


def sharing_work() -> AbstractContextManager[Memo]:
    """Inside, what another run of this process trained or attacked is not trained or attacked again."""
    return remembering(_MEMO)


def measure(config: RunConfig, graphs: Mapping[str, Graph], given: Given | None = None) -> Measured:
    """Train the release, measure its utility, attack it, compare with the truth."""
    training, inference = _graphs(config, graphs)
    release = _defend(config, training, inference)
    graph = training if inference is None else inference
    figures = _utility(release, graph) | _false_edges(release, graph) | _by_class_and_degree(release, graph)
    metric = config.utility or default_metric(graph.num_classes, multilabel=graph.multilabel)
    if metric not in figures and (config.utility or can_score(graph)):
        raise InputError(
            f"utility metric {metric!r} does not exist for {graph.name}; it has {', '.join(_utility(release, graph))}"
        )
    labels = release_labels(release, split=training.split, seed=config.seed) | {
        "utility_metric": metric,
        "utility": figures.get(metric),
        "baseline_majority": _majority(training, graph, metric),
    }
    if config.paper != "default":
        labels["params"] = {**labels["params"], "preset": config.paper}
    found = measure_target(release, graph, config.attacks, seed=config.seed, labels=labels, given=given, shadows=graphs)
    found = replace(found, figures=figures)
    return replace(found, details=_details(found, config)) if config.details else found


def measure_target(
    target: Release | Target,
    graph: Graph,
    attacks: Sequence[AttackConfig],
    *,
    seed: int = 0,
    labels: Mapping[str, Any] | None = None,
    given: Given | None = None,
    shadows: Mapping[str, Graph] | None = None,
) -> Measured:
    """The second half of `measure`, for a release or target that exists already: attack it and compare."""
    if labels is None:
        labels = release_labels(target, seed=seed) if isinstance(target, Release) else foreign_labels(graph, seed)
    service, chosen = service_of(target), tuple(attacks)
    unfit = {a.name: why for a in chosen if a.if_it_applies and (why := why_not(a, service(a)))}
    work = partial(attack_service, service, graph, chosen, seed, given, shadows or {})
    attacked = tuple(work()) if given is not None else once(target, graph, chosen, seed, work)
    rows = [row for part in attacked for row in rows_of(part, labels)]
    release = target if isinstance(target, Release) else None
    return Measured(graph, release, {}, attacked, tuple(rows or [Row(**labels)]), unfit=unfit)


def foreign_labels(graph: Graph, seed: int | None = None) -> dict[str, Any]:
    """What rows say of a model of which nothing is known but its answers."""
    return {
        "dataset": graph.name,
        "is_twin": graph.is_twin,
        "defence": "unknown",
        "model": "existing model",
        "status": "none",
        "params": {},
        "seed": seed,
    }


def owner_details(found: Measured, service: Service | None = None, seed: int = 0) -> dict[str, Any]:
    """What the owner's report shows besides rows; with a `service` also edges found against queries asked."""
    part = next((part for part in found.attacked if part.nodes is not None), None)
    claim = None if found.release is None else found.release.guarantee
    return {
        "statement": "" if claim is None else claim.statement(),
        "reference": "" if claim is None else claim.reference,
        "notes": list(found.notes),
        "leak": leak_details(found.attacked, found.graph),
        "budget": []
        if service is None or part is None or part.nodes is None
        else budget_curve(service, found.graph, part.nodes, seed, part.draw),
    }


def _details(found: Measured, config: RunConfig) -> dict[str, Any]:
    """Undefended, a query budget tells how hard the graph is to read; behind a defence the curve would say no more."""
    assert found.release is not None
    asked = config.defence == "none" and any(_budgeted(a.name) for a in config.attacks)
    service = service_of(found.release) if asked else None
    bins = utility_by_degree(found.release, found.graph) if can_score(found.graph) else []
    answers = {
        "answers" if part == "test" else f"answers_{part}": packed_answers(found.release, found.graph, part)
        for part in ("test", "val")
        if can_score(found.graph)
    }
    return owner_details(found, service, config.seed) | {"utility_by_degree": bins, **answers}


def _budgeted(attack: str) -> bool:
    return ATTACKS.get(attack).watches and ATTACKS.takes(attack, "queries")


def can_score(graph: Graph) -> bool:
    """Whether the graph has labelled test nodes."""
    return graph.y is not None and (graph.masks is None or bool(graph.masks.test.any()))


def _majority(training: Graph, graph: Graph, metric: str) -> float | None:
    """Utility of always naming the most frequent class of the training nodes."""
    if training.y is None or graph.y is None or graph.multilabel or not can_score(graph):
        return None
    train = training.masks.train if training.masks is not None else training.y >= 0
    test = graph.y >= 0 if graph.masks is None else graph.masks.test & (graph.y >= 0)
    y = graph.y[test]
    known = ("accuracy", "micro_f1", "macro_f1", "rare_f1")
    if metric not in known or not len(y):
        return None
    return float(node_scores(majority_said(training.y, train, len(y)), y, graph.num_classes, metric).mean())


def split_of(config: RunConfig, graph: Graph) -> str | None:
    """The split in use: the one asked for, else the preset's, else the dataset's default."""
    return config.split or preset(config.preset, graph.dataset, config.model).split or graph.split


def _graphs(config: RunConfig, graphs: Mapping[str, Graph]) -> tuple[Graph, Graph | None]:
    training = graphs[config.graphs[0]]
    name = None if config.split == "given" else split_of(config, training)
    if name is not None:
        drawn = _is_rule(name)
        training = (
            training.with_split(name, draw(training, name, config.split_seed)) if drawn else apply_split(training, name)
        )
    return training, None if config.train_on is None else graphs[config.dataset]


def _is_rule(split: str) -> bool:
    """Whether a split is drawn (and then from this run's own seed) rather than stored."""
    rule = ALIASES.get(split, split)
    return ":" in rule or "per-class" in rule


def _defend(config: RunConfig, training: Graph, inference: Graph | None) -> Release:
    if config.model_code is not None and (here := code_of(config.model)) != config.model_code:
        raise InputError(
            f"the code of the model {config.model!r} here ({here or 'unknown'}) is not the one that this run was "
            f"planned with ({config.model_code}); start the sweep again"
        )
    base = preset(config.paper, training.dataset, config.model)
    return defend(
        training,
        config.defence,
        epsilon=config.epsilon,
        model=replace(base.model, **config.model_params),
        train=replace(base.train, **config.train_params),
        scaling=config.scaling,
        seed=config.seed,
        inference_graph=inference,
        setting=config.setting,
        preset=config.preset,
        **config.defence_params,
    )


def _utility(release: Release, graph: Graph) -> dict[str, float]:
    """Every scalar utility metric on the test nodes and, named ``val_...``, on the validation nodes."""
    if not can_score(graph):
        return {}
    found = _scalars(release.utility("test"))
    if graph.masks is not None and graph.masks.val.any():
        found |= {f"val_{k}": v for k, v in _scalars(release.utility("val")).items()}
    return found


def _by_class_and_degree(release: Release, graph: Graph) -> dict[str, float]:
    """Utility by node degree (LinkTeller Fig. 4) and homophily per class, true and predicted (LPGNet Fig. 3)."""
    if graph.multilabel or graph.y is None:
        return {}
    logits = release.predict()
    test = None if graph.masks is None else graph.masks.test
    found: dict[str, float] = {}
    for part in by_degree(logits, graph.y, graph.degrees, DEGREE_EDGES, test):
        name = f"{part['low']:.0f}-" + ("" if part["high"] == float("inf") else f"{part['high'] - 1:.0f}")
        found |= {f"{metric} degree {name}": part[metric] for metric in ("micro_f1", "rare_f1") if metric in part}
    known = graph.y if (graph.y >= 0).all() else None
    for label, classes in (("homophily", logits.argmax(axis=1)), ("homophily_true", known)):
        if classes is not None:
            shares = homophily(graph.adjacency, classes, graph.num_classes)
            found |= {f"{label}_{number}": float(value) for number, value in enumerate(shares)}
    return found


def _scalars(values: Mapping[str, Any]) -> dict[str, float]:
    return {k: float(v) for k, v in values.items() if isinstance(v, (int, float)) and k not in ("nodes", "rare_class")}


def _false_edges(release: Release, graph: Graph) -> dict[str, float]:
    """Share of the released structure's edges that the private graph does not have."""
    adjacency = getattr(release.predictor, "adjacency", None)
    if adjacency is None or release.contains_private_graph or not adjacency.nnz:
        return {}
    u, v = adjacency.nonzero()
    other = u != v
    return {"false_edge_share": 1.0 - float(graph.has_edges(u[other], v[other]).mean())} if other.any() else {}
