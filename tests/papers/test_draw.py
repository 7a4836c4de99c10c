"""Figures without printed numbers: every panel can be run, evaluated, written and drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from edgeveil.graph.graph import Graph
from edgeveil.papers.draw import draw_figure, find_figure, series_text
from edgeveil.papers.figure_recipes import FIGURES
from edgeveil.papers.recipes import Recipe
from edgeveil.runs.run_config import RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.tasks import Outcome, Task

ALL = [(paper, name) for paper, figures in FIGURES.items() for name in figures]


class Level:
    """An executor whose every figure is a function of epsilon and seed, so that curves are known."""

    workers = 1

    def run(self, function: str, tasks: Sequence[Task], graphs: Mapping[str, Graph]) -> Iterator[Outcome]:
        for task in tasks:
            run = RunConfig.model_validate(task.config)
            level = (run.epsilon or 0.0) / 100 + run.seed / 1000
            names = ["rare_f1", "micro_f1", "accuracy"]
            names += [f"rare_f1 degree {d}" for d in ("1-5", "6-10", "11-20", "21-50", "51-")]
            names += [f"{kind}_{c}" for kind in ("homophily", "homophily_true") for c in range(7)]
            rows = []
            for attack in run.attacks:
                params = {"attack": attack.params, "sample_seed": 0, "pairs": attack.pair_variant}
                if attack.service is not None:
                    params["target"] = attack.service
                if attack.protocol != "sampled":
                    params.pop("pairs")
                if attack.bypass_kprop:
                    params["bypass_kprop"] = True
                for degree in attack.degrees if attack.protocol == "subset" else (None,):
                    row = {
                        "attack": attack.name,
                        "protocol": attack.protocol,
                        "degree": degree,
                        "belief": "k",
                        "params": params,
                    }
                    rows.append({**row, "dataset": run.dataset, "defence": run.defence, "auc": level, "f1": level})
            yield Outcome(task, {"rows": rows, "figures": dict.fromkeys(names, level)})


@pytest.mark.fast(
    "linkteller-Fig4",
    "lpgnet-Fig2",
    "lpgnet-Fig5",
    "lpgnet-Fig7",
    "lpgnet-Fig8",
    "graphprivatizer-Fig4",
    "graphprivatizer-Fig7",
    "graphprivatizer-Fig13",
    "graphprivatizer-Fig15",
)
@pytest.mark.parametrize(("paper", "name"), ALL)
def test_every_figure_is_measured_and_drawn(tmp_path: Path, toy: Graph, paper: str, name: str) -> None:
    pytest.importorskip("matplotlib")
    from edgeveil.report.series import write_drawing

    with Store(tmp_path / "s.sqlite") as store:
        drawing = draw_figure(paper, name, store, Level(), lambda n: toy.named(n), mode="quick", seeds=2)
    for panel, series in drawing.panels:
        assert series.keys() == {curve.label for curve in panel.curves}
        assert all(len(series[curve.label]) == len(curve.points) for curve in panel.curves)
    write_drawing(drawing, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().startswith("<svg")
    assert drawing.name in series_text(drawing)


def test_curves_show_means_and_spreads(tmp_path: Path, toy: Graph) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        drawing = draw_figure("lpgnet", "Fig2", store, Level(), lambda n: toy.named(n), mode="quick", seeds=2)
    panel, series = drawing.panels[0]
    assert panel.title == "cora: utility"
    assert [(x, round(m, 4), round(s, 4)) for x, m, s in series["dpgcn"]] == [
        (5.0, 0.0505, 0.0005), (7.0, 0.0705, 0.0005), (9.0, 0.0905, 0.0005),
    ]  # fmt: skip


def test_full_figures_ask_for_more() -> None:
    for paper, name in ALL:
        build = FIGURES[paper][name][1]
        count = {
            mode: sum(
                isinstance(r, Recipe) for p in build(mode) for c in p.curves for pt in c.points for r in (pt.x, pt.y)
            )
            for mode in ("quick", "full")
        }
        assert 0 < count["quick"] <= count["full"]


def test_names() -> None:
    assert find_figure("LPGNet:fig6") == ("lpgnet", "Fig6") and find_figure("lpgnet:7") is None
