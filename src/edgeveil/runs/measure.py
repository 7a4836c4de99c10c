"""One run: a release and every attack on it, as a pure function of settings, graphs and seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgeveil.defences.api import defend
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.graph.splits import ALIASES, apply_split, draw
from edgeveil.metrics.utility import by_degree, homophily
from edgeveil.models.memo import Memo, remembering
from edgeveil.models.presets import preset
from edgeveil.release.release import Release
from edgeveil.runs.rows import Row, plain, release_labels
from edgeveil.runs.run_config import RunConfig
from edgeveil.runs.score import Attacked, attack_release, rows_of

__all__ = ["FUNCTION", "Measured", "measure", "run", "split_of", "utility_metric"]

FUNCTION = "edgeveil.runs.measure:run"
DEGREE_EDGES = (1, 6, 11, 21, 51, float("inf"))
_MEMO = Memo()  # one per process: trainings that several runs have in common


@dataclass(frozen=True, eq=False)
class Measured:
    """All that one run found, for callers that want more than rows (curves, exposed edges)."""

    config: RunConfig
    graph: Graph
    release: Release
    figures: Mapping[str, float]
    attacked: tuple[Attacked, ...]
    rows: tuple[Row, ...]


def run(config: Mapping[str, Any], graphs: Mapping[str, Graph]) -> dict[str, Any]:
    """What executors call: plain settings in, plain rows and figures out."""
    with remembering(_MEMO):
        found = measure(RunConfig.model_validate(config), graphs)
    return {
        "rows": [row.to_json() for row in found.rows],
        "figures": plain(dict(found.figures)),
        "notes": list(found.release.notes),
    }


def measure(config: RunConfig, graphs: Mapping[str, Graph]) -> Measured:
    """Train the release, measure its utility, attack it."""
    training, inference = _graphs(config, graphs)
    release = _defend(config, training, inference)
    graph = training if inference is None else inference
    figures = _utility(release, graph) | _false_edges(release, graph) | _details(release, graph)
    metric = utility_metric(config)
    if metric not in figures:
        raise InputError(
            f"utility metric {metric!r} does not exist for {graph.name}; it has {', '.join(_utility(release, graph))}"
        )
    labels = release_labels(release, split=training.split, seed=config.seed) | {
        "utility_metric": metric,
        "utility": figures[metric],
    }
    if config.preset != "default":
        labels["params"] = {**labels["params"], "preset": config.preset}
    attacked = tuple(attack_release(release, graph, config.attacks, config.seed))
    rows = [row for part in attacked for row in rows_of(part, labels)]
    return Measured(config, graph, release, figures, attacked, tuple(rows or [Row(**labels)]))


def utility_metric(config: RunConfig) -> str:
    """The papers' habit: F1 of the rarer class on Twitch, micro-F1 elsewhere."""
    return config.utility or ("rare_f1" if config.dataset.startswith("twitch") else "micro_f1")


def split_of(config: RunConfig, graph: Graph) -> str | None:
    """The split in use: the one asked for, else the preset's, else the dataset's default."""
    return config.split or preset(config.preset, graph.name, config.model).split or graph.split


def _graphs(config: RunConfig, graphs: Mapping[str, Graph]) -> tuple[Graph, Graph | None]:
    training = graphs[config.graphs[0]]
    name = split_of(config, training)
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
    base = preset(config.preset, training.name, config.model)
    return defend(
        training,
        config.defence,
        epsilon=config.epsilon,
        model=replace(base.model, **config.model_params),
        train=replace(base.train, **config.train_params),
        scaling=base.scaling,
        seed=config.seed,
        inference_graph=inference,
        setting=config.setting,
        preset=config.preset,
        **config.defence_params,
    )


def _utility(release: Release, graph: Graph) -> dict[str, float]:
    """Every scalar utility metric on the test nodes and, named ``val_...``, on the validation nodes."""
    found = _scalars(release.utility("test"))
    if graph.masks is not None and graph.masks.val.any():
        found |= {f"val_{k}": v for k, v in _scalars(release.utility("val")).items()}
    return found


def _details(release: Release, graph: Graph) -> dict[str, float]:
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
