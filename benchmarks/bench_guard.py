"""The query guard against our own attacks and made-up honest users; writes the tables of docs/guard.md.

    python benchmarks/bench_guard.py [--quick] [--write-docs]

The ratio printed at the end is the F1 an attacker keeps against the guard over the F1 without it, mean over attacks.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import edgeveil as ev
from edgeveil.errors import DatasetUnavailable
from edgeveil.seeds import stream
from edgeveil.serve.config import GuardSettings
from edgeveil.serve.engine import Engine
from edgeveil.trials.guard_trial import HONEST, Bench, GuardedTarget, honest_sessions
from edgeveil.trials.query_limit import choose_limit, demand_of, leak_at, limit_table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "guard.md"
MARKS = "<!-- tables: begin -->", "<!-- tables: end -->"
LIMITS = (8, 16, 32, 64, 128, 200)
OFF = GuardSettings(action="off")
ATTACKS: dict[str, tuple[str, dict[str, Any], int]] = {
    "linkteller": ("linkteller", {"mode": "query"}, 1),
    "linkteller, step 1.0": ("linkteller", {"mode": "query", "delta": 1.0}, 1),
    "linkteller, step 30": ("linkteller", {"mode": "query", "delta": 30.0}, 1),
    "linkteller, 10 colluding tenants": ("linkteller", {"mode": "query"}, 10),
    "linkteller-grouped, 64 queries": ("linkteller-grouped", {"queries": 64}, 1),
    "linkteller-grouped, 10 colluding tenants": ("linkteller-grouped", {"queries": 64}, 10),
}


def load(name: str) -> tuple[ev.Graph, str]:
    """The real graph, or its synthetic twin where it is not at hand."""
    try:
        return ev.load(name), name
    except DatasetUnavailable:
        return ev.load(f"{name}-twin"), f"{name} (synthetic twin)"


def community(graph: ev.Graph, size: int, seed: int) -> Any:
    """Nodes around a random one, breadth first: whom an attacker is curious about know each other."""
    rng = stream(seed, "community")
    found: dict[int, None] = {}
    queue: list[int] = []
    while len(found) < size:
        if not queue:
            queue = [int(rng.integers(graph.num_nodes))]
        node = queue.pop(0)
        if node not in found:
            found[node] = None
            queue += [int(n) for n in rng.permutation(graph.neighbours(node))]
    return rng.permutation(np.array(list(found)))


def f1_of(result: ev.AttackResult, truth: ev.Graph) -> float:
    """F1 when as many pairs are named as there are edges among them."""
    edges = truth.has_edges(result.pairs[0], result.pairs[1])
    return float(ev.metrics.at_belief(result.scores, edges, float(edges.mean()))["f1"])


def attack_row(engine: Engine, truth: ev.Graph, name: str, size: int, seeds: range) -> dict[str, Any]:
    """One attack with and without the guard, over several sets of nodes."""
    method, params, keys = ATTACKS[name]
    figures: dict[str, list[float]] = defaultdict(list)
    for seed in seeds:
        nodes = community(truth, size, seed)
        free = GuardedTarget(Bench(engine.release, OFF, engine), nodes)
        before = ev.attack(free, method, nodes=nodes, seed=seed, **params)
        guarded = GuardedTarget(Bench(engine.release, GuardSettings(), engine), nodes, keys=keys)
        after = partial(guarded, engine, method, params, nodes, seed)
        figures["needed"].append(before.queries - 1)
        figures["answered"].append(guarded.answered)
        figures["caught"].append(guarded.first_alarm is not None)
        figures["alarm"].append(guarded.first_alarm or np.nan)
        figures["f1"].append(f1_of(before, truth))
        figures["f1_guarded"].append(0.0 if after is None else f1_of(after, truth))
    return {"attack": name, **{key: float(np.nanmean(values)) for key, values in figures.items()}}


def partial(guarded: GuardedTarget, engine: Engine, method: str, params: dict[str, Any], nodes: Any, seed: int) -> Any:
    """What Bob has when the guard closes. A grouped attack is run again with as many queries as were answered."""
    with np.errstate(invalid="ignore", divide="ignore"):
        result = ev.attack(guarded, method, nodes=nodes, seed=seed, **params)
        if method != "linkteller-grouped" or not guarded.refused:
            return result
        if guarded.answered < 2:
            return None
        again = GuardedTarget(Bench(engine.release, OFF, engine), nodes)
        return ev.attack(again, method, nodes=nodes, seed=seed, queries=guarded.answered)


def honest_rows(engine: Engine, count: int, seed: int) -> list[dict[str, Any]]:
    """Honest sessions of every kind together at one guard: they overlap, as users do."""
    bench = Bench(engine.release, GuardSettings(), engine)
    rows = {kind: {"kind": kind, "sessions": 0, "queries": 0, "flagged": 0, "refused": 0} for kind in HONEST}
    for session in honest_sessions(engine, count, seed):
        actions = [bench.judge(session.tenant, session.tenant, query)[1].action for query in session.queries]
        row: dict[str, Any] = rows[session.kind]
        row["sessions"] += 1
        row["queries"] += len(actions)
        row["flagged"] += any(action in ("review", "refuse") for action in actions)
        row["refused"] += actions.count("refuse")
    return list(rows.values())


def trial(name: str, size: int, seeds: int, sessions: int) -> dict[str, Any]:
    """All three tables for one graph."""
    graph, label = load(name)
    engine = Engine(ev.defend(graph, "none", model="gcn", seed=0))
    attacks = [attack_row(engine, graph, attack, size, range(seeds)) for attack in ATTACKS]
    honest = honest_rows(engine, sessions, 1)
    nodes = community(graph, size, 99)
    with np.errstate(invalid="ignore", divide="ignore"):
        leaks = leak_at(engine.release, graph, nodes, [q for q in LIMITS if q <= size])
    limits = limit_table(demand_of(honest_sessions(engine, sessions, 2)), leaks)
    return {
        "graph": label, "nodes": size, "node_sets": seeds, "attacks": attacks, "honest": honest,
        "limits": [row.__dict__ for row in limits], "chosen": choose_limit(limits).limit,
    }  # fmt: skip


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def markdown(result: dict[str, Any]) -> str:
    """The tables of one graph."""
    attacks = [
        [
            r["attack"], f"{r['caught']:.0%}", f"{r['alarm']:.0f}" if r["caught"] else "-", f"{r['needed']:.0f}",
            f"{r['answered']:.0f}", f"{r['f1']:.2f}", f"{r['f1_guarded']:.2f}",
        ]
        for r in result["attacks"]
    ]  # fmt: skip
    honest = [
        [r["kind"], str(r["sessions"]), str(r["queries"]), str(r["flagged"]), f"{r['refused'] / r['queries']:.1%}"]
        for r in result["honest"]
    ]
    limits = [
        [str(r["limit"]), f"{r['served']:.1%}", f"{r['linkteller']:.2f}", f"{r['grouped']:.2f}"]
        for r in result["limits"]
    ]
    return "\n\n".join([
        f"### {result['graph']}",
        f"Plain GCN without defence, logits answered, {result['nodes']} attacked nodes around a random one, mean over "
        f"{result['node_sets']} node sets. Alarm: queries until the first review entry.",
        table(["attack", "detected", "alarm", "probes wanted", "answered", "F1 open", "F1 guarded"], attacks),
        "Honest users, all at one guard. Flagged: sessions with a review entry or a refusal (false alarms).",
        table(["honest traffic", "sessions", "queries", "flagged sessions", "refused queries"], honest),
        "A limit of Q queries with changed features per tenant, without the detectors; one attacker with one key.",
        table(["Q", "honest queries served", "F1 linkteller", "F1 grouped"], limits),
        f"`choose_limit` with a floor of 99 % picks Q = {result['chosen']} on this traffic.",
    ])  # fmt: skip


def write_docs(results: list[dict[str, Any]]) -> None:
    """Replace the tables between the marks of docs/guard.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    body = "\n\n".join(markdown(result) for result in results)
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{body}\n\n{MARKS[1]}{after}", encoding="utf-8")


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print, write the JSON file and, if asked, the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args(argv)
    names = ["cora"] if options.quick else ["cora", "chameleon"]
    size, seeds, sessions = (80, 1, 6) if options.quick else (200, 3, 40)
    results = [trial(name, size, seeds, sessions) for name in names]
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "guard.json").write_text(json.dumps(results, indent=1) + "\n")
    for result in results:
        print(markdown(result), flush=True)
    if options.write_docs:
        write_docs(results)
    kept = [r["f1_guarded"] / r["f1"] for result in results for r in result["attacks"] if r["f1"] > 0]
    print(f"\nF1 kept against the guard / F1 without it, mean over {len(kept)} attacks: {statistics.mean(kept):.2f}")
    return results


if __name__ == "__main__":
    main()
