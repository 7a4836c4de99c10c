"""Run a sample of a store's rows again and record the methods whose rows are equal: python scripts/carry_rows.py STORE

Rows that another version of the code made are run anew by default. Where a sample of every method of a store gives the
same figures with this code, that is recorded in the package, and this and later versions keep such rows. Graphs are
looked up by the names that the store has; NAME=FILE gives one from a file.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import edgeveil as ev
from edgeveil.graph.npz import read_npz
from edgeveil.runs.carried_rows import compare, sample
from edgeveil.runs.code_digest import code_digest
from edgeveil.runs.store import Store

RECORD = Path(__file__).parents[1] / "src" / "edgeveil" / "runs" / "data" / "carried_rows.json"


def main(store: str, *graphs: str) -> None:
    """Compare, say what was found, and add to the record."""
    own = {name: read_npz(Path(file)) for name, _, file in (word.partition("=") for word in graphs)}
    entries = json.loads(RECORD.read_text(encoding="utf-8"))
    with Store(store, create=False) as opened:
        chosen = sample(opened)
    for code, records in chosen.items():
        if code == code_digest():
            continue
        found = compare(code, records, lambda name: own[name] if name in own else ev.load(name))
        print(f"{code}: {found.runs} runs again; equal: {', '.join(found.equal) or 'nothing'}")
        for defence, what in found.changed.items():
            print(f"  changed: {defence}: {what}")
        entries.append({
            "from": code, "to": code_digest(), "defences": list(found.equal), "runs": found.runs,
            "changed": dict(found.changed), "date": datetime.now(UTC).date().isoformat(),
        })  # fmt: skip
    RECORD.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
