"""The papers' figures without printed numbers: panels of curves, measured by the same recipes as the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from edgeveil.papers import graphprivatizer_tables as graphprivatizer
from edgeveil.papers import linkteller_tables as linkteller
from edgeveil.papers import lpgnet_tables as lpgnet
from edgeveil.papers.published import Published
from edgeveil.papers.recipes import Cell, Mode, Recipe

__all__ = ["FIGURES", "Curve", "Panel", "Point"]

TWITCH = ("twitch-ru", "twitch-de", "twitch-fr", "twitch-engb", "twitch-ptbr")
DEGREES = ("1-5", "6-10", "11-20", "21-50", "51-")


@dataclass(frozen=True)
class Point:
    """A place on the x axis (a number, a word, or a measured figure) and a measured figure."""

    x: float | str | Recipe
    y: Recipe


@dataclass(frozen=True)
class Curve:
    """Points of one model or defence; a flat one is a single measured level."""

    label: str
    points: tuple[Point, ...]
    flat: bool = False


@dataclass(frozen=True)
class Panel:
    """One coordinate system. In a heat panel a curve is a row (alpha) and a point a column (delta)."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    kind: Literal["lines", "scatter", "heat"] = "lines"


_CELLS: Mapping[str, Callable[[Published], Cell]] = {
    "linkteller": linkteller.cell,
    "lpgnet": lpgnet.cell,
    "graphprivatizer": graphprivatizer.cell,
}


def ask(paper: str, dataset: str, model: str, metric: str, **more: str) -> Recipe:
    """The recipe of a figure that is not printed, through the same rules as those that are."""
    blank = dict.fromkeys(("mechanism", "epsilon", "degree", "belief", "layers", "alpha", "delta", "attack"), "")
    unit, nan = "fraction", float("nan")
    p = Published(
        paper=paper, table="figure", dataset=dataset, model=model, metric=metric, mean=nan, std=None, runs=None,
        unit=unit, doubt="", **{**blank, **more},
    )  # fmt: skip
    return _CELLS[paper](p).recipes["published"]


def _epsilons(mode: Mode) -> tuple[str, ...]:
    return ("5", "7", "9") if mode == "quick" else tuple(map(str, range(1, 11)))


def _line(label: str, mode: Mode, paper: str, dataset: str, model: str, metric: str, **more: str) -> Curve:
    """One figure against epsilon."""
    recipes = {e: ask(paper, dataset, model, metric, epsilon=e, **more) for e in _epsilons(mode)}
    return Curve(label, tuple(Point(float(e), recipe) for e, recipe in recipes.items()))


def _level(label: str, paper: str, dataset: str, model: str, metric: str, **more: str) -> Curve:
    """One figure that does not depend on epsilon."""
    return Curve(label, (Point(0.0, ask(paper, dataset, model, metric, **more)),), flat=True)


def linkteller_3(mode: Mode) -> tuple[Panel, ...]:
    """Utility and attack F1 of EdgeRand, LapGraph, GCN and MLP against epsilon."""
    panels = []
    hit = {"attack": "linkteller", "degree": "unconstrained", "belief": "k"}
    for data in ("twitch-ru", "twitch-ptbr") if mode == "quick" else TWITCH:
        noisy = [("edgerand", {"mechanism": "edgerand"}), ("lapgraph", {"mechanism": "lapgraph"})]
        useful = [_line(name, mode, "linkteller", data, "gcn", "rare_f1", **how) for name, how in noisy]
        found = [_line(name, mode, "linkteller", data, "gcn", "f1", **how, **hit) for name, how in noisy]
        levels = [_level(m, "linkteller", data, m, "rare_f1", mechanism="none") for m in ("gcn", "mlp")]
        attacked = _level("gcn", "linkteller", data, "gcn", "f1", mechanism="none", **hit)
        panels.append(Panel(f"{data}: utility", "epsilon", "F1 of the rare class", (*useful, *levels)))
        panels.append(Panel(f"{data}: attack", "epsilon", "LinkTeller F1 at belief k", (*found, attacked)))
    return tuple(panels)


def linkteller_4(mode: Mode) -> tuple[Panel, ...]:
    """Utility by node degree at three epsilons."""
    panels = []
    epsilons = ("5", "9") if mode == "quick" else ("1", "5", "10")
    for data in ("twitch-ru",) if mode == "quick" else TWITCH:
        curves = []
        for mechanism, epsilon in [("none", ""), *((m, e) for m in ("edgerand", "lapgraph") for e in epsilons)]:
            points = tuple(
                Point(d, ask("linkteller", data, "gcn", f"rare_f1 degree {d}", mechanism=mechanism, epsilon=epsilon))
                for d in DEGREES
            )
            curves.append(Curve(f"{mechanism} {epsilon}".strip(), points))
        panels.append(Panel(data, "node degree", "F1 of the rare class", tuple(curves)))
    return tuple(panels)


def _utility(data: str, mode: Mode, models: tuple[str, ...] = ("dpgcn", "lpgnet-1", "lpgnet-2")) -> Panel:
    metric = "rare_f1" if data.startswith("twitch") else "micro_f1"
    lines = [_line(m, mode, "lpgnet", data, m, metric) for m in models]
    levels = [_level(m, "lpgnet", data, m, metric, epsilon="inf") for m in ("gcn", "mlp")]
    return Panel(f"{data}: utility", "epsilon", metric, (*lines, *levels))


def _trade(data: str, mode: Mode) -> Panel:
    def both(model: str, epsilon: str) -> Point:
        return Point(
            ask("lpgnet", data, model, "micro_f1", epsilon=epsilon),
            ask("lpgnet", data, model, "auc", epsilon=epsilon, attack="best"),
        )

    curves = [Curve(m, tuple(both(m, e) for e in _epsilons(mode))) for m in ("dpgcn", "lpgnet-1", "lpgnet-2")]
    curves += [Curve(m, (both(m, "inf"),)) for m in ("gcn", "mlp")]
    return Panel(data, "micro-F1", "AUC of the better attack", tuple(curves), "scatter")


def lpgnet_2(mode: Mode) -> tuple[Panel, ...]:
    """DPGCN on Cora: utility and attack AUC against epsilon."""
    lines = tuple(_line(f"dpgcn, {a}", mode, "lpgnet", "cora", "dpgcn", "auc", attack=a) for a in ("lpa", "linkteller"))
    return _utility("cora", mode, ("dpgcn",)), Panel("cora: attacks", "epsilon", "AUC", lines)


def lpgnet_3(mode: Mode) -> tuple[Panel, ...]:
    """Homophily of the true classes and of the classes that GCN, MLP and noiseless LPGNet predict, on Cora."""
    kinds = {"true classes": ("gcn", "homophily_true"), "gcn": ("gcn", "homophily"), "mlp": ("mlp", "homophily")}
    curves = []
    for label, (model, what) in {**kinds, "lpgnet-2": ("lpgnet-2", "homophily")}.items():
        recipes = [ask("lpgnet", "cora", model, f"{what}_{c}", epsilon="inf") for c in range(7)]
        curves.append(Curve(label, tuple(Point(float(c), recipe) for c, recipe in enumerate(recipes))))
    return (Panel("cora", "class", "mean share of neighbours in the same class", tuple(curves)),)


def _privatizer(model: str, mechanism: str) -> Callable[[Mode], tuple[Panel, ...]]:
    def build(mode: Mode) -> tuple[Panel, ...]:
        panels = []
        alphas, deltas = (("0", "0.5", "1"), ("0", "0.25", "1")) if mode == "quick" else (None, None)
        for data in ("cora",) if mode == "quick" else ("cora", "pubmed", "facebook", "amazon-photo"):
            for metric, title in (("delta_acc", "accuracy"), ("delta_auc", "attack AUC")):
                rows = tuple(
                    Curve(f"alpha {a}", tuple(Point(f"delta {d}", _shift(data, model, mechanism, metric, a, d))
                          for d in deltas or map(str, graphprivatizer.DELTAS)))
                    for a in alphas or map(str, graphprivatizer.ALPHAS)
                )  # fmt: skip
                panels.append(Panel(f"{data}: change of {title}", "delta", "alpha", rows, "heat"))
        return tuple(panels)

    return build


def _shift(data: str, model: str, mechanism: str, metric: str, alpha: str, delta: str) -> Recipe:
    attack = "linkteller" if metric == "delta_auc" else ""
    return ask(
        "graphprivatizer",
        data,
        model,
        metric,
        mechanism=mechanism,
        epsilon="0.1",
        alpha=alpha,
        delta=delta,
        attack=attack,
    )


_HEAT = {
    "Fig4": ("gat", "gp-t"), "Fig5": ("gat", "gp-m"), "Fig6": ("sage", "gp-t"), "Fig7": ("sage", "gp-m"),
    "Fig8": ("gcn", "gp-t"), "Fig9": ("gcn", "gp-m"), "Fig10": ("gatv2", "gp-t"), "Fig11": ("gatv2", "gp-m"),
    "Fig12": ("transformer", "gp-t"), "Fig13": ("transformer", "gp-m"), "Fig14": ("graphconv", "gp-t"),
    "Fig15": ("graphconv", "gp-m"),
}  # fmt: skip
PLANETOID = ("cora", "citeseer", "pubmed", "facebook")
FIGURES: Mapping[str, Mapping[str, tuple[str, Callable[[Mode], tuple[Panel, ...]]]]] = {
    "linkteller": {
        "Fig3": ("utility and attack F1 against epsilon", linkteller_3),
        "Fig4": ("utility by node degree", linkteller_4),
    },
    "lpgnet": {
        "Fig2": ("DPGCN on Cora", lpgnet_2),
        "Fig3": ("homophily per class on Cora", lpgnet_3),
        "Fig5": (
            "utility against epsilon, transductive",
            lambda mode: tuple(_utility(d, mode) for d in (PLANETOID[:1] if mode == "quick" else PLANETOID)),
        ),
        "Fig6": (
            "attack AUC against utility, transductive",
            lambda mode: tuple(_trade(d, mode) for d in (PLANETOID[:1] if mode == "quick" else PLANETOID)),
        ),
        "Fig7": (
            "utility against epsilon, inductive",
            lambda mode: tuple(_utility(d, mode) for d in (TWITCH[:1] if mode == "quick" else TWITCH)),
        ),
        "Fig8": (
            "attack AUC against utility, low homophily",
            lambda mode: tuple(_trade(d, mode) for d in ("bipartite", "chameleon")),
        ),
    },
    "graphprivatizer": {
        name: (f"change over alpha and delta, {mechanism} with {model}", _privatizer(model, mechanism))
        for name, (model, mechanism) in _HEAT.items()
    },
}
