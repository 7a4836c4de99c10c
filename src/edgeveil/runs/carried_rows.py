"""Rows of another version of the code: run a sample of them again, and say for which methods they are still right.

A comparison covers, for every defence, each attack, model and variant that the store holds for it. A defence is vouched
for only if every sampled run gave equal rows; the others are run anew when they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgeveil.graph.graph import Graph
from edgeveil.runs.measure import run
from edgeveil.runs.records import Record
from edgeveil.runs.rows import TIMES
from edgeveil.runs.run_config import RunConfig, content_id
from edgeveil.runs.store import Store

__all__ = ["Compared", "compare", "differences", "sample"]

TOLERANCE = 1e-9  # another processor may round the last digits otherwise


@dataclass(frozen=True)
class Compared:
    """What was found about the rows of one version: methods with equal rows, and what differs in the others."""

    code: str
    runs: int
    equal: tuple[str, ...]
    changed: Mapping[str, str] = field(default_factory=dict)


def sample(store: Store) -> dict[str, list[Record]]:
    """A few finished runs per version that cover every method: by code, cheapest first."""
    chosen: dict[str, list[Record]] = {}
    covered: set[tuple[str, ...]] = set()
    records = [store.record(name) for name in sorted(store.done())]
    for record in sorted(records, key=lambda r: float(r.provenance.get("cpu_seconds", math.inf))):
        facts = {(record.code, *fact) for fact in _facts(record.config)}
        if not facts <= covered:
            covered |= facts
            chosen.setdefault(record.code, []).append(record)
    return chosen


def _facts(config: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    defence = str(config.get("defence", "none"))
    for kind in ("model", "preset", "defence_params", "setting"):
        yield defence, kind, str(config.get(kind))
    for attack in config.get("attacks", ()):
        settings = {k: v for k, v in attack.items() if k not in ("nodes", "sample_seeds", "seed")}
        yield defence, "attack", str(sorted(settings.items()))


def compare(code: str, records: Iterable[Record], load: Callable[[str], Graph]) -> Compared:
    """Run the records again with this code; a method whose graph is not the same one here is not vouched for."""
    equal: dict[str, bool] = {}
    changed: dict[str, str] = {}
    count = 0
    for record in records:
        config = RunConfig.model_validate(record.config)
        graphs = {name: load(name) for name in config.graphs}
        prints = {name: graph.fingerprint for name, graph in graphs.items()}
        if content_id(record.config, prints, "") != record.key:
            found = [f"the graph {config.dataset} has other content here"]
        else:
            count += 1
            found = differences(record, run(record.config, graphs))
        equal[config.defence] = equal.get(config.defence, True) and not found
        if found:
            changed.setdefault(config.defence, found[0])
    return Compared(code, count, tuple(sorted(name for name, same in equal.items() if same)), changed)


def differences(record: Record, again: Mapping[str, Any]) -> list[str]:
    """Where a repeated run disagrees with the stored one; columns that the old version did not have are passed over."""
    if len(again["rows"]) != len(record.rows):
        return [f"{len(again['rows'])} rows instead of {len(record.rows)}"]
    found = []
    for number, (old, new) in enumerate(zip(record.rows, again["rows"], strict=True)):
        found += [
            f"{name} of row {number}: {new[name]!r} instead of {value!r}"
            for name, value in old.items()
            if value is not None and name not in TIMES and not _same(value, new[name])
        ]
    figures = again["figures"]
    found += [
        f"{name}: {figures.get(name)!r} instead of {value!r}"
        for name, value in record.figures.items()
        if value is not None and not _same(value, figures.get(name))
    ]
    return found


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return all(_same(value, new.get(key)) for key, value in old.items())
    if isinstance(old, float) and isinstance(new, (int, float)):
        return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(old == new)
