"""Figures about the attackers themselves: are their probabilities honest, and what do planted coins prove?"""

from __future__ import annotations

from edgeveil.audits.cells import label
from edgeveil.report.audit_data import AuditData
from edgeveil.report.figures import Plot, percent
from edgeveil.report.style import MUTED, canvas, ink_for, legend, mark, to_svg

__all__ = ["coins_plot", "reliability_plot"]


def reliability_plot(data: AuditData) -> Plot | None:
    """Share of true edges among pairs that an attack gives about the same probability."""
    if not data.reliability:
        return None
    with canvas("reliability", height=4.6) as (figure, axes):
        axes.plot([1e-4, 1], [1e-4, 1], color=MUTED, lw=1)
        for curve in data.reliability:
            colour, marker = ink_for(curve["defence"])
            shown = [b for b in curve["bins"] if b["share"] > 0]
            (line,) = axes.plot([b["said"] for b in shown], [b["share"] for b in shown], color=colour, marker=marker,
                                lw=1, label=f"{curve['label']}, {curve['attack']}")  # fmt: skip
            mark(line, curve["defence"], curve["label"])
        axes.set(xscale="log", yscale="log", xlim=(1e-4, 1.2), ylim=(1e-4, 1.2))
        axes.set(xlabel="probability that the attack states", ylabel="share of true edges")
        legend(axes, fontsize=9, loc="upper center", bbox_to_anchor=(0.46, -0.16), ncols=1)
        title = "Reliability of the stated probabilities"
        table = [
            (c["label"], c["attack"], f"{b['said']:.4f}", f"{b['share']:.4f}", f"{b['pairs']:,}")
            for c in data.reliability
            for b in c["bins"]
        ]
        svg = to_svg(figure, "reliability", title, "; ".join(f"{t[0]}: said {t[2]}, true {t[3]}" for t in table))
    caption = "On the thin line, as many pairs are edges as the attack says. Bins without a true edge are not drawn."
    return Plot("reliability", title, svg, caption, ("release", "attack", "said", "true", "pairs"), table)


def coins_plot(data: AuditData) -> Plot | None:
    """Epsilon that the strongest attack proves on planted coins, beside the claimed one."""
    known = [c for c in data.coins if c.get("lower") is not None]
    if not known:
        return None
    top = max(c["epsilon"] for c in known) * 1.15
    with canvas("coins", height=4.2) as (figure, axes):
        axes.plot([0, top], [0, top], color=MUTED, lw=1)
        for name in dict.fromkeys(c["defence"] for c in known):
            part = sorted((c for c in known if c["defence"] == name), key=lambda c: c["epsilon"])
            colour, marker = ink_for(name)
            (line,) = axes.plot([c["epsilon"] for c in part], [c["lower"] for c in part], marker=marker, color=colour,
                                lw=1.1, label=label(name, None))  # fmt: skip
            mark(line, name)
        axes.set(xlabel="claimed epsilon", ylabel="epsilon proved by the attack")
        legend(axes, fontsize=9.5, loc="upper center", bbox_to_anchor=(0.46, -0.16), ncols=3)
        title = "What the strongest attack proves on planted coins"
        table = [
            (label(c["defence"], c["epsilon"]), c["attack"], c["detail"], f"{c['lower']:.2f}", f"{c['ceiling']:.2f}")
            for c in known
        ]
        svg = to_svg(figure, "coins", title, "; ".join(f"{t[0]}: at least {t[3]}" for t in table))
    caption = (
        f"{known[0]['coins']:,} pairs that fair coins made edges or not, one training each, guessed by the attack "
        f"({percent(0.95)} confidence for all bounds together). Homophily cannot help. A bound far below the claim is "
        "room that no attack of today uses, and no proof of privacy."
    )
    return Plot("coins", title, svg, caption, ("release", "test", "guesses", "ε at least", "could show"), table)
