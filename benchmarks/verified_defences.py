"""`edgeveil verify` on every defence at epsilon 1 and 4, as the table of docs/theory.md.

python benchmarks/verified_defences.py           # print the table (about 15 minutes of one idle core)
python benchmarks/verified_defences.py --quick   # with the settings of `verify --quick` (about two minutes)
python benchmarks/verified_defences.py --write   # and put it into docs/theory.md
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from pathlib import Path

from edgeveil.defences.api import make_defence
from edgeveil.defences.base import DEFENCES, registered_name
from edgeveil.errors import InputError
from edgeveil.privacy.verify import QUICK, Effort, verify

PAGE = Path(__file__).parents[1] / "docs" / "theory.md"
START, END = "<!-- verified defences: generated -->\n\n", "<!-- end -->"
HEAD = "| defence | claim | best lower bound | by | ceiling | verdict | seconds |\n|---|---|---|---|---|---|---|\n"
EPSILONS = (1.0, 4.0)
EFFORT = QUICK if "--quick" in sys.argv[1:] else Effort()


def number(bound: float) -> str:
    """Two digits behind the point."""
    return "unbounded" if math.isinf(bound) else f"{bound:.2f}"


def row(name: str, epsilon: float, **params: str) -> str:
    """One verification with default settings."""
    started = time.process_time()
    try:
        found = verify(replace(make_defence(name, epsilon), **params), EFFORT)  # type: ignore[type-var]
    except InputError as error:
        return f"| `{name}` | {epsilon:g} | – | {error} | – | – | – |\n"
    best = max(found.findings, key=lambda f: f.lower_bound)
    claim = f"{found.claimed:g}" + (f", δ = {found.delta:g}" if found.delta else "")
    seconds = time.process_time() - started
    title = f"`{name}`" + "".join(f", {key} {value}" for key, value in params.items())
    return (
        f"| {title} | {claim} | {number(found.lower_bound)} | {best.test} | {number(found.ceiling)} "
        f"| {found.verdict} | {seconds:.0f} |\n"
    )


def table() -> str:
    """All defences with a parameter epsilon; the others claim nothing that noise would have to keep."""
    out = HEAD
    for name in DEFENCES.names():
        entry = DEFENCES.entry(name)
        if "epsilon" not in getattr(entry.cls, "__dataclass_fields__", {}):
            continue
        if registered_name(make_defence(name, EPSILONS[0])) != name:
            continue  # the same under another name
        for params in ({}, {"noise": "gaussian"}) if name == "lpgnet-2" else ({},):
            for epsilon in EPSILONS:
                out += row(name, epsilon, **params)
                print(out.splitlines()[-1], file=sys.stderr, flush=True)
    return out


def main() -> None:
    """Print, and write where asked."""
    text = f"With {EFFORT.runs:,} runs and {EFFORT.canaries:,} canaries:\n\n{table()}"
    print(text)
    if "--write" in sys.argv[1:]:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(START)
        PAGE.write_text(f"{before}{START}{text}{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
