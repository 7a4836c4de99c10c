"""A fitted way from a table as its owner has it to numeric features; stored with a release, used for later tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from edgeveil.errors import GraphError, InputError
from edgeveil.graph.files.column_rules import ColumnRule, fit_rule
from edgeveil.graph.files.columns import read_table

__all__ = ["TableTransform", "columns_of"]

Columns = Mapping[str, Any]  # name -> Arrow text


@dataclass(frozen=True)
class TableTransform:
    """One rule per column, in the order of the table that it was fitted on. `id_column` is passed over."""

    rules: tuple[ColumnRule, ...]
    id_column: str = ""

    @classmethod
    def fit(
        cls, columns: Columns, *, id_column: str = "", comma: bool = False, file: str = "table", first_row: int = 1
    ) -> TableTransform:
        """Learn from a table. `comma`: its delimiter is no comma, so numbers may have decimal commas."""
        said: dict[str, Any] = {"comma": comma, "file": file, "first_row": first_row}
        return cls(tuple(fit_rule(name, cells, **said) for name, cells in columns.items()), id_column)

    @property
    def outputs(self) -> list[str]:
        """Names of the features."""
        return [name for rule in self.rules for name in rule.outputs]

    @property
    def changed(self) -> bool:
        """Whether anything but plain numbers was in the table."""
        return any(rule.kind != "number" or rule.indicator or rule.comma for rule in self.rules)

    def describe(self) -> list[str]:
        """One line per column: what it is taken for and what was done about missing cells."""
        return [f"{rule.name}: {rule.said}" for rule in self.rules]

    def apply(self, table: Any) -> NDArray[np.float64]:
        """Features of a table (a file, a mapping of columns, a data frame or an Arrow table), one row per row of it.

        Every fitted column must be there; others are passed over. Unknown levels are "other", or no level at all.
        """
        columns, file, first_row = columns_of(table, [rule.name for rule in self.rules])
        lacking = [rule.name for rule in self.rules if rule.name not in columns and rule.kind != "left out"]
        if lacking:
            raise InputError(f"{file} has no column {lacking[0]!r}; it has {', '.join(columns) or 'none'}")
        try:
            return self.apply_columns(columns, file, first_row)
        except GraphError as error:
            raise InputError(str(error)) from error

    def apply_columns(self, columns: Columns, file: str, first_row: int = 1) -> NDArray[np.float64]:
        """The same for columns of Arrow text; `first_row` is the number of the first data row in messages."""
        used = [rule for rule in self.rules if rule.kind != "left out"]
        parts = [rule.apply(columns[rule.name], file, first_row) for rule in used]
        return np.column_stack(parts) if parts else np.empty((0, 0))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"id_column": self.id_column, "rules": [rule.to_json() for rule in self.rules]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TableTransform:
        """Inverse of `to_json`."""
        return cls(tuple(ColumnRule.from_json(rule) for rule in values["rules"]), values["id_column"])


def columns_of(table: Any, wanted: Sequence[str] = ()) -> tuple[dict[str, Any], str, int]:
    """The columns of any kind of table as Arrow text, what to call it in messages, and its first row of data."""
    if isinstance(table, (str, Path)):
        read = read_table(table, lambda t: bool(set(t.row(0)) & set(wanted)))
        names = read.names or tuple(wanted[-read.width :])
        if len(names) != read.width:
            raise InputError(
                f"{Path(table).name} has no header and {read.width} columns; name them: {', '.join(wanted)}"
            )
        return {name: read.text(at) for at, name in enumerate(names)}, read.path.name, 1 + (read.names is not None)
    if isinstance(table, pa.Table):
        return {str(n): as_text(table.column(at)) for at, n in enumerate(table.column_names)}, "the table", 1
    titles = list(table.keys()) if isinstance(table, Mapping) else list(getattr(table, "columns", ()))
    if not titles:
        raise InputError(
            f"a table is a file, a mapping of columns, a data frame or an Arrow table, got {type(table).__name__}"
        )
    return {str(name): as_text(list(table[name])) for name in titles}, "the table", 1


def as_text(cells: Any) -> Any:
    """Any column as Arrow text; None and NaN are empty."""
    if not isinstance(cells, (pa.Array, pa.ChunkedArray)):
        cells = pa.array([_text(cell) for cell in cells], pa.string())
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    cells = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
    return pc.utf8_trim_whitespace(pc.fill_null(pc.cast(cells, pa.string()), ""))


def _text(cell: Any) -> str:
    if cell is None or cell != cell:
        return ""
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
