"""How often does the verdict recommend a defence: on graphs whose edges say nothing, and on graphs with a planted gain?

    python benchmarks/verdict_simulation.py [--graphs 100] [--page docs/read-the-report.md]

Training only, no attack: a defence counts as recommended when the rule of an audit finds it more useful than every
edge-free baseline, at any of its four looks. The noise of every release, its weights and its split are drawn anew in
each run. Finished graphs are kept in benchmarks/verdict_simulation.jsonl, and a second call goes on where the first one
stopped. Planted graphs are made so that the best candidate, LPGNet-1 at epsilon 8, gains about five points on the MLP; the page
states what was measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

import edgeveil as ev
from edgeveil.audits.gains import ALPHA, LOOKS, Measurement, gains
from edgeveil.audits.looks import RUNS_AT_LOOK
from edgeveil.graph.splits import apply_split
from edgeveil.metrics.node_scores import node_scores
from edgeveil.models.memo import Memo, remembering
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.privacy.audit_bounds import clopper_pearson

FILE = Path(__file__).with_suffix(".jsonl")
NODES, CLASSES, FEATURES, DEGREE = 2000, 3, 8, 8
CANDIDATES = (("lapgraph", 2.0), ("lapgraph", 4.0), ("lpgnet-1", 2.0), ("lpgnet-1", 8.0))
BEST = "lpgnet-1 8"  # the candidate that the planted edges help most
KINDS = {"no signal": 1 / CLASSES, "planted": 0.545}
SPEC = ModelSpec(name="gcn", hidden=8)
TRAIN = TrainSpec(epochs=60, lr=0.05, weight_decay=5e-4)


def make_graph(kind: str, number: int) -> ev.Graph:
    """Features that tell the classes apart in part; edges inside a class with the given probability."""
    rng = np.random.default_rng([number, list(KINDS).index(kind)])
    y = rng.integers(0, CLASSES, NODES)
    x = rng.normal(size=(NODES, FEATURES)) + 0.75 * np.eye(CLASSES, FEATURES)[y]
    count = NODES * DEGREE // 2
    u = rng.integers(0, NODES, count)
    inside = rng.random(count) < KINDS[kind]
    members = [np.flatnonzero(y == c) for c in range(CLASSES)]
    wanted = np.where(inside, y[u], (y[u] + rng.integers(1, CLASSES, count)) % CLASSES)
    v = np.array([rng.choice(members[c]) for c in wanted])
    keep = u != v
    return ev.Graph.from_edges(np.stack([u, v])[:, keep], x=x.astype(np.float32), y=y)


def measured(graph: ev.Graph, defence: str, epsilon: float | None, seed: int) -> Measurement:
    """One run on its own split."""
    split = apply_split(graph, "50:25:25", seed)
    model = ModelSpec(name="mlp", hidden=8) if defence == "mlp" else SPEC
    release = ev.defend(split, defence, epsilon=epsilon, model=model, train=TRAIN, scaling="none", seed=seed)
    assert split.masks is not None and split.y is not None
    nodes = np.flatnonzero(split.masks.test)
    said = release.predict()[nodes].argmax(axis=1)
    scores = node_scores(said, split.y[nodes], CLASSES, "micro_f1")
    return Measurement((defence, 0.0 if epsilon is None else epsilon), seed, nodes, scores)


def simulate(kind: str, number: int) -> dict[str, Any]:
    """All looks on one graph: at which one a defence was recommended, and what the candidates gained."""
    graph, found, done, look = make_graph(kind, number), [], 0, 0
    releases = [("mlp", None), *CANDIDATES]
    judged = []
    for runs in RUNS_AT_LOOK:
        with remembering(Memo()):
            found += [measured(graph, d, e, seed) for seed in range(done, runs) for d, e in releases]
        done, look = runs, look + 1
        judged = gains(found, CANDIDATES, LOOKS)
        if any(g.helps for g in judged) or all(g.decided for g in judged):
            break
    helped = [f"{g.defence} {g.epsilon:g}" for g in judged if g.helps]
    values = {f"{g.defence} {g.epsilon:g}": round(g.value, 5) for g in judged}
    return {"kind": kind, "graph": number, "recommended": helped, "look": look, "runs": done, "gain": values}


def finished() -> list[dict[str, Any]]:
    """What earlier calls kept."""
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []


def todo(graphs: int) -> Iterator[tuple[str, int]]:
    """What is still missing, the two kinds in turn."""
    done = {(row["kind"], row["graph"]) for row in finished()}
    for number in range(graphs):
        yield from ((kind, number) for kind in KINDS if (kind, number) not in done)


def table() -> str:
    """The page's table, from the file alone."""
    lines = [
        "| graphs | number | mean gain of LPGNet-1 at ε = 8, points | recommended | 95 % interval | goal |",
        "|---|---|---|---|---|---|",
    ]
    for kind, goal in (("no signal", f"at most {ALPHA:.0%}"), ("planted", "at least 90%")):
        rows = [row for row in finished() if row["kind"] == kind]
        if rows:
            hits = sum(bool(row["recommended"]) for row in rows)
            low, high = clopper_pearson(hits, len(rows), 0.025)
            gain = 100 * math.fsum(row["gain"][BEST] for row in rows) / len(rows)
            share = f"{hits} ({hits / len(rows):.0%}) | {low:.1%} to {high:.1%}"
            lines.append(f"| {kind} | {len(rows)} | {gain:+.1f} | {share} | {goal} |")
    return "\n".join(lines) + "\n"


def write_page(path: Path) -> None:
    """Replace the table between the two marks."""
    head, mark, rest = path.read_text(encoding="utf-8").partition("<!-- verdict-simulation -->\n")
    _, end, tail = rest.partition("<!-- end -->")
    if not (mark and end):
        raise SystemExit(f"{path} has no place for the table: <!-- verdict-simulation --> ... <!-- end -->")
    path.write_text(f"{head}{mark}{table()}{end}{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--graphs", type=int, default=100, help="graphs of each kind")
    parser.add_argument("--page", type=Path, help="page to write the table into")
    given = parser.parse_args()
    for kind, number in todo(given.graphs):
        with FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps(simulate(kind, number)) + "\n")
    if given.page is not None:
        write_page(given.page)
    print(table())


if __name__ == "__main__":
    main()
