"""One target under attack: draw the pairs of a protocol, run the attack, compare with the truth, make rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.attack import AttackResult
from edgeveil.attacks.run_attack import attack as run_attack
from edgeveil.attacks.run_attack import make_attack
from edgeveil.defences.graphprivatizer.local import without_kprop
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs, rank
from edgeveil.metrics.edge_draw import EdgeDraw, draw_by_edges, leakage_error
from edgeveil.metrics.protocol import (
    BALANCED_BELIEFS,
    BELIEFS,
    SUBSET_SEEDS,
    balanced_pairs,
    belief_figures,
    candidates,
    sampled_pairs,
    subset,
    subset_truth,
)
from edgeveil.metrics.ranking import at_belief
from edgeveil.release.release import Release
from edgeveil.release.target import AnswerKind, LocalTarget, Target
from edgeveil.runs.rows import Row
from edgeveil.runs.run_config import AttackConfig
from edgeveil.seeds import stream

__all__ = [
    "Attacked",
    "Given",
    "Service",
    "at_density",
    "attack_service",
    "draw_nodes",
    "draw_sample",
    "figures_of",
    "rows_of",
    "service_of",
    "shared_target",
    "why_not",
]

Bool = NDArray[np.bool_]
Int = NDArray[np.int64]
Float = NDArray[np.float64]
Service = Callable[[AttackConfig], Target]
KNOWN_BELIEFS = {**BALANCED_BELIEFS, **BELIEFS}


@dataclass(frozen=True, eq=False)
class Given:
    """Whom to attack where the protocol is "given": all pairs among `nodes`, or just `pairs` [2, P].

    `known_edges` [2, K] are what the attacker knows beforehand, `features` what he holds for the target's own. `draw`:
    how the nodes were drawn, if not with equal chances.
    """

    nodes: Int | None = None
    draw: EdgeDraw | None = None
    pairs: Int | None = None
    known_edges: Int | None = None
    features: Any = None


@dataclass(frozen=True, eq=False)
class Attacked:
    """One attack on one sample of pairs. `nodes` is None where the protocol samples pairs instead of nodes.

    `truth` says which of the listed pairs are edges; `edges` counts those that a sparse result leaves out as well. With
    `weights` (nodes drawn by edges) a listed pair stands for so many of the `totals` edges and non-edges of the graph.
    """

    config: AttackConfig
    result: AttackResult
    truth: Bool
    degree: str | None
    sample_seed: int
    nodes: Int | None
    edges: int
    draw: EdgeDraw | None = None
    weights: Float | None = None
    totals: tuple[int, int] = (0, 0)

    @property
    def rest(self) -> tuple[float, float] | None:
        """(edges, non-edges) among the pairs that a sparse result leaves out."""
        if not self.result.unlisted:
            return None
        if self.weights is None:
            return self.result.rest(self.edges, int(self.truth.sum()))
        listed = self.weights[self.truth].sum(), self.weights[~self.truth].sum()
        edges, others = (max(total - float(w), 0.0) for total, w in zip(self.totals, listed, strict=True))
        return edges, others

    @property
    def density(self) -> float:
        """Edges over pairs among the attacked; of the whole graph where nodes were drawn by edges."""
        edges, pairs = (
            (self.edges, self.result.num_pairs) if self.weights is None else (self.totals[0], sum(self.totals))
        )
        return edges / max(pairs, 1)

    @property
    def named(self) -> Bool:
        """The listed pairs that an attacker names who names as many as there are edges; ties in listed order."""
        order, out = self.result.top(len(self.result.scores)), np.zeros(len(self.truth), bool)
        if self.weights is None:
            out[order[: self.edges]] = True
        else:
            out[order] = np.cumsum(self.weights[order]) <= self.totals[0] * (1 + 1e-9)
        return out


def shared_target(
    release: Release, answer: AnswerKind = "logits", dtype: str = "float64", decimals: int | None = None
) -> LocalTarget:
    """A target whose exact influence is computed once per node set, however many attacks and variants ask for it."""
    target = Target.local(release, answer, dtype=dtype, decimals=decimals)
    known: dict[bytes, Any] = {}
    compute = target.influence
    if compute is not None:

        def influence(nodes: Int) -> Any:
            key = nodes.tobytes()
            if key not in known:
                known.clear()  # the sets of two samples never meet again, and each can be large
                known[key] = compute(nodes)
            return known[key]

        target.influence = influence
    return target


def service_of(target: Release | Target) -> Service:
    """What each attack is pointed at: views of one release that share work, or one given target as it is."""
    if isinstance(target, Release):
        release = target

        @cache
        def view(bypass: bool, answer: AnswerKind, dtype: str, decimals: int | None) -> LocalTarget:
            return shared_target(without_kprop(release) if bypass else release, answer, dtype, decimals)

        return lambda config: view(config.bypass_kprop, config.answer, config.dtype, config.decimals)
    return lambda _: target


def sample_seeds(config: AttackConfig, seed: int) -> tuple[int, ...]:
    """Seeds of the attacked samples: those asked for, else one per run (LinkTeller's own three come first)."""
    if config.sample_seeds is not None:
        return config.sample_seeds
    return (SUBSET_SEEDS[seed] if seed < len(SUBSET_SEEDS) else seed,)


def attack_service(
    service: Service,
    graph: Graph,
    configs: tuple[AttackConfig, ...],
    seed: int,
    given: Given | None = None,
    shadows: Mapping[str, Graph] | None = None,
) -> Iterator[Attacked]:
    """Every attack on every sample; attacks on the same sample follow each other, so that they share its influence."""
    samples: dict[tuple[Any, ...], list[AttackConfig]] = {}
    for config in configs:
        degrees = config.degrees if config.protocol == "subset" else (None,)
        for degree in degrees:
            for sample in sample_seeds(config, seed):
                key = (config.protocol, degree, sample, config.nodes, config.pair_variant, config.drawn)
                samples.setdefault(key, []).append(config)
    for (_, degree, sample, *_), members in samples.items():
        nodes, pairs, draw = draw_sample(graph, members[0], degree, sample, given)
        for config in members:
            own = sample if config.seed is None else config.seed
            if why_not(config, service(config)):
                continue
            shadow = None if config.shadow is None else (shadows or {})[config.shadow]
            known = _known(config, graph, own, given)
            result = run_attack(
                service(config),
                config.name,
                nodes,
                pairs=pairs,
                seed=own,
                shadow=shadow,
                known_edges=known,
                features=None if given is None else given.features,
                **config.params,
            )
            truth = subset_truth(graph, result.pairs)
            edges = _edges_among(graph, nodes) if result.unlisted else int(truth.sum())
            found = Attacked(config, result, truth, degree, sample, nodes, edges)
            yield found if draw is None else _weighted(found, graph, draw, known)


def _weighted(found: Attacked, graph: Graph, draw: EdgeDraw, known: Int | None) -> Attacked:
    """With weights for the graph's pairs; pairs that the attacker knows and does not score are no part of them."""
    i, j = np.triu_indices(len(draw.nodes), 1)
    every = np.stack([draw.nodes[i], draw.nodes[j]])
    skipped = 0 if known is None or found.result.num_pairs == len(i) else known.shape[1]
    totals = graph.num_edges - skipped, num_pairs(graph.num_nodes) - graph.num_edges
    listed = found.result.pairs
    weights = draw.weights(graph, every if found.result.unlisted else listed, totals[0])
    if found.result.unlisted:
        low, high = np.sort(listed, axis=0)
        ranks = rank(every[0], every[1], graph.num_nodes)  # ascending, as the nodes are
        weights = weights[np.searchsorted(ranks, rank(low, high, graph.num_nodes))]
    return replace(found, draw=draw, weights=weights, totals=totals)


def _known(config: AttackConfig, graph: Graph, seed: int, given: Given | None) -> Int | None:
    """Edges the attacker knows: those given, else a uniform draw of the granted share."""
    if given is not None and given.known_edges is not None:
        return given.known_edges
    if not config.knows:
        return None
    count = max(1, round(config.knows * graph.num_edges))
    drawn = stream(seed, "known edges").choice(graph.num_edges, count, replace=False)
    return np.asarray(graph.edge_index)[:, np.sort(drawn)]


def why_not(config: AttackConfig, target: Target) -> str:
    """Why an attack is left out; empty where it runs, and where it is to fail if it cannot."""
    if not (config.where_it_fits or config.if_it_applies):
        return ""
    method = make_attack(config.name, **config.params)
    granted = method.needed & {"shadow graph", "known edges"} and (config.shadow is not None or config.knows)
    reason = "" if granted else method.lacks(target)
    return reason or (method.idle(target) if config.where_it_fits else "")


def _edges_among(graph: Graph, nodes: Int | None) -> int:
    inside = np.ones(graph.num_nodes, dtype=bool) if nodes is None else np.isin(np.arange(graph.num_nodes), nodes)
    u, v = graph.edge_index
    return int((inside[u] & inside[v]).sum())


def draw_sample(
    graph: Graph, config: AttackConfig, degree: Any, sample: int, given: Given | None = None
) -> tuple[Int | None, Int | None, EdgeDraw | None]:
    """The attacked nodes (None: those of the pairs), the pairs (None: all among the nodes), how nodes were drawn."""
    if config.protocol == "given":
        if given is None:
            raise InputError("protocol 'given' needs nodes or pairs from its caller; name another protocol")
        return given.nodes, given.pairs, given.draw
    if config.protocol == "subset":
        if config.drawn == "edges" and degree != "unconstrained":
            raise InputError(f"nodes of {degree} degree cannot be drawn by edges; use drawn='nodes'")
        draw = draw_by_edges(graph, config.nodes, sample) if config.drawn == "edges" else None
        return (draw_nodes(graph, config.nodes, sample, degree) if draw is None else draw.nodes), None, draw
    if config.protocol == "balanced":
        return None, balanced_pairs(graph, sample).pairs, None
    few = min(config.nodes, graph.num_edges)
    if config.pair_variant == "first-rows":
        return None, first_rows_pairs(graph, few, sample), None
    return None, sampled_pairs(graph, few, few, sample, config.pair_variant).pairs, None


def draw_nodes(graph: Graph, size: int, seed: int, degree: Any = "unconstrained") -> Int:
    """A uniform sample of a degree class; all of it, in the order of the ids, where it has no more nodes than asked."""
    everyone = candidates(graph, degree)
    return everyone if len(everyone) <= size else subset(graph, degree, seed, size)


def first_rows_pairs(graph: Graph, count: int, seed: int) -> Int:
    """Uniform edges, and non-edges from the first 2E free places of the matrix, as GraphPrivatizer's code has them."""
    rng = stream(seed, "pairs", "first rows")
    n, reach = graph.num_nodes, 2 * graph.num_edges
    edges = graph.edge_index[:, rng.choice(graph.num_edges, count, replace=False)]
    rows = min(n, reach // max(n - 1 - int(graph.degrees.max()), 1) + 1)
    u, v = np.repeat(np.arange(rows), n), np.tile(np.arange(n), rows)
    free = np.flatnonzero((u != v) & ~graph.has_edges(u, v))[:reach]
    chosen = rng.choice(free, min(count, len(free)), replace=False)
    return np.concatenate([edges, np.stack([u[chosen], v[chosen]])], axis=1)


def _factors(config: AttackConfig) -> Mapping[str, float]:
    for belief in config.beliefs:
        if belief not in KNOWN_BELIEFS:
            raise UnknownNameError("belief", belief, KNOWN_BELIEFS)
    return {belief: KNOWN_BELIEFS[belief] for belief in config.beliefs}


def figures_of(attacked: Attacked) -> dict[str, dict[str, float]]:
    """Figures per belief. Node subsets alone round the density, as LinkTeller does, unless asked for the exact one."""
    config = attacked.config
    rounded = config.protocol == "subset" and config.density == "rounded"
    return belief_figures(
        attacked.result.scores, attacked.truth, _factors(config), rounded=rounded, rest=attacked.rest,
        weights=attacked.weights,
    )  # fmt: skip


def at_density(attacked: Attacked, density: float | None) -> tuple[float, dict[str, float]]:
    """A belief in numbers (None: the true density) and the figures at it."""
    scores, truth, rest, weights = attacked.result.scores, attacked.truth, attacked.rest, attacked.weights
    belief = attacked.density if density is None else density
    figures = belief_figures(scores, truth, {"k": 1.0}, rounded=False, rest=rest, weights=weights)["k"]
    return belief, figures | at_belief(scores, truth, belief, rest, weights)


def rows_of(attacked: Attacked, labels: Mapping[str, Any]) -> Iterator[Row]:
    """One row per belief."""
    result, config = attacked.result, attacked.config
    params = {**labels["params"], "attack": dict(result.params), "sample_seed": attacked.sample_seed}
    if config.protocol == "sampled":
        params["pairs"] = config.pair_variant
    if config.protocol == "subset" and config.density == "exact":
        params["density"] = "exact"
    if attacked.draw is not None:
        params["drawn"] = "edges"
    if config.shadow is not None:
        params["shadow"] = config.shadow
    if config.knows:
        params["knows"] = config.knows
    if config.bypass_kprop:
        params["bypass_kprop"] = True
    if config.service is not None:
        params["target"] = config.service
    common = {
        **labels,
        "params": params,
        "protocol": config.protocol,
        "attack": config.name,
        "attack_access": result.access,
        "degree": attacked.degree,
    }
    if "variant" not in labels["params"] and "variant" in result.params:
        common["variant"] = result.params["variant"]
    common |= {
        "queries": result.queries,
        "seconds_attack": result.seconds,
        "n_nodes": len(np.unique(result.pairs)) if attacked.nodes is None else len(attacked.nodes),
        "n_pairs": result.num_pairs,
        "n_edges": attacked.edges,
        "chance": attacked.density if result.num_pairs else None,
    }
    if attacked.weights is not None:
        common["leakage_error"] = leakage_error(result.scores, attacked.truth, attacked.weights, attacked.rest)
    for belief, values in figures_of(attacked).items():
        known = {k: v for k, v in values.items() if k in Row.__dataclass_fields__}
        yield Row(**{**common, **known, "belief": belief})
