"""How often does an audit recommend a defence: on graphs whose edges say nothing, and on graphs with a planted gain?

    python benchmarks/verdict_simulation.py [--graphs 100] [--page docs/read-the-report.md]
    python benchmarks/verdict_simulation.py --pilot 6

Training only, no attack: an audit's own looks (`look_until_decided`) on its own plan, judged by its own rule. A defence
counts as recommended when it is more useful than every edge-free baseline (MLP, feature graph), beyond the noise.
Noise, weights and split are drawn anew in each run. Finished graphs are kept in benchmarks/verdict_simulation.jsonl, and
a second call goes on where the first one stopped. `--pilot` runs graphs that the table never counts: the strength of the
planted edges was chosen by them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

import edgeveil as ev
from edgeveil.audits.audit import DEFAULT_SPLIT, AuditPlan
from edgeveil.audits.cells import summarise
from edgeveil.audits.gains import ALPHA, Gain, gains, measurements
from edgeveil.audits.looks import RUNS_AT_LOOK, look_until_decided
from edgeveil.privacy.audit_bounds import clopper_pearson
from edgeveil.runs.executors import Serial
from edgeveil.runs.records import Record
from edgeveil.runs.store import Store

FILE = Path(__file__).with_suffix(".jsonl")
NODES, CLASSES, FEATURES, DEGREE, SIGNAL = 2000, 3, 8, 8, 0.75
SIMILAR = 4  # who is chosen among so many by similar features
PILOT = 1000  # first number of the graphs that are not counted
PLAN = AuditPlan(
    defences=("mlp", "feature-graph", "lapgraph", "lpgnet-1"), epsilons=(2.0, 8.0), attacks=(),
    split=DEFAULT_SPLIT, model_params={"hidden": 8}, train_params={"epochs": 40, "lr": 0.05},
)  # fmt: skip
Int = NDArray[np.int64]
Ends = Callable[[np.random.Generator, Int, Any, Int, NDArray[np.float64]], Int]


def _anyone(rng: np.random.Generator, u: Int, x: Any, y: Int, weight: NDArray[np.float64]) -> Int:
    return rng.choice(NODES, len(u), p=weight)


def _similar(rng: np.random.Generator, u: Int, x: Any, y: Int, weight: NDArray[np.float64]) -> Int:
    """The most similar of a few: friends share features, and so labels, but say no more than the features do."""
    drawn = rng.choice(NODES, (len(u), SIMILAR), p=weight)
    apart = np.square(x[u][:, None] - x[drawn]).sum(axis=2)
    return np.take_along_axis(drawn, apart.argmin(axis=1)[:, None], axis=1)[:, 0]


def _own_class(inside: float, rng: np.random.Generator, u: Int, x: Any, y: Int, weight: NDArray[np.float64]) -> Int:
    """A share `inside` of the edges stays in its class."""
    other = (y[u] + rng.integers(1, CLASSES, len(u))) % CLASSES
    wanted = np.where(rng.random(len(u)) < inside, y[u], other)
    v = np.empty_like(u)
    for c in range(CLASSES):
        share = weight * (y == c)
        v[wanted == c] = rng.choice(NODES, int((wanted == c).sum()), p=share / share.sum())
    return v


KINDS: dict[str, tuple[tuple[Ends, ...], str]] = {  # graphs of a kind take its ways to draw edges in turn
    "no signal": ((_anyone, _similar), f"at most {ALPHA:.0%}"),
    "planted, 57 % inside": ((partial(_own_class, 0.57),), "at least 90%"),
    "planted, 55.5 % inside": ((partial(_own_class, 0.555),), "at least 90%"),
}


def make_graph(kind: str, number: int) -> ev.Graph:
    """Features that tell three classes apart in part, heavy-tailed degrees, and the edges of its kind."""
    rng = np.random.default_rng([number, list(KINDS).index(kind)])
    y = rng.integers(0, CLASSES, NODES)
    x = rng.normal(size=(NODES, FEATURES)) + SIGNAL * np.eye(CLASSES, FEATURES)[y]
    weight = rng.pareto(2.5, NODES) + 1
    weight /= weight.sum()
    u = rng.choice(NODES, NODES * DEGREE // 2, p=weight)
    ways, _ = KINDS[kind]
    v = ways[number % len(ways)](rng, u, x, y, weight)
    return ev.Graph.from_edges(np.stack([u, v])[:, u != v], x=x.astype(np.float32), y=y, name=f"{kind} {number}")


def simulate(kind: str, number: int) -> dict[str, Any]:
    """One audit without attacks: what it recommends, after how many runs, and what the candidates gained.

    Gains are those of the first look, which is always taken: later ones are larger where they end an audit.
    """
    graph = make_graph(kind, number)
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
        looked = look_until_decided(PLAN, graph, None, Serial(), store, minutes=math.inf)
    assert not looked.found.failures, looked.found.failures
    judged = judge(graph, looked.found.records)
    first = judge(graph, [r for r in looked.found.records if r.config.get("seed", 0) < RUNS_AT_LOOK[0]])
    return {
        "kind": kind, "graph": number, "runs": looked.runs,
        "recommended": [name for name, g in judged.items() if g.helps],
        "gain": {name: round(g.value, 5) for name, g in first.items()},
        "against": {name: g.against for name, g in judged.items()},
    }  # fmt: skip


def judge(graph: ev.Graph, records: Sequence[Record]) -> dict[str, Gain]:
    """The gains of an audit's candidates, by name."""
    cells = [c for c in summarise([row for r in records for row in r.rows]) if c.candidate]
    judged = gains(measurements(records, graph), [(c.defence, c.epsilon) for c in cells])
    return {f"{g.defence} {g.epsilon:g}": g for g in judged}


def finished() -> list[dict[str, Any]]:
    """What earlier calls kept."""
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []


def todo(graphs: int) -> Iterator[tuple[str, int]]:
    """What is still missing, the kinds in turn."""
    done = {(row["kind"], row["graph"]) for row in finished()}
    for number in range(graphs):
        yield from ((kind, number) for kind in KINDS if (kind, number) not in done)


def table(rows: list[dict[str, Any]]) -> str:
    """One line per kind; the gain is that of the candidate that gains most on average."""
    lines = [
        "| graphs | number | best candidate | its mean gain, points | recommended | 95 % interval | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, (_, goal) in KINDS.items():
        part = [row for row in rows if row["kind"] == kind]
        if part:
            mean = {name: math.fsum(row["gain"][name] for row in part) / len(part) for name in part[0]["gain"]}
            best = max(mean, key=mean.__getitem__)
            hits = sum(bool(row["recommended"]) for row in part)
            low, high = clopper_pearson(hits, len(part), 0.025)
            share = f"{hits} ({hits / len(part):.0%}) | {low:.1%} to {high:.1%}"
            lines.append(f"| {kind} | {len(part)} | {best} | {100 * mean[best]:+.1f} | {share} | {goal} |")
    return "\n".join(lines) + "\n"


def write_page(path: Path) -> None:
    """Replace the table between the two marks."""
    head, mark, rest = path.read_text(encoding="utf-8").partition("<!-- verdict-simulation -->\n")
    _, end, tail = rest.partition("<!-- end -->")
    if not (mark and end):
        raise SystemExit(f"{path} has no place for the table: <!-- verdict-simulation --> ... <!-- end -->")
    path.write_text(f"{head}{mark}{table(finished())}{end}{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--graphs", type=int, default=100, help="graphs of each kind")
    parser.add_argument("--pilot", type=int, metavar="N", help="only show N planted graphs that are not counted")
    parser.add_argument("--page", type=Path, help="page to write the table into")
    given = parser.parse_args()
    if given.pilot:
        planted = list(KINDS)[1:]
        print(table([simulate(kind, PILOT + number) for kind in planted for number in range(given.pilot)]))
        return
    for kind, number in todo(given.graphs):
        row = simulate(kind, number)
        with FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    if given.page is not None:
        write_page(given.page)
    print(table(finished()), file=sys.stdout)


if __name__ == "__main__":
    main()
