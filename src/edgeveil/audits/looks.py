"""Runs are added until the verdict is decided: at most four looks, the error split over them, within the owner's time.

The first run of every release is attacked. Later runs only train: what they settle is whether a release is more useful
than anything without edges. Each look trains the baselines and those candidates that are still inside the noise.

The first run is planned by what releases cost here. Baselines always finish. The largest epsilon of each sound defence
follows, which tells what its others will take, then these, then defences that cannot be recommended. A release starts
only if it and the second run of what was started before still fit; the others are postponed, and named.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from edgeveil.audits.audit import AuditPlan, CellName, Found, cell_of, run_audit
from edgeveil.audits.cells import Cell, label, summarise
from edgeveil.audits.gains import LOOKS, MIN_TEST, Gain, gains, measurements
from edgeveil.defences.defence import DEFENCES
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.runs.executors import Executor
from edgeveil.runs.records import Record
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import Progress
from edgeveil.runs.time_limit import TimeLimit

__all__ = ["RUNS_AT_LOOK", "Looked", "look_until_decided"]

RUNS_AT_LOOK = (2, 3, 5, 8)
assert len(RUNS_AT_LOOK) == LOOKS
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Looked:
    """All finished runs, and why no further look was taken or a release was left out ("" if neither)."""

    found: Found
    runs: int
    stopped: str = ""


@dataclass(frozen=True, eq=False)
class Work:
    """What carries out cells of one plan, and for how long."""

    plan: AuditPlan
    graph: Graph
    inference: Graph | None
    executor: Executor
    store: Store
    end: float
    progress: Progress | None = None
    shadow: Graph | None = None
    tell: Tell | None = None

    @property
    def left(self) -> float:
        """Seconds."""
        return max(self.end - time.monotonic(), 0.0)

    def run(self, cells: Sequence[CellName], limit: TimeLimit | None = None) -> Found:
        """Some cells; without a limit all of them."""
        if not cells:
            return Found()
        return run_audit(
            self.plan, self.graph, self.inference, self.executor, self.store, self.progress, self.shadow,
            cells=cells, limit=limit,
        )  # fmt: skip

    def say(self, what: str) -> None:
        """Tell what comes next and how much time is left."""
        if self.tell is not None:
            self.tell(what if math.isinf(self.end) else f"{what}; {self.left:.0f} s left")


def look_until_decided(
    plan: AuditPlan,
    graph: Graph,
    inference: Graph | None,
    executor: Executor,
    store: Store,
    *,
    minutes: float,
    progress: Progress | None = None,
    tell: Tell | None = None,
    shadow: Graph | None = None,
) -> Looked:
    """The baselines always finish; other releases and looks start only if they are expected to end within `minutes`."""
    if not minutes > 0:
        raise InputError(f"minutes must be > 0, got {minutes!r}")
    end = time.monotonic() + 60 * minutes
    work = Work(replace(plan, attacked_runs=1), graph, inference, executor, store, end, progress, shadow, tell)
    found = first_run(work)
    answered, runs, stopped = inference or graph, 1, ""
    for number, wanted in enumerate(RUNS_AT_LOOK, 1):
        open_cells = _open(found.records, answered)
        if open_cells is not None and not open_cells:
            break
        cells = _lacking(plan, found.records, open_cells, wanted)
        need = _seconds(found.records, cells) / max(executor.workers, 1)
        if need > work.left:
            stopped = _out_of_time(runs, need)
            break
        work.say(f"look {number} of {LOOKS}: {wanted} runs, about {need:.0f} s")
        more = work.run(cells, _limit(work, found.records))
        found = _joined(found, replace(more, postponed=[]))
        if more.postponed:
            stopped = _out_of_time(runs, _seconds(found.records, more.postponed) / max(executor.workers, 1))
            break
        runs = wanted
    else:
        if _open(found.records, answered):
            stopped = f"Still inside the noise after {LOOKS} looks and {runs} runs."
    return Looked(found, runs, " ".join(filter(None, [_left_out(found), stopped])))


def first_run(work: Work) -> Found:
    """Every release once, attacked, as far as the time allows."""
    cells = list(replace(work.plan, runs=1).cells())
    free = [cell for cell in cells if cell[1] is None]
    work.say(f"first run: {len(free)} of {len(cells)} releases, those without epsilon")
    found = work.run(free)
    limit = _limit(work, found.records, reserve=True)
    limit.keep(sum(_train(r) for r in found.records if r.rows[0]["epsilon"] == 0))
    most = max((cell[1] or 0.0 for cell in cells), default=0.0)
    rest = [cell for cell in cells if cell[1] is not None]
    rest.sort(key=lambda cell: (DEFENCES.get(cell[0]).status != "sound", cell[1] != most, -(cell[1] or 0.0)))
    if rest:
        work.say(f"first run: the other {len(rest)} releases")
    return _joined(found, work.run(rest, limit))


def _limit(work: Work, records: Sequence[Record], *, reserve: bool = False) -> TimeLimit:
    """The time that is left, and what finished runs took, attacked and trained only."""
    limit = TimeLimit(work.left, work.executor.workers, reserve=reserve)
    for record in records:
        train = _train(record)
        limit.learn(record.config, float(record.provenance.get("seconds", train)), train)
        if record.config.get("attacks"):
            limit.learn({**record.config, "attacks": ()}, train, train)
    return limit


def _train(record: Record) -> float:
    return float(record.rows[0].get("seconds_train") or 0.0)


def _left_out(found: Found) -> str:
    """Names what was postponed, and what to do about it."""
    if not found.postponed:
        return ""
    by_name: dict[str, list[float]] = {}
    for defence, epsilon, _ in found.postponed:
        by_name.setdefault(label(defence, None), []).append(epsilon or 0.0)
    named = "; ".join(f"{name} at ε = {', '.join(f'{e:g}' for e in sorted(all_))}" for name, all_ in by_name.items())
    return f"Left out, because they did not fit into the time: {named}. Raise --minutes and the audit adds them."


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


def _lacking(plan: AuditPlan, records: Sequence[Record], wanted: Sequence[Cell] | None, runs: int) -> list[CellName]:
    """New seeds of the edge-free baselines and of the candidates in question (None: of all that were tried)."""
    keys = None if wanted is None else {(c.defence, c.epsilon) for c in wanted}
    done = {cell_of(r.config) for r in records}
    chosen: dict[tuple[str, float | None], None] = {}
    for cell in summarise([row for r in records for row in r.rows]):
        if cell.edge_free or (cell.candidate and (keys is None or (cell.defence, cell.epsilon) in keys)):
            chosen |= {
                cell_of(r.config)[:2]: None for r in records
                if (r.rows[0]["defence"], r.rows[0]["epsilon"]) == (cell.defence, cell.epsilon)
            }  # fmt: skip
    seeds = range(plan.seed, plan.seed + runs)
    return [(*key, seed) for seed in seeds for key in chosen if (*key, seed) not in done]


def _seconds(records: Sequence[Record], cells: Sequence[CellName]) -> float:
    """Processor seconds of training some cells, by what the same release took before."""
    took: dict[tuple[str, float | None], float] = {}
    for record in records:
        key = cell_of(record.config)[:2]
        took[key] = max(took.get(key, 0.0), _train(record))
    return sum(took.get((defence, epsilon), 0.0) for defence, epsilon, _ in cells)


def _joined(old: Found, new: Found) -> Found:
    """Every run once."""
    records = {cell_of(r.config): r for r in [*old.records, *new.records]}
    failures = [*old.failures, *(f for f in new.failures if f not in old.failures)]
    return Found(list(records.values()), failures, [*old.postponed, *new.postponed])
