"""Runs are added until the verdict is decided: at most four looks, the error split over them, within the owner's time.

The first run of every release is attacked. Later runs only train: what they settle is whether a release is more useful
than anything without edges. Each look trains the baselines and those candidates that are still inside the noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from edgeveil.audits.audit import AuditPlan, Found, run_audit
from edgeveil.audits.cells import Cell, summarise
from edgeveil.audits.gains import LOOKS, MIN_TEST, Gain, gains, measurements
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.runs.executors import Executor
from edgeveil.runs.records import Record
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import Progress

__all__ = ["RUNS_AT_LOOK", "Looked", "look_until_decided"]

RUNS_AT_LOOK = (2, 3, 5, 8)
assert len(RUNS_AT_LOOK) == LOOKS


@dataclass(frozen=True)
class Looked:
    """All finished runs, and why no further look was taken ("" if the verdict was decided)."""

    found: Found
    runs: int
    stopped: str = ""


def look_until_decided(
    plan: AuditPlan,
    graph: Graph,
    inference: Graph | None,
    executor: Executor,
    store: Store,
    *,
    minutes: float,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
    shadow: Graph | None = None,
) -> Looked:
    """The first run always finishes; a look is taken only if it is expected to fit into what is left of `minutes`."""
    if not minutes > 0:
        raise InputError(f"minutes must be > 0, got {minutes!r}")
    started = time.monotonic()
    first = replace(plan, runs=1, attacked_runs=1)
    found = run_audit(first, graph, inference, executor, store, progress, shadow)
    answered, runs = inference or graph, 1
    for number, wanted in enumerate(RUNS_AT_LOOK, 1):
        open_cells = _open(found.records, answered)
        if open_cells is not None and not open_cells:
            return Looked(found, runs)
        left = 60 * minutes - (time.monotonic() - started)
        parts = _parts(plan, found.records, open_cells, runs, wanted)
        need = _seconds(found.records, parts) / max(executor.workers, 1)
        if need > left:
            return Looked(found, runs, _out_of_time(runs, need))
        if tell is not None:
            tell(f"look {number} of {LOOKS}: {wanted} runs, about {need:.0f} s; {max(left, 0):.0f} s left")
        for part in parts:
            found = _joined(found, run_audit(part, graph, inference, executor, store, progress, shadow))
        runs = wanted
    undecided = _open(found.records, answered)
    return Looked(found, runs, f"Still inside the noise after {LOOKS} looks and {runs} runs." if undecided else "")


def _out_of_time(runs: int, need: float) -> str:
    return (
        f"The time for training was up after {runs} run{'s' if runs > 1 else ''}; the next look needs about "
        f"{max(need / 60, 0.1):.1f} minutes more: raise --minutes and the audit goes on where it stopped."
    )


def _open(records: Sequence[Record], graph: Graph) -> list[Cell] | None:
    """Candidates that could still change the verdict; None before anything can be judged."""
    cells = [c for c in summarise([row for r in records for row in r.rows]) if c.candidate]
    judged = gains(measurements(records, graph), [(c.defence, c.epsilon) for c in cells])
    by_key: dict[tuple[str, float | None], Gain] = {(g.defence, g.epsilon): g for g in judged}
    if not cells or not judged or all(g.nodes < MIN_TEST for g in judged):
        return []  # no number of runs makes up for test nodes
    if all(g.runs < RUNS_AT_LOOK[0] for g in judged):
        return None
    best = max((g.value for g in judged if g.helps), default=None)
    gain_of = [(c, by_key.get((c.defence, c.epsilon))) for c in cells]
    return [c for c, g in gain_of if g is not None and not g.decided and (best is None or g.value > best)]


def _parts(
    plan: AuditPlan, records: Sequence[Record], wanted_cells: Sequence[Cell] | None, runs: int, wanted: int
) -> list[AuditPlan]:
    """One plan per epsilon that has an open candidate, one for the baselines: only new seeds, only trained."""
    more = replace(plan, seed=plan.seed, runs=wanted, attacked_runs=1)
    if wanted_cells is None:
        return [more]
    baselines = tuple(dict.fromkeys(r.rows[0]["defence"] for r in records if r.rows[0]["epsilon"] in (0, None)))
    parts = [replace(more, defences=tuple(d for d in plan.defences if d in baselines and d != "none"))]
    asked = {e: tuple(d for d in plan.defences if any(_same(c, d, e, records) for c in wanted_cells))
             for e in plan.epsilons}  # fmt: skip
    return parts + [replace(more, defences=names, epsilons=(e,)) for e, names in asked.items() if names]


def _same(cell: Cell, defence: str, epsilon: float, records: Sequence[Record]) -> bool:
    """Whether a cell came from these settings; its own epsilon may be stated over two graphs."""
    return any(
        r.config.get("defence") == defence and r.config.get("epsilon") == epsilon
        and (r.rows[0]["defence"], r.rows[0]["epsilon"]) == (cell.defence, cell.epsilon)
        for r in records
    )  # fmt: skip


def _seconds(records: Sequence[Record], parts: Sequence[AuditPlan]) -> float:
    """Processor seconds of training what the parts still lack, by what the same release took before."""
    took: dict[tuple[str, float | None], float] = {}
    done = set()
    for record in records:
        key = (str(record.config.get("defence", "none")), record.config.get("epsilon"))
        took[key] = max(took.get(key, 0.0), float(record.rows[0].get("seconds_train") or 0.0))
        done.add((*key, record.config.get("seed", 0)))
    lacking = {cell for part in parts for cell in part.cells()} - done
    return sum(took.get((defence, epsilon), 0.0) for defence, epsilon, _ in lacking)


def _joined(old: Found, new: Found) -> Found:
    """Every run once."""
    records = {(r.config.get("defence"), r.config.get("epsilon"), r.config.get("seed", 0)): r for r in old.records}
    records |= {(r.config.get("defence"), r.config.get("epsilon"), r.config.get("seed", 0)): r for r in new.records}
    return Found(list(records.values()), [*old.failures, *(f for f in new.failures if f not in old.failures)])
