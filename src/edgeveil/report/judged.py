"""The releases of an audit with what their figures must be compared with, and how sure the comparison is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from edgeveil.attacks.attack import ATTACKS
from edgeveil.audits.audit import MIN_EDGES
from edgeveil.audits.cells import Cell, leakage, summarise
from edgeveil.audits.gains import ALPHA, Gain, Spread
from edgeveil.report.audit_data import AuditData

__all__ = [
    "TWO_SIGMA",
    "Baselines",
    "baselines",
    "best_defence",
    "equal_leakage",
    "gain_text",
    "judged",
    "picked_level",
    "recommended_score",
    "sweet_spot",
]

TWO_SIGMA = 2.0


def _by_features(attack: Any) -> bool:
    """Whether an attack compares features and asks nothing."""
    return attack in ATTACKS.names() and ATTACKS.create(attack).needed == {"features"}


class Baselines:
    """What a release is measured against. NaN is unknown."""

    def __init__(self, data: AuditData) -> None:
        rows, stored = data.rows, data.baselines
        self.majority = _mean([row.get("baseline_majority") for row in rows])
        self.edge_free = _mean([row.get("baseline_edge_free") for row in rows])
        self.chance = _mean([row.get("chance") for row in rows if row.get("attack")])
        features = [row for row in rows if _by_features(row.get("attack")) and row.get("belief") in ("k", None)]
        self.features_alone = _highest((row["defence"], leakage(row)) for row in features)
        self.without = _without(rows)
        self.mlp, self.mlp_low, self.mlp_high = (_number(stored.get(k)) for k in ("mlp", "mlp_low", "mlp_high"))

    def table(self) -> list[tuple[str, str, str]]:
        """(name, value, what it is) of every baseline that is known."""
        mlp = f"{self.mlp:.3f}"
        if not math.isnan(self.mlp_low):
            mlp += f" [{self.mlp_low:.3f}, {self.mlp_high:.3f}]"
        guess, alone = f"{100 * self.chance:.2g} %", f"{100 * self.features_alone:.1f} %"
        lines = [
            ("majority class", f"{self.majority:.3f}", "utility of naming the largest training class", self.majority),
            ("MLP", mlp, "utility without the graph, with its 95 % interval over nodes and runs", self.mlp),
            ("without edges", f"{self.edge_free:.3f}", "utility of the better of MLP, feature graph", self.edge_free),
            ("chance", guess, "edges found by guessing: their density among the attacked pairs", self.chance),
            ("features alone", alone, "edges found by comparing features, asking nothing", self.features_alone),
        ]
        lines.append(
            ("without the release", f"{100 * self.without:.1f} %",
             "edges that the same attackers find from features and from models that read no edge", self.without)
        )  # fmt: skip
        return [(name, value, said) for name, value, said, known in lines if not math.isnan(known)]


def _without(rows: Sequence[Any]) -> float:
    """The strongest attack on releases that read no edge, and features compared, whatever the release."""
    free = [row for row in rows if row.get("attack") and row.get("belief") in ("k", None) and _edge_free(row)]
    return _highest(((row["defence"], row["attack"]), leakage(row)) for row in free)


def _edge_free(row: Any) -> bool:
    return (row.get("status") == "sound" and row.get("epsilon") == 0) or _by_features(row["attack"])


def _highest(values: Iterable[tuple[Any, Any]]) -> float:
    """The highest mean of a group. Grouped by defence, because some release features that hide what they were."""
    found: dict[Any, list[Any]] = {}
    for group, value in values:
        found.setdefault(group, []).append(value)
    return max((m for m in map(_mean, found.values()) if not math.isnan(m)), default=math.nan)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _mean(values: Sequence[Any]) -> float:
    known = [float(v) for v in values if v is not None and not math.isnan(float(v))]
    return sum(known) / len(known) if known else math.nan


def judged(data: AuditData) -> list[Cell]:
    """One cell per release, with its gain over the edge-free baselines where the audit measured one."""
    known = {(g["defence"], g["epsilon"]): _gain(g) for g in data.gains}
    noise = {(s["defence"], s["epsilon"]): _spread(s) for s in data.spreads}
    keys = [(c, (c.defence, c.epsilon)) for c in summarise(data.rows)]
    return [replace(c, gain=known.get(key), spread=noise.get(key)) for c, key in keys]


def _gain(values: dict[str, Any]) -> Gain:
    return Gain(**{**values, "low": _number(values["low"]), "high": _number(values["high"])})


def _spread(values: dict[str, Any]) -> Spread:
    return Spread(**{**values, **{k: _number(values[k]) for k in ("over_nodes", "over_runs")}})


def baselines(cells: Sequence[Cell]) -> tuple[Cell | None, Cell | None]:
    """The undefended model and the MLP, the two corners of the trade-off."""
    by_name = {c.defence: c for c in cells}
    return by_name.get("none"), by_name.get("mlp")


def sweet_spot(cell: Cell, bare: Cell | None) -> bool:
    """More useful than anything without edges and leaking less than no defence (LPGNet section 5.3), both beyond noise.

    What was not measured well enough is not in the running: one run, few test nodes, few attacked edges, an epsilon
    that is refuted or not for one undirected edge.
    """
    if bare is None or not cell.candidate or cell.gain is None or not cell.gain.helps:
        return False
    enough = min(bare.edges, cell.edges) >= MIN_EDGES
    return enough and cell.leakage < bare.leakage and not equal_leakage(cell, bare)


def equal_leakage(one: Cell, other: Cell) -> bool:
    """Whether the difference of two leakages is within two standard errors."""
    error = math.hypot(one.leakage_error, other.leakage_error)
    return not abs(one.leakage - other.leakage) > TWO_SIGMA * error  # unknown errors separate nothing


def picked_level(data: AuditData, cells: Sequence[Cell]) -> float:
    """The error left for an interval of a release that was picked among the candidates, at the last of the looks."""
    looks = max(int(data.settings.get("looks", 1)), 1)
    return ALPHA / (looks * max(sum(c.candidate for c in cells), 1))


def recommended_score(cells: Sequence[Cell]) -> Callable[[Cell], float]:
    """How much of the two ranges (utility above the MLP, leakage below no defence) a release keeps."""
    bare, mlp = baselines(cells)
    good = [c.utility for c in cells if sweet_spot(c, bare)]
    floor = mlp.utility if mlp is not None else min(good, default=math.nan)
    least = mlp.leakage if mlp is not None and not math.isnan(mlp.leakage) else 0.0

    def score(cell: Cell) -> float:
        assert bare is not None
        gain, loss = bare.utility - floor, bare.leakage - least
        kept = (cell.utility - floor) / gain if gain > 0 else 0.0
        hidden = (bare.leakage - cell.leakage) / loss if loss > 0 else 0.0
        return min(kept, 1.0) + min(hidden, 1.0)

    return score


def best_defence(cells: Sequence[Cell], meets: Callable[[Cell], bool] = lambda _: True) -> Cell | None:
    """The release in the sweet spot that keeps and hides most; of those that leak equally, the most useful.

    `meets` says which releases are wanted at all.
    """
    bare, _ = baselines(cells)
    good = [c for c in cells if sweet_spot(c, bare) and meets(c)]
    if not good:
        return None
    first = max(good, key=recommended_score(cells))
    return max((c for c in good if equal_leakage(c, first)), key=lambda c: (c.utility, -(c.epsilon or 0.0)))


def gain_text(gain: Gain | None) -> str:
    """``+3.1 [1.0, 5.2]`` in points over the better edge-free baseline; no bounds where they are not known."""
    if gain is None:
        return "–"
    bounds = "" if math.isnan(gain.low) else f" [{100 * gain.low:.1f}, {100 * gain.high:.1f}]"
    return f"{100 * gain.value:+.1f}{bounds}"
