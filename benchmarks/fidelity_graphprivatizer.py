"""GraphPrivatizer's tables on the real graphs: resumable runs, one JSON line each, then the page in docs.

python benchmarks/fidelity_graphprivatizer.py run [--store FILE] [--plan table6-cora,grid-gcn ...] [--limit SECONDS] [--seeds N]
python benchmarks/fidelity_graphprivatizer.py plans            # names, number of runs, estimated CPU hours, what is missing
python benchmarks/fidelity_graphprivatizer.py write [--store FILE] [--reference graphprivatizer.csv]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
from gp_runs import MODELS, run

import edgeveil as ev
from edgeveil.defences.graphprivatizer.gp_analysis import ALPHAS, DELTAS

Cell = dict[str, Any]
DATASETS = ("cora", "pubmed", "facebook", "amazon-photo", "lastfm-twin")
EPSILONS = (0.1, 1.0, 2.0, 8.0)
ATTENTION = ("gat", "gatv2", "transformer")


def table6(dataset: str, variant: str, seeds: int, pairs: int, models: tuple[str, ...] = MODELS) -> Iterator[Cell]:
    """Tables 6 and 1(b): GP-t (alpha 0.5, delta 0), RR at epsilon 0.1 and epsilon = infinity."""
    for seed in range(seeds):
        for defence, params in (("lpgnn", {}), ("gp-t", {"epsilon": 0.1}), ("rr", {"epsilon": 0.1})):
            for model in models:
                yield _cell(dataset, defence, model, seed, variant, pairs, **params)


def table1(dataset: str, seeds: int) -> Iterator[Cell]:
    """Table 1(a): the other budgets of GP-t and RR."""
    for seed in range(seeds):
        for epsilon in EPSILONS[1:]:
            for defence in ("gp-t", "rr"):
                for model in MODELS:
                    yield _cell(dataset, defence, model, seed, "published", 0, epsilon=epsilon)


def grid(
    dataset: str, model: str, seeds: int, epsilons: tuple[float, ...], variant: str = "published"
) -> Iterator[Cell]:
    """Tables 7-12 and the heat-maps: the full alpha x delta grid for both strategies."""
    for seed in range(seeds):
        for epsilon in epsilons:
            for defence in ("gp-t", "gp-m"):
                for alpha in ALPHAS:
                    for delta in DELTAS:
                        yield _cell(
                            dataset, defence, model, seed, variant, 0, epsilon=epsilon, alpha=alpha, delta=delta
                        )  # fmt: skip


def metric_table(dataset: str, seeds: int) -> Iterator[Cell]:
    """Table 5: Euclidean similarity at epsilon 0.1; its cosine side are the runs of Table 6."""
    for seed in range(seeds):
        for model in MODELS:
            yield _cell(dataset, "gp-t", model, seed, "published", 0, epsilon=0.1, metric="euclidean")


def steps_table(dataset: str, seeds: int, models: tuple[str, ...]) -> Iterator[Cell]:
    """Table 6 with other K_x and K_y than the paper names; its own are the runs of Table 6."""
    for seed in range(seeds):
        for steps in ([2, 0], [4, 0], [4, 1], [16, 0]):
            for cell in table6(dataset, "published", 1, 0, models):
                yield cell | {"seed": seed, "params": cell["params"] | {"steps": steps}}


def text_table(dataset: str, seeds: int, models: tuple[str, ...]) -> Iterator[Cell]:
    """Table 6 without RR, trained as the text says instead of as the code does."""
    for cell in table6(dataset, "published", seeds, 0, models):
        if cell["defence"] != "rr":
            yield cell | {"params": cell["params"] | {"settings": "text"}}


def relatives(dataset: str, seeds: int, models: tuple[str, ...], epsilons: tuple[float, ...]) -> Iterator[Cell]:
    """gp-sound beside GP-t, GP-m and RR, correct variants, attack through the model."""
    for seed in range(seeds):
        yield _cell(dataset, "mlp", "mlp", seed, "correct", 0)
        for model in models:
            yield _cell(dataset, "none", model, seed, "correct", 0)
            for epsilon in epsilons:
                for defence in ("gp-t", "gp-m", "rr"):
                    yield _cell(dataset, defence, model, seed, "correct", 100, epsilon=epsilon)
                yield _cell(dataset, "gp-sound", model, seed, "correct", 100, epsilon=epsilon)
                yield _cell(
                    dataset, "gp-sound", model, seed, "correct", 100, epsilon=epsilon, epsilon_x=3.0, epsilon_y=3.0
                )  # fmt: skip


def _cell(dataset: str, defence: str, model: str, seed: int, variant: str, pairs: int, **params: Any) -> Cell:
    head = {"dataset": dataset, "defence": defence, "model": model, "seed": seed, "variant": variant, "pairs": pairs}
    return head | {"params": params}


def plans() -> dict[str, list[Cell]]:
    """Every plan by name, most wanted first."""
    found: dict[str, list[Cell]] = {"table6-cora": list(table6("cora", "published", 5, 0))}
    found["through-cora"] = list(table6("cora", "correct", 5, 100, ("gcn", "sage", "gat")))
    found["relatives-cora"] = list(relatives("cora", 3, ("sage", "gcn"), (1.0, 2.0, 4.0, 8.0)))
    for model in ("gcn", "gat"):
        found[f"grid-{model}"] = list(grid("cora", model, 3, (0.1,)))
    for dataset in DATASETS[1:]:
        found[f"table6-{dataset}"] = list(table6(dataset, "published", 5, 0))
        found[f"through-{dataset}"] = list(table6(dataset, "correct", 3, 100, ("gcn", "sage", "gat")))
    for dataset in DATASETS:
        found[f"table1-{dataset}"] = list(table1(dataset, 5))
        found[f"table5-{dataset}"] = list(metric_table(dataset, 5))
    found["text-facebook"] = list(text_table("facebook", 3, ("gcn", "gat", "transformer", "gatv2")))
    found["steps-amazon-photo"] = list(steps_table("amazon-photo", 3, ("gcn", "sage")))
    for model in ("gcn", "gat"):
        found[f"budgets-{model}"] = list(grid("cora", model, 3, EPSILONS[1:]))
    for dataset in DATASETS:
        for model in MODELS:
            if (dataset, model) not in (("cora", "gcn"), ("cora", "gat")):
                found[f"tables7-12-{dataset}-{model}"] = list(grid(dataset, model, 10, EPSILONS))
    return found


class Costs:
    """CPU seconds of a run: the median of the last five stored runs like it, NaN if there are none.

    Alike are the dataset, the model, and for RR, whose lists are longer, the budget (or the nearest there is).
    """

    def __init__(self, runs: list[Cell]) -> None:
        self._known: dict[Any, dict[float, list[float]]] = {}
        for r in runs:
            if not r["pairs"]:
                self._known.setdefault(self._kind(r), {}).setdefault(_budget(r), []).append(r["cpu"])

    def _kind(self, cell: Cell) -> Any:
        return cell["dataset"], cell["model"], cell["defence"] == "rr"

    def of(self, cell: Cell) -> float:
        """The attack through an attention model asks twice what the published one does, cut for its sake."""
        known = self._known.get(self._kind(cell))
        if not known:
            return math.nan
        nearest = min(known, key=lambda budget: abs(budget - _budget(cell)))
        return median(known[nearest][-5:]) * (2.0 if cell["pairs"] and cell["model"] in ATTENTION else 1.0)


def _budget(cell: Cell) -> float:
    return float(cell["params"]["epsilon"]) if cell["defence"] == "rr" else 0.0


def execute(store: Path, names: list[str], limit: float, seeds: int) -> None:
    """Do the missing cells in order until the time is over."""
    torch.set_num_threads(1)
    done = {_key(row) for row in read(store)}
    graphs: dict[str, Any] = {}
    started = time.monotonic()
    for name in names:
        for cell in plans()[name]:
            if _key(cell) in done or cell["seed"] >= seeds:
                continue
            if time.monotonic() - started > limit:
                return
            dataset = cell["dataset"]
            if dataset not in graphs:
                graphs = {dataset: ev.load(dataset, split="50:25:25", split_seed=0)}
            cpu = time.process_time()
            figures = run(
                graphs[dataset], cell["defence"], cell["model"], cell["seed"], variant=cell["variant"],
                pairs=cell["pairs"], **cell["params"],
            )  # fmt: skip
            row = cell | figures | {"pairs": cell["pairs"], "cpu": round(time.process_time() - cpu, 2)}
            with store.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            done.add(_key(cell))


def read(store: Path) -> list[Cell]:
    """All finished cells; none if there is no store yet."""
    if not store.exists():
        return []
    return [json.loads(line) for line in store.read_text(encoding="utf-8").splitlines() if line.strip()]


def _key(cell: Cell) -> str:
    return json.dumps([cell[k] for k in ("dataset", "defence", "model", "seed", "variant", "pairs", "params")])


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "plans", "write"))
    parser.add_argument("--store", type=Path, default=Path(__file__).with_suffix(".jsonl"), help="finished runs")
    parser.add_argument("--plan", default="table6-cora")
    parser.add_argument("--limit", type=float, default=float("inf"))
    parser.add_argument("--seeds", type=int, default=100, help="run the first so many of the plan's seeds only")
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "fidelity-graphprivatizer.md")
    given = parser.parse_args()
    if given.action == "plans":
        runs = read(given.store)
        done, costs = {_key(run) for run in runs}, Costs(runs)
        for name, cells in plans().items():
            left = [cell for cell in cells if _key(cell) not in done]
            whole, rest = (sum(map(costs.of, part)) / 3600 for part in (cells, left))
            print(f"{name:36s}{len(cells):6d} runs, {whole:6.1f} CPU hours; {len(left):6d} missing, {rest:6.1f}")
    elif given.action == "run":
        execute(given.store, given.plan.split(","), given.limit, given.seeds)
    else:
        from gp_report import write

        write(read(given.store), given.reference, given.out)


if __name__ == "__main__":
    main()
