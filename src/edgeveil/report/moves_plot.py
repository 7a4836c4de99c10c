"""Where every release went from one audit to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgeveil.audits.cells import label
from edgeveil.report.figures import Plot
from edgeveil.report.style import canvas, ink_for, legend, mark, to_svg

if TYPE_CHECKING:
    from edgeveil.report.compare import Move

__all__ = ["moves_plot"]


def moves_plot(moves: Sequence[Move]) -> Plot | None:
    """Utility against leakage: hollow before, filled after."""
    drawn = [
        m for m in moves if not math.isnan(m.utility.before + m.utility.after + m.leakage.before + m.leakage.after)
    ]
    if not drawn:
        return None
    with canvas("moves", height=4.9) as (figure, axes):
        for m in drawn:
            colour, marker = ink_for(m.after.defence)
            line = axes.plot([m.leakage.before, m.leakage.after], [m.utility.before, m.utility.after], color=colour,
                             lw=1.8 if m.utility.beyond or m.leakage.beyond else 0.7)  # fmt: skip
            old = axes.plot(
                [m.leakage.before], [m.utility.before], color=colour, marker=marker, ls="none", markerfacecolor="none"
            )
            new = axes.plot([m.leakage.after], [m.utility.after], color=colour, marker=marker, ls="none")
            for artist in (*line, *old):
                mark(artist, m.after.defence)
            mark(new[0], m.after.defence, m.after.label)
        for defence in dict.fromkeys(m.after.defence for m in drawn):
            colour, marker = ink_for(defence)
            (entry,) = axes.plot([], [], color=colour, marker=marker, ls="none", label=label(defence, None))
            mark(entry, defence)
        axes.set(xlabel="leakage: edges found by the strongest attack", ylabel="utility on test nodes")
        axes.xaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
        legend(axes, loc="upper center", bbox_to_anchor=(0.46, -0.14), ncols=3, fontsize=9.5)
        title = "Where every release went"
        rows = [(m.after.label, m.utility.points(), m.leakage.points()) for m in drawn]
        svg = to_svg(
            figure, "moves", title, "; ".join(f"{r[0]}: utility {r[1]}, edges found {r[2]} points" for r in rows)
        )
    widest = 100 * max(abs(m.leakage.after - m.leakage.before) for m in drawn)
    caption = "Hollow: before; filled: after. Thick lines moved beyond the noise. "
    caption += f"Largest change of leakage: {widest:.1f} points."
    return Plot("moves", title, svg, caption, ("release", "utility, points", "edges found, points"), rows)
