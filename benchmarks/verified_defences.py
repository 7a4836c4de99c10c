"""`edgeveil verify` on every defence at epsilon 1 and 4, as the table of docs/theory.md.

python benchmarks/verified_defences.py           # print the table (about 15 minutes of one idle core)
python benchmarks/verified_defences.py --quick   # with the settings of `verify --quick` (about two minutes)
python benchmarks/verified_defences.py --write   # and put it into docs/theory.md, row by row

With --write, rows of the page that were made with the same settings are kept, so a run that was stopped goes on where it
ended; names of defences as further arguments measure those alone, again.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edgeveil.defences.defence import DEFENCES, registered_name
from edgeveil.defences.defend import make_defence
from edgeveil.errors import InputError
from edgeveil.privacy.verify import QUICK, Effort, verify

PAGE = Path(__file__).parents[1] / "docs" / "theory.md"
START, END = "<!-- verified defences: generated -->\n\n", "<!-- end -->"
HEAD = (
    "| defence | claim | best lower bound | by | ceiling | verdict | runs, canaries | seconds |\n"
    "|---|---|---|---|---|---|---|---|\n"
)
EPSILONS = (1.0, 4.0)
ASKED = sys.argv[1:]
EFFORT = QUICK if "--quick" in ASKED else Effort()
SETTINGS = f"{EFFORT.runs:,}, {EFFORT.canaries:,}"
ONLY = [name for name in ASKED if not name.startswith("--")]


def number(bound: float) -> str:
    """Two digits behind the point."""
    return "unbounded" if math.isinf(bound) else f"{bound:.2f}"


def title(name: str, params: dict[str, str]) -> str:
    """How the table names a defence."""
    return f"`{name}`" + "".join(f", {key} {value}" for key, value in params.items())


def row(name: str, epsilon: float, params: dict[str, str]) -> str:
    """One verification."""
    started = time.process_time()
    try:
        found = verify(replace(make_defence(name, epsilon), **params), EFFORT)  # type: ignore[type-var]
    except InputError as error:
        return f"| {title(name, params)} | {epsilon:g} | – | {error} | – | – | {SETTINGS} | – |\n"
    best = max(found.findings, key=lambda f: f.lower_bound)
    claim = f"{found.claimed:g}" + (f", δ = {found.delta:g}" if found.delta else "")
    seconds = time.process_time() - started
    return (
        f"| {title(name, params)} | {claim} | {number(found.lower_bound)} | {best.test} | {number(found.ceiling)} "
        f"| {found.verdict} | {SETTINGS} | {seconds:.0f} |\n"
    )


def cases() -> Iterator[tuple[str, dict[str, str], float]]:
    """All defences with a parameter epsilon; the others claim nothing that noise would have to keep."""
    for name in DEFENCES.names():
        entry = DEFENCES.entry(name)
        if "epsilon" not in getattr(entry.cls, "__dataclass_fields__", {}):
            continue
        if registered_name(make_defence(name, EPSILONS[0])) != name:
            continue  # the same under another name
        for params in ({}, {"noise": "gaussian"}) if name == "lpgnet-2" else ({},):
            for epsilon in EPSILONS:
                yield name, params, epsilon


def written() -> dict[tuple[str, str], str]:
    """Rows of the page by title and claim."""
    text = PAGE.read_text(encoding="utf-8").split(START)[1].split(END)[0]
    rows = [line for line in text.splitlines(keepends=True) if line.startswith("| `")]
    return {
        (cells[1], cells[2].split(",")[0]): line for line in rows for cells in [[c.strip() for c in line.split("|")]]
    }


def write(rows: dict[tuple[str, str], str]) -> None:
    """The table in the page, in the order of the registry; the rest of the page stays."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(START)
    keys = [(title(name, params), f"{epsilon:g}") for name, params, epsilon in cases()]
    table = HEAD + "".join(rows[key] for key in keys if key in rows)
    PAGE.write_text(f"{before}{START}{table}{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def main() -> None:
    """Print, and write where asked."""
    writes = "--write" in ASKED
    rows = written() if writes else {}
    print(HEAD, end="")
    for name, params, epsilon in cases():
        key = title(name, params), f"{epsilon:g}"
        if (ONLY and name not in ONLY) or (not ONLY and SETTINGS in rows.get(key, "")):
            continue
        rows[key] = row(name, epsilon, params)
        print(rows[key], end="", flush=True)
        if writes:
            write(rows)


if __name__ == "__main__":
    main()
