"""The main figures: what a defence costs and what it hides (LPGNet Fig. 6, LinkTeller Fig. 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgeveil.report.data import AuditData, Cell, label
from edgeveil.report.style import GRID, INK, MUTED, SOFT, canvas, ink_for, to_svg

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


def baselines(cells: Sequence[Cell]) -> tuple[Cell | None, Cell | None]:
    """The undefended model and the MLP, the two corners of the trade-off."""
    by_name = {c.defence: c for c in cells}
    return by_name.get("none"), by_name.get("mlp")


def tradeoff_plot(cells: Sequence[Cell]) -> Plot:
    """Utility against leakage with the sweet-spot region: better than the MLP, leaking less than the bare GNN."""
    bare, mlp = baselines(cells)
    known = [c for c in cells if not math.isnan(c.leakage) and not math.isnan(c.utility)]
    with canvas("tradeoff", height=4.6) as (figure, axes):
        if bare and mlp and bare.leakage > 0 and not math.isnan(mlp.utility):
            top = max(c.utility for c in known) * 1.04
            axes.fill_between([-1, bare.leakage], mlp.utility, top, color=SOFT, lw=0, zorder=0)
            axes.axhline(mlp.utility, color=MUTED, lw=1, ls=(0, (4, 3)))
            axes.axvline(bare.leakage, color=MUTED, lw=1, ls=(0, (4, 3)))
            axes.text(0.015, 0.985, "sweet spot: above the MLP, left of the undefended model", color=MUTED,
                      transform=axes.transAxes, va="top", fontsize=9)  # fmt: skip
        for defence in dict.fromkeys(c.defence for c in known):
            _series(axes, [c for c in known if c.defence == defence])
        axes.set_xlabel("leakage: edges found by the strongest attack")
        axes.set_ylabel("utility on test nodes")
        widest = max((c.leakage for c in known), default=1) or 1
        axes.set_xlim(-0.03 * widest, 1.08 * widest)
        axes.xaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, fontsize=9)
        title = "What each defence keeps and what it gives away"
        table = [(c.label, f"{c.utility:.3f}", percent(c.leakage, 1), c.attack, c.status) for c in known]
        described = "; ".join(f"{t[0]}: utility {t[1]}, leakage {t[2]}" for t in table)
        svg = to_svg(figure, "tradeoff", title, described)
    caption = "Each point is one release; the number beside it is epsilon. Up is more useful, left is more private."
    return Plot("tradeoff", title, svg, caption, ("release", "utility", "edges found", "by attack", "guarantee"), table)


def _series(axes: Any, cells: list[Cell]) -> None:
    cells = sorted(cells, key=lambda c: (c.epsilon is None, c.epsilon or 0.0))
    colour, marker = ink_for(cells[0].defence)
    hollow = cells[0].status == "refuted"
    axes.plot(
        [c.leakage for c in cells], [c.utility for c in cells], color=colour, marker=marker, lw=1.1, alpha=1,
        markerfacecolor="none" if hollow else colour, label=label(cells[0].defence, None), zorder=3,
    )  # fmt: skip
    for cell in cells:
        if cell.epsilon is not None and not math.isinf(cell.epsilon):
            axes.annotate(f"{cell.epsilon:g}", (cell.leakage, cell.utility), textcoords="offset points", xytext=(6, 4),
                          fontsize=8.5, color=INK, zorder=4)  # fmt: skip


def epsilon_plot(data: AuditData, cells: Sequence[Cell]) -> Plot | None:
    """Utility and leakage against epsilon, with the undefended model and the MLP as lines (LinkTeller Fig. 3)."""
    noisy = [c for c in cells if c.epsilon is not None and c.epsilon > 0 and not math.isinf(c.epsilon)]
    if not noisy:
        return None
    bare, mlp = baselines(cells)
    with canvas("epsilon", height=6.4, rows=2) as (figure, panels):
        for axes, attribute, name in zip(panels, ("utility", "leakage"), ("utility", "edges found"), strict=True):
            for defence in dict.fromkeys(c.defence for c in noisy):
                part = sorted((c for c in noisy if c.defence == defence), key=lambda c: c.epsilon or 0)
                colour, marker = ink_for(defence)
                hollow = part[0].status == "refuted"
                axes.plot([c.epsilon for c in part], [getattr(c, attribute) for c in part], color=colour, marker=marker,
                          markerfacecolor="none" if hollow else colour, label=label(defence, None))  # fmt: skip
            for line, style in ((bare, "-"), (mlp, (0, (4, 3)))):
                if line is not None and not math.isnan(getattr(line, attribute)):
                    axes.axhline(
                        getattr(line, attribute), color=MUTED, lw=1.2, ls=style, label=label(line.defence, None)
                    )
            axes.set_ylabel(name)
            axes.set_xscale("log", base=2)
            ticks = sorted({c.epsilon for c in noisy if c.epsilon})
            axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
            axes.minorticks_off()
        panels[1].yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
        panels[1].set_xlabel("epsilon for one undirected edge (hollow: claim refuted)")
        panels[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=4, fontsize=9)
        title = "Utility and leakage against epsilon"
        table = [(c.label, f"{c.utility:.3f}", percent(c.leakage, 1)) for c in noisy]
        svg = to_svg(figure, "epsilon", title, "; ".join(f"{t[0]}: utility {t[1]}, edges found {t[2]}" for t in table))
    runs = max((c.runs for c in cells), default=1)
    caption = f"Mean of {runs} run(s). A useful defence lies above the MLP's line and below the undefended one."
    return Plot("epsilon", title, svg, caption, ("release", "utility", "edges found"), table)


def empty_grid(axes: Any) -> None:
    """Light horizontal lines only."""
    axes.grid(visible=False, axis="x")
    axes.grid(visible=True, axis="y", color=GRID)
