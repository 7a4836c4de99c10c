"""A gate for pipelines: thresholds that an audit must show to be met, each judged with its interval.

What is not shown is a failure. Without a name the recommended release is judged, or the one model of an audit that
trains nothing; because it was picked among the candidates, the error of its intervals is split over all of them. A
release that was named beforehand was not picked, so only the looks share the error.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgeveil.audits.cells import Cell
from edgeveil.audits.gains import ALPHA
from edgeveil.errors import StorageError, UsageError
from edgeveil.report.audit_data import AuditData
from edgeveil.report.judged import best_defence, judged
from edgeveil.report.verdict import why_nothing

__all__ = ["Check", "Clause", "Gate", "check_names", "parse_require", "require"]

Outcome = Literal["holds", "fails", "not shown"]
GRAMMAR = "leakage<=0.2; utility>=0.7; epsilon<=4; allowed<=0.1; guarantee=sound, with lpgnet-2@4: in front to name one"
SENSES = {"leakage": "<=", "utility": ">=", "epsilon": "<=", "allowed": "<=", "guarantee": "="}
CLAUSE = re.compile(
    r"\s*(?:(?P<release>[\w.-]+(?:@[\d.]+)?)\s*:)?\s*(?P<what>[a-z]+)\s*(?P<sense><=|>=|==?)\s*(?P<at>\S+)\s*"
)


@dataclass(frozen=True)
class Clause:
    """One threshold; `release` is a defence, or defence@epsilon, or None for the recommended one."""

    what: str
    at: float
    release: str | None = None

    @property
    def text(self) -> str:
        """As it is written."""
        return "guarantee=sound" if self.what == "guarantee" else f"{self.what}{SENSES[self.what]}{self.at:g}"


@dataclass(frozen=True)
class Check:
    """How one clause came out for one release."""

    release: str
    clause: str
    outcome: Outcome
    sentence: str


@dataclass(frozen=True)
class Gate:
    """The checks of one audit; it is open only if every one holds."""

    graph: str
    checks: Sequence[Check]

    @property
    def passed(self) -> bool:
        """Whether everything asked for is shown."""
        return bool(self.checks) and all(c.outcome == "holds" for c in self.checks)

    @property
    def failures(self) -> list[str]:
        """The sentences that failed, and those that were not shown."""
        return [c.sentence for c in self.checks if c.outcome != "holds"]

    def write_junit(self, path: str | Path) -> None:
        """JUnit XML, one suite per release, as build servers read it."""
        root = ET.Element("testsuites", name=f"edgeveil audit of {self.graph}")
        for release in dict.fromkeys(c.release for c in self.checks):
            part = [c for c in self.checks if c.release == release]
            bad = sum(c.outcome != "holds" for c in part)
            suite = ET.SubElement(root, "testsuite", name=release, tests=str(len(part)), failures=str(bad), errors="0")
            for check in part:
                case = ET.SubElement(suite, "testcase", classname=f"{self.graph}.{release}", name=check.clause)
                if check.outcome == "holds":
                    ET.SubElement(case, "system-out").text = check.sentence
                else:
                    ET.SubElement(case, "failure", type=check.outcome, message=check.sentence)
        root.set("tests", str(len(self.checks)))
        root.set("failures", str(len(self.failures)))
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror or error}; choose another --junit") from error


def parse_require(text: str) -> list[Clause]:
    """``"leakage<=0.2; utility>=0.7; guarantee=sound"``; a release named in front counts until the next name."""
    clauses: list[Clause] = []
    release: str | None = None
    for part in (p for p in text.split(";") if p.strip()):
        found = CLAUSE.fullmatch(part)
        if found is None or found["what"] not in SENSES:
            raise UsageError(f"cannot read the requirement {part.strip()!r}; write {GRAMMAR}")
        what, sense = found["what"], found["sense"].replace("==", "=")
        if sense != SENSES[what]:
            raise UsageError(f"{part.strip()!r} asks for the worse side; a gate asks for {what}{SENSES[what]}...")
        release = found["release"] or release
        clauses.append(Clause(what, _threshold(what, found["at"], part.strip()), release))
    if not clauses:
        raise UsageError(f"the requirement {text!r} is empty; write {GRAMMAR}")
    return clauses


def _threshold(what: str, at: str, part: str) -> float:
    if what == "guarantee":
        if at != "sound":
            raise UsageError(f"{part!r}: only guarantee=sound can be required")
        return math.nan
    try:
        value = float(at.removesuffix("%")) / (100 if at.endswith("%") else 1)
    except ValueError as error:
        raise UsageError(f"{part!r}: {at!r} is not a number; write {GRAMMAR}") from error
    if not (0 < value < math.inf if what == "epsilon" else 0 <= value <= 1):
        raise UsageError(f"{part!r}: a threshold for {what} lies {'above 0' if what == 'epsilon' else 'in 0 to 1'}")
    return value


def check_names(clauses: Sequence[Clause], planned: Iterable[tuple[str, float | None]]) -> None:
    """Refuse a name that these defences and epsilons do not give, before anything is trained."""
    cells = list(dict.fromkeys(planned))
    for release in dict.fromkeys(c.release for c in clauses if c.release is not None):
        _position(release, cells)


def require(data: AuditData, asked: str | Sequence[Clause]) -> Gate:
    """Judge an audit; a release that it has no figures for is bad usage, one that it does not recommend a failure.

    An audit that stopped early shows nothing about releases that it did not come to.
    """
    clauses = parse_require(asked) if isinstance(asked, str) else asked
    cells = judged(data)
    checks: list[Check] = []
    for release in dict.fromkeys(c.release for c in clauses):
        part = [c for c in clauses if c.release == release]
        if release is not None and data.settings.get("stopped") and not _positions(release, _names(cells)):
            why = f"is not shown: it was not measured. {data.settings['stopped']}"
            checks += [Check(release, c.text, "not shown", f"{release}: {c.text} {why}") for c in part]
            continue
        cell, picked_from = _judged_cell(data, cells, release)
        if cell is None:
            why = f"no release is recommended, so nothing is shown: {why_nothing(cells)}"
            checks += [Check("recommended release", c.text, "not shown", f"{c.text} is not shown: {why}") for c in part]
            continue
        looks = max(int(data.settings.get("looks", 1)), 1)
        checks += [_check(cell, c, ALPHA / picked_from, ALPHA / (picked_from * looks)) for c in part]
    checks += [Check("the audit", "every part finished", "fails", f"a part failed: {f}") for f in data.failures]
    return Gate(str(data.graph["name"]), checks)


def _judged_cell(data: AuditData, cells: Sequence[Cell], release: str | None) -> tuple[Cell | None, int]:
    """The cell that a clause is about, and among how many it was picked."""
    if release is None:
        if data.settings.get("existing") and len(cells) == 1:
            return cells[0], 1
        return best_defence(cells), max(sum(c.candidate for c in cells), 1)
    return cells[_position(release, _names(cells))], 1


def _names(cells: Sequence[Cell]) -> list[tuple[str, float | None]]:
    return [(c.defence, c.epsilon) for c in cells]


def _positions(release: str, cells: Sequence[tuple[str, float | None]]) -> list[int]:
    name, _, epsilon = release.partition("@")
    return [i for i, (d, e) in enumerate(cells) if d == name and (not epsilon or e == float(epsilon))]


def _position(release: str, cells: Sequence[tuple[str, float | None]]) -> int:
    """Where the one release of this name stands."""
    found = _positions(release, cells)
    if len(found) != 1:
        known = ", ".join(defence + (f"@{epsilon:g}" if epsilon else "") for defence, epsilon in cells)
        what = "has no release" if not found else f"has {len(found)} releases"
        raise UsageError(f"the audit {what} {release!r}; it has {known}")
    return found[0]


def _check(cell: Cell, clause: Clause, leak_level: float, utility_level: float) -> Check:
    if clause.what == "guarantee":
        return _guarantee(cell, clause)
    if clause.what in ("epsilon", "allowed"):
        return _promised(cell, clause)
    leak = clause.what == "leakage"
    value = cell.leakage if leak else cell.utility
    low, high = cell.leakage_interval(leak_level) if leak else cell.utility_interval(utility_level)
    if math.isnan(low):
        measured = "was not measured" if math.isnan(value) else f"is {value:.3f}, with an unknown interval"
        more = "Attack more with --nodes." if leak else "Allow more runs with --minutes or --runs."
        return _said(cell, clause, "not shown", f"{clause.what} {measured}. {more}")
    bad, good = (low > clause.at, high <= clause.at) if leak else (high < clause.at, low >= clause.at)
    figures = f"{value:.3f} [{low:.3f}, {high:.3f}]"
    if good or bad:
        return _said(cell, clause, "holds" if good else "fails", f"{clause.what} is {figures}.")
    edge = f"reaches {high:.3f}" if leak else f"begins at {low:.3f}"
    more = f"{cell.edges} true edges were attacked; --nodes attacks more." if leak else "More runs (--runs) narrow it."
    return _said(cell, clause, "not shown", f"{clause.what} is {figures}: the interval {edge}. {more}")


def _guarantee(cell: Cell, clause: Clause) -> Check:
    if cell.status == "sound" and cell.comparable:
        return _said(cell, clause, "holds", "its guarantee for one undirected edge is sound.")
    unit = "" if cell.comparable else f", and it is for {cell.unit}, not for one undirected edge"
    return _said(cell, clause, "fails", f"its guarantee is {cell.status!r}{unit}.")


def _promised(cell: Cell, clause: Clause) -> Check:
    """What the guarantee states needs no interval; one that is not sound states nothing."""
    if cell.status != "sound" or not cell.comparable or cell.epsilon is None:
        return _said(cell, clause, "not shown", f"no sound ε for one edge stands behind it ({cell.promise}).")
    value = cell.epsilon if clause.what == "epsilon" else cell.allowed
    stated = "its ε is" if clause.what == "epsilon" else "at 1 % false alarms its ε lets an attack find"
    return _said(cell, clause, "holds" if value <= clause.at else "fails", f"{stated} {value:.4g}.")


def _said(cell: Cell, clause: Clause, outcome: Outcome, why: str) -> Check:
    verb = "is not shown" if outcome == "not shown" else outcome
    return Check(cell.label, clause.text, outcome, f"{cell.label}: {clause.text} {verb}: {why}")
