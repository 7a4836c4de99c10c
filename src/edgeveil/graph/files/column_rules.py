"""How one column of a table becomes numbers: a number, a yes/no, a date, one column per level, or nothing."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from edgeveil.errors import GraphError

__all__ = ["MISSING", "ColumnRule", "fit_rule", "is_number"]

Matrix = NDArray[np.float64]
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-"})
LEVELS = 20  # columns that a categorical column may become, besides "other"
_YES, _NO = frozenset({"true", "yes", "y", "t"}), frozenset({"false", "no", "n", "f"})
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")
_DAY = 86_400.0
NOTED = {"": "", "comma": " with decimal commas", "grouped": " with commas between thousands"}


def is_number(text: str) -> bool:
    """Whether a cell reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class ColumnRule:
    """A fitted column. `fill` stands in for missing cells, and `indicator` adds a column that says where it does."""

    name: str
    kind: str  # number, boolean, date (days since 1970-01-01), category, or "left out"
    levels: tuple[str, ...] = ()
    other: bool = False
    fill: float = 0.0
    indicator: bool = False
    comma: bool = False  # decimal comma
    said: str = ""
    grouped: bool = False  # thousands apart by commas

    @property
    def outputs(self) -> list[str]:
        """Names of the columns it becomes."""
        if self.kind == "left out":
            return []
        plain = [self.name] if self.kind != "category" else [f"{self.name}={level}" for level in self.levels]
        return [*plain, *[f"{self.name}=other"] * self.other, *[f"{self.name} is missing"] * self.indicator]

    def apply(self, column: Any, file: str, first_row: int = 1) -> Matrix:
        """One row per cell, one column per output; `column` is Arrow text."""
        if self.kind == "left out":
            return np.empty((len(column), 0))
        if self.kind == "category":
            return self._one_hot(column)
        if self.kind == "number" and (fast := _as_floats(column)) is not None:
            values = fast
        else:
            values = self._each(column.to_pylist(), file, first_row)
        bare = np.isnan(values)
        values = np.where(bare, self.fill, values)
        return np.column_stack([values, bare]) if self.indicator else values[:, None]

    def _one_hot(self, column: Any) -> Matrix:
        coded = column.dictionary_encode()
        place = {level: at for at, level in enumerate(self.levels)}
        end, cells = len(self.levels), coded.dictionary.to_pylist()
        out = np.zeros((len(column), len(self.outputs)))
        for number, cell in enumerate(cells):
            at = place.get(cell, end + self.other if _missing(cell) else end)
            if at < out.shape[1] and (at < end or (self.indicator if _missing(cell) else self.other)):
                out[coded.indices.to_numpy(zero_copy_only=False) == number, at] = 1.0
        return out

    def _each(self, cells: Sequence[str], file: str, first_row: int) -> Matrix:
        known = {cell: np.nan if _missing(cell) else self._value(cell) for cell in dict.fromkeys(cells)}
        bad = next((cell for cell, value in known.items() if value is None), None)
        if bad is not None:
            row = list(cells).index(bad) + first_row
            raise GraphError(
                f"{file}: row {row}, column {self.name!r}: {bad!r} is no {self.kind}; mend the cell or leave it empty"
            )
        return np.array([known[cell] for cell in cells], np.float64)

    def _value(self, cell: str) -> float | None:
        if self.kind == "boolean":
            return 1.0 if cell.lower() in _YES else 0.0 if cell.lower() in _NO else None
        if self.kind == "date":
            return _days(cell)
        text = cell.replace(".", "").replace(",", ".") if self.comma else cell
        text = text.replace(",", "") if self.grouped and _GROUPED.fullmatch(cell) else text
        return float(text) if is_number(text) and np.isfinite(float(text)) else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ColumnRule:
        """Inverse of `to_json`."""
        return cls(**{**values, "levels": tuple(values["levels"])})


def fit_rule(name: str, column: Any, *, comma: bool, file: str, first_row: int = 1) -> ColumnRule:
    """Decide what a column of Arrow text holds, and learn what applying it needs. `comma`: decimal commas may occur."""
    counts = Counter(dict(zip(*_counted(column), strict=True)))
    bare = sum(count for cell, count in counts.items() if _missing(cell))
    cells = [cell for cell in counts if not _missing(cell)]
    if not cells:
        return ColumnRule(name, "left out", said="left out: no cell is filled")
    kind, mark = _kind(cells, comma)
    if kind == "category":
        return _category(name, counts, cells, bare, len(column))
    values = ColumnRule(name, kind, fill=np.nan, comma=mark == "comma", grouped=mark == "grouped").apply(
        column, file, first_row
    )[:, 0]
    fill = float(np.nanmedian(values))  # also for tables to come, which may miss what this one has
    words = {"number": "a number", "boolean": "yes/no as 1/0", "date": "a date as days since 1970-01-01"}[kind]
    said = words + NOTED[mark]
    if np.nanmin(values) == np.nanmax(values):
        said += "; the same in every filled cell: it tells nothing"
    if bare:
        said += f"; {bare} missing cells filled with the median {fill:g} and marked in a column of their own"
    return ColumnRule(
        name, kind, fill=fill, indicator=bare > 0, comma=mark == "comma", said=said, grouped=mark == "grouped"
    )


def _counted(column: Any) -> tuple[list[str], list[int]]:
    found = pc.value_counts(column)
    return found.field("values").to_pylist(), found.field("counts").to_pylist()


def _missing(cell: str) -> bool:
    return cell.lower() in MISSING


def _kind(cells: Sequence[str], comma: bool) -> tuple[str, str]:
    """What most cells are, and how their numbers are marked; numbers with a few words among them are mistakes."""
    numbers = sum(map(is_number, cells))
    with_comma = comma and any("," in c for c in cells) and all(_COMMA.fullmatch(c) for c in cells)
    if with_comma:
        return "number", "comma"
    if any("," in c for c in cells) and all(_GROUPED.fullmatch(c) or is_number(c) for c in cells):
        return "number", "grouped"
    if 2 * numbers >= len(cells):
        return "number", ""
    if all(c.lower() in _YES | _NO for c in cells):
        return "boolean", ""
    dates = sum(bool(_ISO.fullmatch(c)) for c in cells)
    return ("date" if 2 * dates >= len(cells) else "category"), ""


def _category(name: str, counts: Counter[str], cells: list[str], bare: int, rows: int) -> ColumnRule:
    if len(cells) > LEVELS and 2 * len(cells) > rows - bare:
        return ColumnRule(name, "left out", said=f"left out: free text with {len(cells)} different values")
    common = sorted(cells, key=lambda cell: (-counts[cell], cell))[:LEVELS]
    other = len(cells) > LEVELS
    said = f"one column for each of {len(common)} levels" + f"; {len(cells) - LEVELS} rarer ones are 'other'" * other
    said += f"; {bare} missing cells marked in a column of their own" * (bare > 0)
    return ColumnRule(name, "category", tuple(sorted(common)), other, indicator=bare > 0, said=said)


def _as_floats(column: Any) -> Matrix | None:
    """The cells as finite floats in one pass, or None if some cell needs a closer look."""
    try:
        values: Matrix = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return values if np.isfinite(values).all() else None


def _days(cell: str) -> float | None:
    try:
        moment = datetime.datetime.fromisoformat(cell)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp() / _DAY
