"""`edgeveil verify` on every defence at epsilon 1 and 4, as the table of docs/theory.md.

python benchmarks/verified_defences.py               # print the table
python benchmarks/verified_defences.py --quick       # with the settings of `verify --quick`
python benchmarks/verified_defences.py --write       # and put it into docs/theory.md, row by row
python benchmarks/verified_defences.py veil gap      # these defences alone

With --write, rows of the page that were made with the same settings are kept, so a run that was stopped goes on where it
ended; named defences are measured again. Processor time of one core
with the default settings: 150 to 160 seconds a row for GAP, 120 for LPGNet with Gaussian noise, 50 to 90 for EdgeRand,
LapGraph, veil and veil-rr, 15 to 60 for the others, nearly nothing where a claim is refuted at once; 25 minutes in all,
more on a busy machine, and a few with --quick.
"""

from __future__ import annotations

import argparse
import math
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


def settings(effort: Effort) -> str:
    """How the table names the settings of a row."""
    return f"{effort.runs:,}, {effort.canaries:,}"


def number(bound: float) -> str:
    """Two digits behind the point."""
    return "unbounded" if math.isinf(bound) else f"{bound:.2f}"


def title(name: str, params: dict[str, str]) -> str:
    """How the table names a defence."""
    return f"`{name}`" + "".join(f", {key} {value}" for key, value in params.items())


def row(name: str, epsilon: float, params: dict[str, str], effort: Effort) -> str:
    """One verification."""
    started = time.process_time()
    try:
        found = verify(replace(make_defence(name, epsilon), **params), effort)  # type: ignore[type-var]
    except InputError as error:
        return f"| {title(name, params)} | {epsilon:g} | – | {error} | – | – | {settings(effort)} | – |\n"
    best = max(found.findings, key=lambda f: f.lower_bound)
    claim = f"{found.claimed:g}" + (f", δ = {found.delta:g}" if found.delta else "")
    seconds = time.process_time() - started
    return (
        f"| {title(name, params)} | {claim} | {number(found.lower_bound)} | {best.test} | {number(found.ceiling)} "
        f"| {found.verdict} | {settings(effort)} | {seconds:.0f} |\n"
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


def asked() -> argparse.Namespace:
    """The command line."""
    lines = (__doc__ or "").splitlines()
    parser = argparse.ArgumentParser(description=lines[0], epilog=" ".join(lines[7:]))
    known = sorted({name for name, _, _ in cases()})
    parser.add_argument("defences", nargs="*", metavar="DEFENCE", help=f"measure these alone: {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="fewer runs and canaries, as `edgeveil verify --quick`")
    parser.add_argument("--write", action="store_true", help="put every row into docs/theory.md as it is measured")
    options = parser.parse_args()
    if unknown := set(options.defences) - set(known):
        parser.error(f"unknown defence {', '.join(sorted(unknown))}; use some of {', '.join(known)}")
    return options


def main() -> None:
    """Print, and write where asked."""
    options = asked()
    effort = QUICK if options.quick else Effort()
    rows = written() if options.write else {}
    print(HEAD, end="")
    for name, params, epsilon in cases():
        key = title(name, params), f"{epsilon:g}"
        skipped = name not in options.defences if options.defences else settings(effort) in rows.get(key, "")
        if skipped:
            continue
        rows[key] = row(name, epsilon, params, effort)
        print(rows[key], end="", flush=True)
        if options.write:
            write(rows)


if __name__ == "__main__":
    main()
