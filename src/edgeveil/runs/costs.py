"""How long will it take? Measured processor seconds per kind of run, scaled to this machine."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import scipy.sparse as sp

from edgeveil.graph.catalog import dataset, names
from edgeveil.runs.run_config import RunConfig

__all__ = ["estimate", "pack", "probe", "speed"]


@cache
def _known() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("edgeveil.runs") / "data" / "costs.json").read_text(encoding="utf-8"))
    return found


def _keys(run: RunConfig) -> Iterable[str]:
    """From the most to the least specific kind that a run belongs to."""
    defence = f"{run.defence}@{run.epsilon:g}" if _fills(run) and run.epsilon else run.defence
    layers, paper = run.model_params.get("layers", 2), run.paper
    if run.details and run.attacks:  # a run of an audit: its default attacks cost more than most trainings
        yield f"audit|{run.dataset}|{defence}"
    yield f"{paper}|{run.dataset}|{defence}|{run.model}|{layers}"
    yield f"{paper}|{run.dataset}|{defence}|{run.model}"
    yield f"{paper}|{run.dataset}|{run.model}"
    yield f"{paper}|{run.model}"


def _fills(run: RunConfig) -> bool:
    from edgeveil.defences.defence import DEFENCES

    return run.defence in DEFENCES and DEFENCES.get(run.defence).fills


def estimate(runs: Iterable[RunConfig]) -> float:
    """Processor seconds of some runs on the machine where the costs were measured; 5 s for a kind never seen."""
    costs = _known()["runs"]
    total = 0.0
    for run in runs:
        key = next((key for key in _keys(run) if key in costs), None)
        seconds = 5.0 if key is None else float(costs[key])
        if key is not None and run.dataset not in key:
            seconds *= _size(run.dataset) / _known().get("sizes", {}).get(key, _size(run.dataset))
        if _fills(run) and (key is None or "@" not in key):
            seconds *= _growth(run)
        total += seconds
    return total


def _size(name: str) -> float:
    """What the time of a run grows with, roughly: edges and nodes; 1 for a graph of the user's own."""
    known = name.removesuffix("-twin")
    return float(dataset(known).edges + 10 * dataset(known).nodes) if known in names() else 1.0


def _growth(run: RunConfig) -> float:
    """EdgeRand's output over its input, in edges, where the dataset's size is known."""
    name = run.dataset.removesuffix("-twin")
    if name not in names() or run.epsilon is None:
        return 1.0
    record = dataset(name)
    pairs = record.nodes * (record.nodes - 1) / 2
    return 1.0 + pairs / (math.exp(run.epsilon) + 1) / max(record.edges, 1)


def probe() -> float:
    """Seconds of a fixed sparse and dense workload, best of five."""
    rng = np.random.default_rng(0)
    a = sp.random(4000, 4000, 0.005, "csr", rng=rng, dtype=np.float32)
    x = rng.random((4000, 128), dtype=np.float32)
    w = rng.random((128, 128), dtype=np.float32)
    best = math.inf
    for _ in range(5):
        started = time.process_time()
        for _ in range(3):
            np.maximum(a @ (x @ w), 0)
        best = min(best, time.process_time() - started)
    return best


@cache
def speed() -> float:
    """How many times slower this machine is than the one where the costs were measured."""
    return probe() / float(_known()["probe"])


def pack(measured: Iterable[tuple[Mapping[str, Any], float]], known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Costs per kind of run from a store's (settings, seconds): the contents of ``costs.json``.

    Kinds that were not measured anew keep what is `known`, times the middle ratio of those of their paper that were.
    """
    groups: dict[str, list[float]] = {}
    sizes: dict[str, list[float]] = {}
    for config, seconds in measured:
        run = RunConfig.model_validate(config)
        for key in _keys(run):
            groups.setdefault(key, []).append(seconds)
            if run.dataset not in key:
                sizes.setdefault(key, []).append(_size(run.dataset))
    runs = {key: round(statistics.fmean(values), 2) for key, values in sorted(groups.items())}
    means = {key: round(statistics.fmean(values)) for key, values in sorted(sizes.items())}
    here = round(probe(), 5)
    if known is not None:
        old = known["runs"]
        ratios: dict[str, list[float]] = {}
        for key in runs.keys() & old.keys():
            ratios.setdefault(_paper(key), []).append(runs[key] / max(old[key], 0.01))
        other = [here / float(known["probe"])]
        factors = {_paper(key): statistics.median(ratios.get(_paper(key), other)) for key in old}
        runs = {key: round(value * factors[_paper(key)], 2) for key, value in old.items()} | runs
        means = {**known.get("sizes", {}), **means}
    return {"probe": here, "runs": dict(sorted(runs.items())), "sizes": dict(sorted(means.items()))}


def _paper(key: str) -> str:
    return key.partition("|")[0]
