"""Tables as columns: delimited text (csv, tsv, txt) read in blocks with a progress bar, or parquet."""

from __future__ import annotations

import contextlib
import csv
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.errors import GraphError, MissingExtra, StorageError

__all__ = ["Table", "progress_bar", "read_table"]

BLOCK = 1 << 23
_BAR_FROM = 1 << 21  # bytes below which a progress bar would only flicker
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None, ".edges": None}


class Table(NamedTuple):
    """Columns of one file; `names` is None if it has no header line."""

    names: tuple[str, ...] | None
    columns: list[list[str]]
    path: Path

    @property
    def rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0


@contextlib.contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Something to call with the bytes done; draws a bar if standard error is a terminal and the file is not small."""
    if total < _BAR_FROM or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    parts = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def read_table(path: str | Path, header: Callable[[list[str], list[str]], bool]) -> Table:
    """Read a table as strings. `header(first, second)` decides whether the first row holds names."""
    path = Path(path)
    if not path.is_file():
        raise StorageError(f"no such file: {path}; check the path")
    if path.suffix == ".parquet":
        return _read_parquet(path)
    if path.suffix not in _DELIMITERS:
        raise GraphError(f"{path.name} is of an unknown kind {path.suffix!r}; use .csv, .tsv, .txt or .parquet")
    return _read_text(path, header)


def _read_text(path: Path, header: Callable[[list[str], list[str]], bool]) -> Table:
    blocks = _text_blocks(path)
    first = next(blocks, "")
    delimiter = _delimiter(path, first)
    head, rest = _head(first)
    rows = _rows(head, delimiter)
    if not rows:
        raise GraphError(f"{path} holds no rows; it needs at least one")
    names = tuple(cell.strip() for cell in rows[0]) if header(rows[0], rows[1] if len(rows) > 1 else []) else None
    width = len(rows[0])
    columns: list[list[str]] = [[] for _ in range(width)]
    _append(columns, rows[1:] if names else rows, width, path)
    for block in itertools.chain([rest], blocks):
        fast = _fast_columns(block, delimiter, width)
        if fast is None:
            _append(columns, _rows(block, delimiter), width, path)
        else:
            for column, values in zip(columns, fast, strict=True):
                column.extend(values)
    return Table(names, columns, path)


def _head(block: str) -> tuple[str, str]:
    """The first two data lines (and the comments before them), and the rest."""
    at = found = 0
    while found < 2 and at < len(block):
        end = block.find("\n", at) + 1 or len(block)
        line = block[at:end]
        found += bool(line.strip()) and line[0] not in "#%"
        at = end
    return block[:at], block[at:]


def _fast_columns(block: str, delimiter: str | None, width: int) -> list[list[str]] | None:
    """Columns of a block by counting bytes, or None if a quote, comment, blank or uneven line asks for more care."""
    if not block or delimiter is None or '"' in block or "\r" in block.replace("\r\n", "\n"):
        return None
    text = block.replace("\r\n", "\n").rstrip("\n")
    raw = np.frombuffer(text.encode(), np.uint8)
    ends = np.append(np.flatnonzero(raw == 10), len(raw))
    starts = np.append(0, ends[:-1] + 1)
    marks = np.append(0, np.cumsum(raw == ord(delimiter)))
    if (marks[ends] - marks[starts] != width - 1).any() or (starts == ends).any():
        return None
    if np.isin(raw[starts], (ord("#"), ord("%"))).any():
        return None
    cells = text.replace("\n", delimiter).split(delimiter)
    return [cells[at::width] for at in range(width)]


def _text_blocks(path: Path) -> Iterator[str]:
    """The file in pieces that end at a line end."""
    rest = b""
    with path.open("rb") as file, progress_bar(f"reading {path.name}", path.stat().st_size) as advance:
        while block := file.read(BLOCK):
            advance(file.tell())
            block = rest + block
            cut = block.rfind(b"\n") + 1
            rest = block[cut:]
            if cut:
                yield _decode(block[:cut], path)
        if rest:
            yield _decode(rest, path)


def _decode(block: bytes, path: Path) -> str:
    try:
        return block.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}); convert it first"
        ) from error


def _delimiter(path: Path, sample: str) -> str | None:
    known = _DELIMITERS[path.suffix]
    if known is not None:
        return known
    line = next((line for line in sample.splitlines() if line and line[0] not in "#%"), "")
    return next((mark for mark in ("\t", ",", ";") if mark in line), None)


def _rows(block: str, delimiter: str | None) -> list[list[str]]:
    lines = [line for line in block.splitlines() if line and line[0] not in "#%" and not line.isspace()]
    if delimiter is not None and '"' in block:
        return list(csv.reader(lines, delimiter=delimiter))
    return [line.split(delimiter) for line in lines]


def _append(columns: list[list[str]], rows: list[list[str]], width: int, path: Path) -> None:
    seen = len(columns[0])
    try:
        turned = list(zip(*rows, strict=True))
    except ValueError:
        turned = []
    if rows and len(turned) != width:
        at = next(i for i, row in enumerate(rows) if len(row) != width)
        raise GraphError(
            f"{path}: data row {seen + at + 1} has {len(rows[at])} columns instead of {width}: "
            f"{','.join(rows[at])[:80]!r}; mend or drop it"
        )
    for column, values in zip(columns, turned, strict=False):
        column.extend(values)


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("reading parquet files", "parquet") from error
    try:
        table: Any = parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} is not a readable parquet file: {error}") from error
    columns = [["" if cell is None else str(cell) for cell in column.to_pylist()] for column in table.columns]
    if not columns or not columns[0]:
        raise GraphError(f"{path} holds no rows; it needs at least one")
    return Table(tuple(str(name) for name in table.column_names), columns, path)
