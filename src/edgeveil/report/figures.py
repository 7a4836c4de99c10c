"""The main figures: what a defence costs and what it hides (LPGNet Fig. 6, LinkTeller Fig. 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgeveil.audits.cells import Cell, label
from edgeveil.report.audit_data import AuditData
from edgeveil.report.judged import Baselines, baselines
from edgeveil.report.style import GRID, MUTED, SOFT, canvas, ink_for, legend, mark, to_svg

__all__ = ["Plot", "epsilon_plot", "percent", "tradeoff_plot"]


@dataclass(frozen=True)
class Plot:
    """A drawn figure with the numbers behind it, so that it can be read without eyes or mouse."""

    name: str
    title: str
    svg: str
    caption: str
    columns: tuple[str, ...]
    table: Sequence[tuple[str, ...]]


def percent(value: float | None, digits: int = 0) -> str:
    """``0.834`` as ``83 %``; a dash for what is not known."""
    return "–" if value is None or math.isnan(value) else f"{100 * value:.{digits}f} %"


def tradeoff_plot(cells: Sequence[Cell], known_as: Baselines | None = None) -> Plot | None:
    """Utility against leakage with the sweet-spot region: better than without edges, leaking less than the bare GNN."""
    bare, mlp = baselines(cells)
    floor = max((c.utility for c in cells if c.edge_free and not math.isnan(c.utility)), default=math.nan)
    known = [c for c in cells if not math.isnan(c.leakage) and not math.isnan(c.utility)]
    if not known:
        return None
    with canvas("tradeoff", height=4.9) as (figure, axes):
        widest = max(c.leakage for c in known) or 1
        low, high = min(c.utility for c in known), max(c.utility for c in known)
        if known_as is not None and not math.isnan(known_as.majority):
            low, high = min(low, known_as.majority), max(high, known_as.majority)
        room = 0.08 * ((high - low) or 1)
        axes.set(xlim=(-0.03 * widest, 1.08 * widest), ylim=(low - room, high + 1.6 * room))
        if bare and mlp and bare.leakage > 0 and not math.isnan(mlp.utility):
            axes.fill_between([-1, bare.leakage], max(floor, mlp.utility), high + 2 * room, color=SOFT, lw=0, zorder=0)
            axes.axhline(mlp.utility, color=MUTED, lw=1, ls=(0, (4, 3)))
            axes.axvline(bare.leakage, color=MUTED, lw=1, ls=(0, (4, 3)))
            if known_as is not None:
                _reference_lines(axes, known_as)
            axes.text(0.02, 0.98, "sweet spot", color=MUTED, transform=axes.transAxes, va="top", fontsize=9.5)
        for defence in dict.fromkeys(c.defence for c in known):
            _series(axes, [c for c in known if c.defence == defence])
        axes.set_xlabel("leakage: edges found by the strongest attack")
        axes.set_ylabel("utility on test nodes")
        axes.xaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
        legend(axes, loc="upper center", bbox_to_anchor=(0.46, -0.14), ncols=3, fontsize=9.5)
        _name_epsilons(figure, axes, known)
        title = "What each defence keeps and what it gives away"
        table = [(c.label, f"{c.utility:.3f}", percent(c.leakage, 1), c.attack, c.promise) for c in known]
        described = "; ".join(f"{t[0]}: utility {t[1]}, leakage {t[2]}" for t in table)
        svg = to_svg(figure, "tradeoff", title, described)
    caption = (
        "Each point is one release; the number beside it, in its colour, is epsilon (left out where points crowd: the "
        "numbers below have all). Up is more useful, left more private. The sweet spot (shaded) is above what reads "
        "no edge and left of no defence. Dashed: the MLP, with its 95 % band. Dotted: majority class, guessing and "
        "features alone. Hollow marks: the claimed epsilon is refuted."
    )
    return Plot("tradeoff", title, svg, caption, ("release", "utility", "edges found", "by attack", "guarantee"), table)


def _reference_lines(axes: Any, known: Baselines) -> None:
    """The majority class, the MLP's interval, guessing and what features alone give."""
    dotted: dict[str, Any] = {"color": MUTED, "lw": 1, "ls": (0, (1, 2))}
    if not math.isnan(known.mlp_low):
        axes.axhspan(known.mlp_low, known.mlp_high, color=MUTED, alpha=0.18, lw=0, zorder=0.5)
    if not math.isnan(known.majority):
        axes.axhline(known.majority, **dotted)
        axes.annotate("majority class", (0.91, known.majority), xycoords=("axes fraction", "data"), color=MUTED,
                      fontsize=9, ha="right", va="bottom")  # fmt: skip
    for value, name, at in ((known.chance, "guessing", 0.03), (known.features_alone, "features alone", 0.12)):
        if not math.isnan(value):
            axes.axvline(value, ymin=at - 0.03, **dotted)
            axes.annotate(name, (value, at), xycoords=("data", "axes fraction"), color=MUTED, fontsize=9,
                          xytext=(3, 0), textcoords="offset points")  # fmt: skip


def _series(axes: Any, cells: list[Cell], across: str = "leakage", up: str = "utility") -> None:
    """A line per defence and a mark per release; each says what it is."""
    cells = sorted(cells, key=lambda c: (c.epsilon is None, c.epsilon or 0.0))
    defence = cells[0].defence
    colour, marker = ink_for(defence)
    face = "none" if cells[0].status == "refuted" else colour
    look: dict[str, Any] = {"color": colour, "marker": marker, "markerfacecolor": face}
    (line,) = axes.plot([getattr(c, across) for c in cells], [getattr(c, up) for c in cells], color=colour, lw=1.1)
    (entry,) = axes.plot([], [], lw=1.1, label=label(defence, None), **look)
    mark(line, defence)
    mark(entry, defence)
    for cell in cells:
        (point,) = axes.plot([getattr(cell, across)], [getattr(cell, up)], ls="none", zorder=3, **look)
        mark(point, defence, cell.label)


def _name_epsilons(figure: Any, axes: Any, cells: Sequence[Cell]) -> None:
    """Write epsilon beside its point, in the nearest place where it covers neither a point nor another number."""
    figure.draw_without_rendering()
    scale = 72 / figure.dpi
    points = [axes.transData.transform((c.leakage, c.utility)) * scale for c in cells]
    taken = [(x, y) for x, y in points]
    for cell, (x, y) in zip(cells, points, strict=True):
        if not cell.epsilon or math.isinf(cell.epsilon):
            continue
        for dx, dy in ((9, 0), (-9, 0), (0, 10), (0, -10), (18, 0), (-18, 0), (27, 0), (-27, 0)):
            if all(abs(x + dx - a) > 8 or abs(y + dy - b) > 8 for a, b in taken):
                taken.append((x + dx, y + dy))
                said = axes.annotate(
                    f"{cell.epsilon:g}", (cell.leakage, cell.utility), textcoords="offset points", fontsize=9,
                    xytext=(dx, dy), color=ink_for(cell.defence)[0], ha="center", va="center",
                )  # fmt: skip
                mark(said, cell.defence)
                break


def epsilon_plot(data: AuditData, cells: Sequence[Cell]) -> Plot | None:
    """Utility and leakage against epsilon, with the undefended model and the MLP as lines (LinkTeller Fig. 3)."""
    noisy = [c for c in cells if c.comparable and c.epsilon and not math.isinf(c.epsilon)]
    if not noisy:
        return None
    bare, mlp = baselines(cells)
    with canvas("epsilon", height=6.2, rows=2) as (figure, panels):
        for axes, attribute, name in zip(panels, ("utility", "leakage"), ("utility", "edges found"), strict=True):
            for defence in dict.fromkeys(c.defence for c in noisy):
                _series(axes, [c for c in noisy if c.defence == defence], "epsilon", attribute)
            for line, style in ((bare, "-"), (mlp, (0, (4, 3)))):
                if line is not None and not math.isnan(getattr(line, attribute)):
                    name_ = label(line.defence, None)
                    mark(
                        axes.axhline(getattr(line, attribute), color=MUTED, lw=1.2, ls=style, label=name_), line.defence
                    )
            axes.set_ylabel(name)
            axes.set_xscale("log", base=2)
            ticks = sorted({c.epsilon for c in noisy if c.epsilon})
            axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
            axes.minorticks_off()
        panels[1].yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
        panels[1].set_xlabel("epsilon for one undirected edge (hollow: refuted)")
        legend(panels[1], loc="upper center", bbox_to_anchor=(0.46, -0.24), ncols=3, fontsize=9.5)
        title = "Utility and leakage against epsilon"
        table = [(c.label, f"{c.utility:.3f}", percent(c.leakage, 1)) for c in noisy]
        svg = to_svg(figure, "epsilon", title, "; ".join(f"{t[0]}: utility {t[1]}, edges found {t[2]}" for t in table))
    runs = max((c.runs for c in cells), default=1)
    mean = "One run" if runs == 1 else f"Mean of {runs} runs"
    caption = f"{mean}. A useful defence lies above the MLP's line and below the undefended one."
    return Plot("epsilon", title, svg, caption, ("release", "utility", "edges found"), table)


def empty_grid(axes: Any) -> None:
    """Light horizontal lines only."""
    axes.grid(visible=False, axis="x")
    axes.grid(visible=True, axis="y", color=GRID)
