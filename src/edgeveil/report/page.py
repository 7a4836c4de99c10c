"""One self-contained HTML file: no network, no dependency, readable on a phone, in print, in light and in dark."""

from __future__ import annotations

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

from edgeveil.audits.cells import label
from edgeveil.errors import MissingExtra, StorageError
from edgeveil.report.audit_data import AuditData
from edgeveil.report.detail import detail_plots
from edgeveil.report.explore import rule
from edgeveil.report.figures import Plot, epsilon_plot, percent, tradeoff_plot
from edgeveil.report.judged import Baselines, baselines, best_defence, gain_text, judged, sweet_spot
from edgeveil.report.next_steps import next_steps
from edgeveil.report.style import DARK, LIGHT, standalone
from edgeveil.report.verdict import verdict

__all__ = ["all_plots", "ordered", "read_part", "render", "template", "write_figures", "write_page", "write_report"]

ROW_COLUMNS = (
    ("defence", "defence"), ("epsilon", "ε"), ("delta", "δ"), ("model", "model"), ("status", "guarantee"),
    ("attack", "attack"), ("attack_access", "access"), ("degree", "degree"), ("belief", "belief"),
    ("seed", "seed"), ("utility", "utility"), ("baseline_edge_free", "without edges"), ("chance", "chance"),
    ("auc", "AUC"), ("average_precision", "AP"), ("precision", "precision"), ("recall", "recall"), ("f1", "F1"),
    ("tpr_at_fpr_001", "TPR @ 0.1 % FPR"), ("queries", "queries"),
)  # fmt: skip
NOT_PROTECTED = (
    "Node features, labels and the set of nodes: every ε here is about edges.",
    "Similarity of neighbours (homophily): an attacker who sees features guesses some edges without any leak.",
    "Several edges at once: for a group of m edges, ε grows to m·ε.",
    "Choices made by looking at these results: trying several ε on the private graph spends their sum.",
    "Anything outside the model's answers: logs, timing, access to the machine.",
)


def read_part(name: str) -> str:
    """The text of a file of this folder."""
    return resources.files("edgeveil.report").joinpath(name).read_text(encoding="utf-8")


def template(name: str) -> Any:
    """A page of this folder with the common style."""
    try:
        from jinja2 import Environment, FunctionLoader, select_autoescape
    except ImportError as error:
        raise MissingExtra("the HTML report", "report") from error
    environment = Environment(
        loader=FunctionLoader(read_part),
        autoescape=select_autoescape(default=True),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        light=LIGHT, dark=DARK, palette=lambda colours: " ".join(f"{name}:{value};" for name, value in colours.items())
    )
    return environment.get_template(name)


def render(data: AuditData) -> str:
    """The page as text."""
    cells = judged(data)
    bare, _ = baselines(cells)
    best, existing = best_defence(cells), bool(data.settings.get("existing"))
    asked = rule(data, cells)
    page: str = template("page.html.j2").render(
        data=data,
        graph=data.graph,
        verdict=verdict(data, cells),
        cells=[_summary(c, sweet_spot(c, bare), c == best) for c in ordered(cells)],
        plots=all_plots(data),
        rule=json.dumps(asked, ensure_ascii=False).replace("<", "\\u003c"),
        script=read_part("page.js"),
        sliders=None if existing or not asked["epsilons"][1:] else (len(asked["utilities"]), len(asked["epsilons"])),
        columns=[title for _, title in ROW_COLUMNS],
        rows=[[_show(row.get(key)) for key, _ in ROW_COLUMNS] for row in data.rows],
        not_protected=NOT_PROTECTED,
        promises=_promises(data, ordered(cells)),
        is_number=lambda text: text[:1].isdigit() or text in ("–", ""),
        existing=existing,
        name=label,
        baselines=Baselines(data).table(),
        commands=next_steps(data, cells),
    )
    return page


def all_plots(data: AuditData) -> list[Plot]:
    """Every figure for which there are numbers, in the order of the page."""
    cells = judged(data)
    main = [tradeoff_plot(cells, Baselines(data)), epsilon_plot(data, cells)]
    return [p for p in main if p is not None] + detail_plots(data)


def write_figures(data: AuditData, folder: Path) -> list[Path]:
    """Every figure as an SVG file of its own, for slides and papers."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for plot in all_plots(data):
            paths.append(folder / f"{plot.name}.svg")
            paths[-1].write_text(standalone(plot.svg), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write figures to {folder}: {error.strerror or error}") from error
    return paths


def write_report(data: AuditData, path: Path) -> Path:
    """Write the report of an audit."""
    return write_page(render(data), path)


def write_page(text: str, path: Path) -> Path:
    """Write a page in one step, so that a half-written one never stands."""
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def ordered(cells: Any) -> list[Any]:
    """Baselines first, then by name and epsilon."""
    first = {"none": 0, "mlp": 1}
    return sorted(cells, key=lambda c: (first.get(c.defence, 2), c.defence, c.epsilon or 0.0))


def _promises(data: AuditData, cells: Any) -> list[dict[str, Any]]:
    """Per defence: the statement at its smallest epsilon, and those at the others."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for cell in cells:
        if cell.label in data.guarantees:
            groups.setdefault(cell.defence, []).append((cell.label, data.guarantees[cell.label]))
    return [{"first": part[0], "others": part[1:]} for part in groups.values()]


def _summary(cell: Any, sweet: bool, best: bool) -> dict[str, Any]:
    return {
        "label": cell.label,
        "defence": cell.defence,
        "utility": "–" if math.isnan(cell.utility) else f"{cell.utility:.3f}",
        "gain": gain_text(cell.gain),
        "leakage": percent(cell.leakage, 1),
        "allowed": percent(cell.allowed, 1),
        "attack": cell.attack,
        "auc": "–" if math.isnan(cell.auc) else f"{cell.auc:.3f}",
        "ap": "–" if math.isnan(cell.average_precision) else f"{cell.average_precision:.3f}",
        "status": cell.status,
        "promise": f"{cell.promise}, δ = {cell.delta:g}" if cell.delta else cell.promise,
        "sweet": sweet,
        "best": best,
        "runs": cell.runs,
    }


def _show(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4g}"
    return str(value)
