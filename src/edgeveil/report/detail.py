"""The figures of detail: ROC, query budget, degree, exposure, homophily, bounds, empirical epsilon, heat-maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from edgeveil.audits.cells import label
from edgeveil.report.attacker_plots import coins_plot, reliability_plot
from edgeveil.report.audit_data import AuditData
from edgeveil.report.figures import Plot, empty_grid, percent
from edgeveil.report.style import GRID, INK, MUTED, SERIES, canvas, ink_for, legend, mark, to_svg

__all__ = ["DETAILS", "detail_plots"]


def roc_plot(data: AuditData) -> Plot | None:
    """Log-log ROC: what an attacker gains who accepts almost no false alarm."""
    if not data.roc:
        return None
    with canvas("roc", height=5.0) as (figure, axes):
        for i, curve in enumerate(data.roc):
            colour, _ = ink_for(curve["defence"])
            style = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (3, 1, 1, 1)))[i % 4]
            name = f"{curve['label']}, {curve['attack']}"
            (line,) = axes.plot(curve["fpr"], curve["tpr"], color=colour, ls=style, label=name)
            mark(line, curve["defence"], curve["label"])
        axes.plot([1e-5, 1], [1e-5, 1], color=MUTED, lw=1)
        axes.set(xscale="log", yscale="log", xlim=(1e-5, 1), ylim=(1e-3, 1.2))
        axes.set_xlabel("false-positive rate: non-edges called edges")
        axes.set_ylabel("true-positive rate")
        legend(axes, fontsize=9, loc="upper center", bbox_to_anchor=(0.46, -0.16), ncols=1)
        title = "Attack ROC on logarithmic axes"
        table = [(c["label"], c["attack"], f"{c['auc']:.3f}", percent(c["tpr_at_fpr_001"], 1)) for c in data.roc]
        svg = to_svg(
            figure, "roc", title, "; ".join(f"{t[0]} under {t[1]}: AUC {t[2]}, TPR at FPR 0.001 {t[3]}" for t in table)
        )
    caption = "The thin diagonal is guessing. The left edge matters: there an attacker is almost never wrong."
    return Plot("roc", title, svg, caption, ("release", "attack", "AUC", "TPR at FPR 0.001"), table)


def budget_plot(data: AuditData) -> Plot | None:
    """How few queries attacks need that save some."""
    if not data.budget_curves:
        return None
    with canvas("budget") as (figure, axes):
        for name, whole in dict.fromkeys((p["label"], p.get("whole", False)) for p in data.budget_curves):
            mine = (p for p in data.budget_curves if (p["label"], p.get("whole", False)) == (name, whole))
            part = sorted(mine, key=lambda p: p["queries"])
            colour, marker = ink_for(part[0]["defence"])
            (line,) = axes.plot(
                [p["queries"] for p in part], [p["recall"] for p in part], color=colour, marker=marker,
                ls=(0, (5, 2)) if whole else "-", label=f"{name}, all features set" if whole else name,
            )  # fmt: skip
            mark(line, part[0]["defence"], name)
            for point, following in zip(part, [*part[1:], part[-1]], strict=True):
                below = following["recall"] > point["recall"] + 0.02  # clear of the rising line
                axes.annotate(percent(point["recall"]), (point["queries"], point["recall"]), textcoords="offset points",
                              xytext=(0, -15 if below else 8), fontsize=9, color=INK, ha="center")  # fmt: skip
        axes.set(ylim=(-0.02, 1.1))
        axes.set_xlabel("queries the attacker asks")
        axes.set_ylabel("edges found")
        axes.yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
        axes.set_xscale("log")
        ticks = sorted({p["queries"] for p in data.budget_curves})
        axes.set_xticks(ticks, [str(t) for t in ticks])
        axes.minorticks_off()
        legend(axes, fontsize=9.5, loc="lower right")
        title = "Leakage against the number of queries"
        table = [
            (p["label"], p.get("attack", "–"), str(p["queries"]), percent(p["recall"], 1), f"{p['auc']:.3f}")
            for p in data.budget_curves
        ]
        said = "; ".join(f"{t[0]}, {t[1]}, {t[2]} queries: {t[3]} of the edges" for t in table)
        svg = to_svg(figure, "budget", title, said)
    caption = (
        "Solid: linkteller-grouped, and plain linkteller at the largest budget. Dashed, on small graphs: flatroot, "
        "which asks about the whole graph, at last as many questions as certainty needs. A query limit stops an "
        "attack only below the point where its curve starts to rise."
    )
    return Plot("budget", title, svg, caption, ("release", "attack", "queries", "edges found", "AUC"), table)


def degree_plot(data: AuditData) -> Plot | None:
    """Who is at risk: leakage and utility by node degree (LinkTeller Fig. 4)."""
    if not data.by_degree:
        return None
    bins = list(dict.fromkeys(p["bin"] for p in data.by_degree))
    names = list(dict.fromkeys(p["label"] for p in data.by_degree))
    shown = ["recall", *(["utility"] if any(p["utility"] is not None for p in data.by_degree) else [])]
    with canvas("degree", height=3.1 + 2.6 * (len(shown) - 1), rows=len(shown)) as (figure, drawn):
        panels = list(drawn) if len(shown) > 1 else [drawn]
        for axes, key in zip(panels, shown, strict=True):
            for i, name in enumerate(names):
                part = {p["bin"]: p for p in data.by_degree if p["label"] == name}
                defence = next(iter(part.values()))["defence"]
                colour, _ = ink_for(defence)
                at = [bins.index(b) + (i - (len(names) - 1) / 2) * 0.8 / len(names) for b in part]
                bars = axes.bar(
                    at, [p[key] or 0 for p in part.values()], width=0.74 / len(names), color=colour, label=name
                )
                said = axes.bar_label(
                    bars, [f"{100 * (p[key] or 0):.0f}" for p in part.values()], fontsize=8, color=INK, padding=1
                )
                for artist in (*bars, *said):
                    mark(artist, defence, name)
            axes.set_xticks(range(len(bins)), bins)
            axes.set_ylabel("edges found (%)" if key == "recall" else "utility (%)")
            axes.set_ylim(0, 1.12 * max(p[key] or 0 for p in data.by_degree) or 1)
            axes.yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f}")
            empty_grid(axes)
        panels[-1].set_xlabel("node degree")
        legend(panels[-1], fontsize=9.5, loc="upper center", bbox_to_anchor=(0.46, -0.22), ncols=2)
        heading = "Leakage and utility by node degree"
        table = [
            (p["label"], p["bin"], str(p["nodes"]), percent(p["recall"], 1), percent(p["utility"], 1))
            for p in data.by_degree
        ]
        svg = to_svg(
            figure, "degree", heading, "; ".join(f"{t[0]}, degree {t[1]}: found {t[3]}, utility {t[4]}" for t in table)
        )
    caption = "Numbers on the bars are percent. Nodes with few friends often lose all of them at once."
    return Plot("degree", heading, svg, caption, ("release", "degree", "nodes", "edges found", "utility"), table)


def exposure_plot(data: AuditData) -> Plot | None:
    """How many nodes lose none, some or all of their edges."""
    if not data.exposure:
        return None
    bins = data.exposure[0]["bins"]
    with canvas("exposure") as (figure, axes):
        for i, item in enumerate(data.exposure):
            colour, _ = ink_for(item["defence"])
            at = [b + (i - (len(data.exposure) - 1) / 2) * 0.8 / len(data.exposure) for b in range(len(bins))]
            bars = axes.bar(at, item["nodes"], width=0.74 / len(data.exposure), color=colour, label=item["label"])
            said = axes.bar_label(bars, [str(n) for n in item["nodes"]], fontsize=8, color=INK, padding=1)
            for artist in (*bars, *said):
                mark(artist, item["defence"], item["label"])
        axes.set_xticks(range(len(bins)), bins)
        axes.set_xlabel("share of a node's edges that the strongest attack finds")
        axes.set_ylabel("nodes")
        axes.margins(y=0.1)
        empty_grid(axes)
        legend(axes, fontsize=9.5, loc="upper center", bbox_to_anchor=(0.46, -0.18), ncols=2)
        title = "How exposed are single nodes?"
        table = [(e["label"], b, str(n)) for e in data.exposure for b, n in zip(bins, e["nodes"], strict=True)]
        svg = to_svg(figure, "exposure", title, "; ".join(f"{t[0]}: {t[2]} nodes lose {t[1]}" for t in table))
    first = data.exposure[0]
    caption = (
        f"{first['label'].capitalize()}: {first['nodes'][-1]:,} of {sum(first['nodes']):,} nodes with an edge among "
        "the attacked nodes lose all of these edges. Which edges they are is never in this file."
    )
    return Plot("exposure", title, svg, caption, ("release", "share found", "nodes"), table)


def homophily_plot(data: AuditData) -> Plot | None:
    """Share of edges that stay inside each class (LPGNet Fig. 3)."""
    if not data.homophily:
        return None
    with canvas("homophily", height=3.2) as (figure, axes):
        bars = axes.bar(range(len(data.homophily)), [h["share"] for h in data.homophily], color=SERIES[4])
        axes.bar_label(bars, [f"{100 * h['share']:.0f}" for h in data.homophily], fontsize=8.5, color=INK, padding=1)
        axes.set_xticks(range(len(data.homophily)), [str(h["class"]) for h in data.homophily])
        axes.set(xlabel="class", ylabel="edges inside the class (%)", ylim=(0, 1.08))
        axes.yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f}")
        empty_grid(axes)
        title = "Homophily: do neighbours share a class?"
        table = [(str(h["class"]), percent(h["share"], 1), str(h["nodes"])) for h in data.homophily]
        svg = to_svg(figure, "homophily", title, "; ".join(f"class {t[0]}: {t[1]}" for t in table))
    caption = (
        "Where homophily is high, similar answers hint at an edge even without any leak: compare with the MLP's row."
    )
    return Plot("homophily", title, svg, caption, ("class", "edges inside", "nodes"), table)


def canary_plot(data: AuditData) -> Plot | None:
    """Measured precision on coin-inserted canary pairs under the two bounds of Theorem 6."""
    items = [v for v in data.verified if v.get("precision") is not None]
    if not items:
        return None
    with canvas("canaries", height=4.2) as (figure, axes):
        for i, item in enumerate(items):
            colour, marker = ink_for(item["defence"])
            axes.plot([i, i], [0, item["tight"]], color=GRID, lw=8, solid_capstyle="butt")
            for key, style in (("bound", (0, (1.5, 1))), ("tight", "-")):
                level = min(item[key], 1.0)
                axes.plot([i - 0.38, i + 0.38], [level, level], color=MUTED, lw=1.6, ls=style, solid_capstyle="butt")
            low, high = item["interval"]
            bar = axes.plot([i, i], [low, high], color=colour, lw=1.4)
            for artist in (*bar, *axes.plot(i, item["precision"], marker=marker, color=colour, ls="none")):
                mark(artist, item["defence"], label(item["defence"], item["epsilon"]))
        axes.set_xticks(range(len(items)), [f"{v['epsilon']:g}" for v in items], fontsize=9)
        axes.set(ylim=(0, 1.05), ylabel="precision on planted edges (%)", xlabel="epsilon")
        axes.yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f}")
        axes.plot([], [], color=MUTED, lw=1.6, ls=(0, (1.5, 1)), label="Theorem 6")
        axes.plot([], [], color=MUTED, lw=1.6, label="tight bound")
        for name in dict.fromkeys(v["defence"] for v in items):
            colour, marker = ink_for(name)
            (entry,) = axes.plot([], [], color=colour, marker=marker, ls="none", label=label(name, None))
            mark(entry, name)
        legend(axes, fontsize=9.5, loc="upper center", bbox_to_anchor=(0.46, -0.16), ncols=3)
        empty_grid(axes)
        title = "Precision on planted edges against its bound"
        table = [
            (label(v["defence"], v["epsilon"]), percent(v["density"]), str(v["named"]),
             f"{percent(v['precision'], 1)} ({percent(v['interval'][0])} to {percent(v['interval'][1])})",
             percent(min(v["bound"], 1.0), 1), percent(v["tight"], 1))
            for v in items
        ]  # fmt: skip
        svg = to_svg(figure, "canaries", title, "; ".join(f"{t[0]}: measured {t[3]}, bound {t[5]}" for t in table))
    caption = (
        "Marks are measured, with 98 % intervals. Solid: the tight bound e^ε·k / (e^ε·k + 1 − k); dotted: Theorem 6, "
        "e^ε·k, cut at 100 %. Each pair was planted by a fair coin (k = ½) in a synthetic graph, so homophily cannot "
        "help; an interval that lies wholly above its tight bound would speak against the claim."
    )
    columns = ("release", "planted share k", "pairs named", "measured", "Theorem 6 (at most 100 %)", "tight bound")
    return Plot("canaries", title, svg, caption, columns, table)


def verified_plot(data: AuditData) -> Plot | None:
    """Empirical lower bound on epsilon beside the claimed one."""
    if not data.verified:
        return None
    ceiling = max(v["claimed"] for v in data.verified) * 1.15
    with canvas("verified", height=4.2) as (figure, axes):
        axes.plot([0, ceiling], [0, ceiling], color=MUTED, lw=1)
        for name in dict.fromkeys(v["defence"] for v in data.verified):
            part = [v for v in data.verified if v["defence"] == name]
            colour, marker = ink_for(name)
            face = "none" if any(v["verdict"] == "refuted" for v in part) else colour
            (line,) = axes.plot(
                [v["claimed"] for v in part], [min(_number(v["lower"]), ceiling) for v in part], marker=marker,
                color=colour, lw=1.1, label=label(name, None), markerfacecolor=face,
            )  # fmt: skip
            mark(line, name)
        axes.set(xlabel="claimed epsilon", ylabel="empirical lower bound")
        legend(axes, fontsize=9.5, loc="upper center", bbox_to_anchor=(0.46, -0.16), ncols=3)
        title = "Claimed epsilon against what an audit can prove"
        table = [
            (label(v["defence"], None), f"{v['claimed']:g}", _bound(v["lower"]), v["verdict"]) for v in data.verified
        ]
        svg = to_svg(
            figure, "verified", title, "; ".join(f"{t[0]} claims {t[1]}, shown: {t[2]} ({t[3]})" for t in table)
        )
    caption = (
        "A point above the line refutes the claim (99 % confidence); an unbounded one is drawn at the top. Below the "
        "line, the audit found nothing against the claim. This is a quick check; edgeveil verify looks longer."
    )
    return Plot("verified", title, svg, caption, ("defence", "claimed", "at least", "verdict"), table)


def _bound(value: float | None) -> str:
    return "unbounded" if math.isinf(_number(value)) else f"{value:.2f}"


def _number(value: float | None) -> float:
    return math.inf if value is None else value


def heatmap_plots(data: AuditData) -> list[Plot]:
    """α×δ heat-maps of GraphPrivatizer, one per quantity."""
    plots = []
    for i, item in enumerate(data.heatmaps):
        name = f"heat{i}"
        low, high = min(map(min, item["values"])), max(map(max, item["values"]))
        with canvas(name, height=3.8) as (figure, axes):
            axes.grid(visible=False)
            for r, line in enumerate(item["values"]):
                for c, value in enumerate(line):
                    depth = 0.05 + 0.4 * (value - low) / ((high - low) or 1)  # text stays readable in light and dark
                    axes.bar(c, 1, width=1, bottom=r - 0.5, color=SERIES[4], alpha=depth, lw=0)
                    axes.text(c, r, f"{value:.1f}", ha="center", va="center", fontsize=9)
            axes.set(xlim=(-0.5, len(item["delta"]) - 0.5), ylim=(-0.5, len(item["alpha"]) - 0.5))
            axes.set_xticks(range(len(item["delta"])), [f"{d:g}" for d in item["delta"]])
            axes.set_yticks(range(len(item["alpha"])), [f"{a:g}" for a in item["alpha"]])
            axes.set(xlabel="threshold δ", ylabel="aggregation α")
            table = [
                (f"{a:g}", f"{d:g}", f"{item['values'][r][c]:.2f}")
                for r, a in enumerate(item["alpha"])
                for c, d in enumerate(item["delta"])
            ]
            svg = to_svg(figure, name, item["title"], "; ".join(f"α {t[0]}, δ {t[1]}: {t[2]}" for t in table))
        plots.append(
            Plot(
                name,
                item["title"],
                svg,
                "Each cell is the mean over the runs; deeper colour is more.",
                ("α", "δ", "value"),
                table,
            )
        )
    return plots


DETAILS: tuple[Callable[[AuditData], Plot | None], ...] = (
    roc_plot, budget_plot, degree_plot, exposure_plot, homophily_plot, reliability_plot, coins_plot, canary_plot,
    verified_plot,
)  # fmt: skip


def detail_plots(data: AuditData) -> list[Plot]:
    """Every figure for which the audit has numbers."""
    drawn: list[Any] = [plot(data) for plot in DETAILS]
    return [p for p in drawn if p is not None] + heatmap_plots(data)
