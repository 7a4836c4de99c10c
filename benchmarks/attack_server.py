"""Attacks on a running server: link stealing under several guards, and what clients without a key can break.

Every row is a fresh `edgeveil serve` on 127.0.0.1 with its own state folder. The release is a plain GCN without defence
that answers logits, the worst case. F1 at the true number of edges among the attacked nodes; answers that the server
refuses, or gives as if each node's own row alone had changed, count as "no change seen".

    python benchmarks/attack_server.py [--quick] [--sets N] [--write-docs] [--afresh]

A full run keeps every measurement in benchmarks/attack_server.jsonl and goes on from there when it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import stored_answers  # noqa: E402
from link_stealing import ATTACKS, FULL, QUICK, make_scene, prepare, steal  # noqa: E402
from live_server import GUARDS  # noqa: E402
from service_attacks import archives, drip, guesses, honest, overflow  # noqa: E402

PAGE = HERE.parent / "docs" / "guard.md"
MARKS = "<!-- server: begin -->", "<!-- server: end -->"


def run(quick: bool, seeds: int, store: Path | None = None) -> dict[str, Any]:
    """Everything, printed as it comes. What the store has is not measured again."""
    facts: dict[str, Any] = {"rows": [], "service": []}
    kept = {} if store is None or not store.exists() else dict(map(_line, store.read_text().splitlines()))
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        graph, facts["graph"], size = prepare(quick, folder)
        release = folder / "release"
        scenes = [make_scene(graph, release, size, seed) for seed in range(seeds)]
        facts |= {"nodes": size, "node_sets": seeds}

        def measured(name: str, measure: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
            found = kept.get(name)
            if found is None:
                found = measure(*given)
                print(name, found, flush=True)
                if store is not None:
                    with store.open("a") as lines:
                        lines.write(json.dumps([name, found]) + "\n")
            return found

        many = [make_scene(graph, release, size, seed) for seed in range(2 if quick else 10)]
        facts["stored"] = measured(f"{facts['graph']}: stored answers", stored_answers.floor, many, release)
        cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for number, scene in enumerate(scenes):
            for attack, guard in QUICK if quick else FULL:
                if number == 0 or not attack.startswith("flatroot"):  # that one recovers the whole graph
                    name = f"{facts['graph']}: {attack} / {guard} / set {number}"
                    got = measured(name, steal, scene, release, attack, guard)
                    cells.setdefault((attack, guard), []).append(got)
        for (attack, guard), each in cells.items():
            means = {what: statistics.mean(cell[what] for cell in each) for what in ("f1", "given")}
            facts["rows"].append({"attack": attack, "guard": guard, **means})
        facts["honest"] = measured("honest users", honest, release, 2 if quick else 10)
        for what, measure, given in (("drip", drip, (release, *((60, 3) if quick else (600, 15)))),
                                     ("archives", archives, (release, 2 if quick else 10)),
                                     ("overflow", overflow, (release, scenes[0].nodes, scenes[0].features.shape[1])),
                                     ("guesses", guesses, (release, 40))):  # fmt: skip
            facts["service"].append(measured(what, measure, *given))
    return facts


def _line(text: str) -> tuple[str, dict[str, Any]]:
    name, found = json.loads(text)
    return name, found


def markdown(facts: dict[str, Any]) -> str:
    """The tables of docs/guard.md."""
    guards = [guard for guard in GUARDS if any(row["guard"] == guard for row in facts["rows"])]
    found = {(row["attack"], row["guard"]): row for row in facts["rows"]}
    lines = [
        f"{facts['graph']}: {facts['nodes']} attacked nodes around a random one, mean over {facts['node_sets']} set(s) "
        "of nodes, logits answered. The detectors are off in the columns with cross-readings. flatroot recovers the "
        "whole graph and was run once per cell; empty cells do not differ (keys and tenants without a guard) or do not "
        "apply.",
        "",
        "| F1 of the attack | " + " | ".join(guards) + " |",
        "|---|" + "---|" * len(guards),
    ]
    for attack in ATTACKS:
        cells = [f"{found[attack, g]['f1']:.2f}" if (attack, g) in found else "" for g in guards]
        lines.append(f"| {attack} | " + " | ".join(cells) + " |")
    users = facts["honest"]
    lines += ["", *stored_answers.markdown(facts["stored"])]
    lines += ["", f"Honest made-up users of an opened server with the defaults: of {users['asked']} questions "
              f"{users['refused']} were refused and {users['alone']} were answered as if each node's own row alone had "
              "changed.", "", "| without a key, or against the service | asked | answered | |", "|---|---|---|---|"]  # fmt: skip
    lines += [f"| {s['attack']} | {s['asked']} | {s['answered']} | {s.get('note', '')} |" for s in facts["service"]]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run, print the table, write the JSON file and, if asked, the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--sets", type=int, default=1, help="sets of attacked nodes")
    parser.add_argument("--afresh", action="store_true", help="forget earlier measurements")
    options = parser.parse_args(argv)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    store = None if options.quick else HERE / "attack_server.jsonl"
    if options.afresh and store is not None:
        store.unlink(missing_ok=True)
    facts = run(options.quick, options.sets, store)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "attack_server.json").write_text(json.dumps(facts, indent=1) + "\n")
    print("\n" + markdown(facts))
    if options.write_docs:
        before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{markdown(facts)}\n\n{MARKS[1]}{after}", encoding="utf-8")
    return facts


if __name__ == "__main__":
    main()
