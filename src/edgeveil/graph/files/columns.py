"""Tables as columns: delimited text (csv, tsv, txt; also gzip or zstd) or parquet, both read by Arrow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from edgeveil.errors import GraphError, StorageError
from edgeveil.graph.files.text import kind_of, read_text
from edgeveil.graph.stored.addresses import find_tables, is_table_folder, open_parquet

__all__ = ["Table", "read_table"]

Row = list[str]
BLOCK = 1 << 24  # bytes; also the longest row


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one file; `names` is None if it has no header line. Cells are stripped text."""

    names: tuple[str, ...] | None
    arrays: tuple[Any, ...]  # Arrow arrays, of text unless the file itself has types
    path: Path
    said: str = ""  # how the file was read, in words
    delimiter: str | None = None

    @property
    def width(self) -> int:
        return len(self.arrays)

    @property
    def rows(self) -> int:
        return len(self.arrays[0]) if self.arrays else 0

    def text(self, at: int) -> Any:
        """One column as Arrow strings; missing cells are empty."""
        return pc.utf8_trim_whitespace(pc.fill_null(pc.cast(self.arrays[at], pa.string()), ""))

    def cells(self, at: int) -> list[str]:
        """One column as Python strings."""
        out: list[str] = self.text(at).to_pylist()
        return out

    def coded(self, at: int) -> tuple[NDArray[np.int64], list[str]]:
        """One column as its distinct cells, in order of appearance, and the number of each row's cell."""
        encoded = self.text(at).dictionary_encode()
        return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()

    def distinct(self, at: int) -> list[str]:
        """The distinct cells of one column, in order of appearance."""
        out: list[str] = self.text(at).unique().to_pylist()
        return out

    def row(self, number: int) -> Row:
        """The cells of one row, empty beyond the end."""
        if number >= self.rows:
            return []
        return [str(self._slice(number, 1).text(at)[0].as_py()) for at in range(self.width)]

    def name(self, at: int) -> str:
        """What to call a column in a message."""
        return self.names[at] if self.names and self.names[at] else f"column {at + 1}"

    def place(self, name: str, option: str) -> int:
        """The column of that name or, without a header, of that number counted from 1."""
        if self.names is None and name.isdecimal() and 1 <= int(name) <= self.width:
            return int(name) - 1
        found = [at for at, own in enumerate(self.names or ()) if own.lower() == name.lower()]
        if not found:
            has = ", ".join(self.names) if self.names else f"no header and {self.width} columns"
            raise GraphError(f"{self.path.name} has no column {name!r} ({option}); it has {has}")
        return found[0]

    def headed(self) -> Table:
        """The table with its first row as names."""
        return replace(self.below(), names=tuple(self.row(0)))

    def below(self) -> Table:
        """The table without its first row."""
        return self._slice(1)

    def _slice(self, start: int, length: int | None = None) -> Table:
        return replace(self, arrays=tuple(array.slice(start, length) for array in self.arrays))


def read_table(path: str | Path, header: Callable[[Table], bool] | None = None, delimiter: str | None = None) -> Table:
    """Read a table. `header(table)` decides whether the first row holds names (default: it does not)."""
    if is_table_folder(path):
        return _read_folder(path)
    path = Path(path)
    if not path.is_file():
        raise StorageError(f"no such file: {path}; check the path")
    if kind_of(path) == ".parquet":
        return _read_parquet(path)
    table = _read_text(path, delimiter)
    return table.headed() if header is not None and header(table) else table


def _read_text(path: Path, delimiter: str | None) -> Table:
    text = read_text(path, delimiter)
    width = len(text.first)
    if not width:
        raise GraphError(f"{path} holds no rows; it needs at least one")
    uneven: list[Any] = []
    names = [f"f{at}" for at in range(width)]
    handler = functools.partial(_note_uneven, uneven)
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text.data),
            pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=BLOCK),
            pyarrow.csv.ParseOptions(
                delimiter=text.delimiter, newlines_in_values=b'"' in text.data, invalid_row_handler=handler
            ),
            pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        if not uneven:
            raise GraphError(f"{path.name} cannot be read as {text.said}: {error}; name its --delimiter") from error
        row = uneven[0]
        shown = text.delimiter.join(str(row.text).split(text.delimiter))[:80]
        raise GraphError(
            f"{path.name}: row {row.number} has {row.actual_columns} columns instead of {row.expected_columns}: "
            f"{shown!r} (read as {text.said}); mend or drop it, or name the --delimiter"
        ) from None
    return Table(None, tuple(table[name].combine_chunks() for name in names), path, text.said, text.delimiter)


def _note_uneven(found: list[Any], row: Any) -> str:
    found.append(row)
    return "error"


def _read_folder(where: str | Path) -> Table:
    """All parquet files of a folder or an address as one table."""
    place = find_tables(where)
    try:
        tables = [open_parquet(place, file).read() for file in place.files]
        whole = pa.concat_tables(tables, promote_options="permissive")
    except (OSError, pa.ArrowException) as error:
        raise StorageError(
            f"the parquet files of {place.address} do not form one table: {error}; write all with the same columns and "
            "types"
        ) from error
    return _as_table(whole, Path(place.name), f"{len(tables)} parquet files")


def _read_parquet(path: Path) -> Table:
    try:
        table: Any = pyarrow.parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} is not a readable parquet file: {error}; write it again or take it away") from error
    return _as_table(table, path, "parquet")


def _as_table(table: Any, path: Path, said: str) -> Table:
    if not table.num_rows or not table.num_columns:
        raise GraphError(f"{path} holds no rows; it needs at least one")
    nested = [str(field.name) for field in table.schema if pa.types.is_nested(field.type)]
    if nested:
        raise GraphError(f"{path.name}: column {nested[0]!r} holds lists or records; flatten it to plain columns first")
    arrays = tuple(_plain(table.column(at).combine_chunks()) for at in range(table.num_columns))
    return Table(tuple(map(str, table.column_names)), arrays, path, said)


def _plain(array: Any) -> Any:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def shown(row: Sequence[str]) -> str:
    """A row for a message."""
    return ",".join(row)[:80]
