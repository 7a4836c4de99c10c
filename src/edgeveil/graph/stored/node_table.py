"""Feature rows of all nodes, in node order, read block by block and never held as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from edgeveil.errors import GraphError, StorageError
from edgeveil.graph.stored.addresses import Place, open_parquet

__all__ = ["ROWS", "ArrayTable", "Block", "NodeTable", "ParquetTable", "open_array"]

ROWS = 1 << 16
Float = NDArray[np.float32]


class Block(NamedTuple):
    """Consecutive rows: the number of the first node, and the features."""

    start: int
    x: Float


class NodeTable:
    """Rows in blocks; block `k` is the same at every reading."""

    num_nodes: int
    num_features: int

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        raise NotImplementedError

    def read(self, number: int) -> Block:
        """One block."""
        raise NotImplementedError

    def blocks(self, order: Sequence[int] | None = None) -> Iterator[Block]:
        """All blocks, in node order or in the given one."""
        for number in range(self.num_blocks) if order is None else order:
            yield self.read(int(number))

    def rows(self, nodes: NDArray[np.int64]) -> Float:
        """The rows of these sorted nodes, reading only the blocks that hold them."""
        out = np.empty((len(nodes), self.num_features), np.float32)
        for number, (start, stop) in enumerate(self.bounds):
            low, high = np.searchsorted(nodes, [start, stop])
            if high > low:
                out[low:high] = self.read(number).x[nodes[low:high] - start]
        return out

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First node and end of every block."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ArrayTable(NodeTable):
    """Rows of a two-dimensional ``.npy`` file, mapped."""

    array: NDArray[Any]

    @property
    def num_nodes(self) -> int:  # type: ignore[override]
        return int(self.array.shape[0])

    @property
    def num_features(self) -> int:  # type: ignore[override]
        return int(self.array.shape[1])

    @property
    def num_blocks(self) -> int:
        return -(-self.num_nodes // ROWS)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        return [(at, min(at + ROWS, self.num_nodes)) for at in range(0, self.num_nodes, ROWS)]

    def read(self, number: int) -> Block:
        start, stop = number * ROWS, min((number + 1) * ROWS, self.num_nodes)
        return Block(start, _finite(np.asarray(self.array[start:stop], np.float32), start))


def open_array(path: Path) -> ArrayTable:
    """The features of a ``.npy`` file."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise StorageError(f"{path} is not a readable array ({error}); write it again with numpy.save") from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiub":
        raise GraphError(f"{path.name} holds no numbers with one row per node; features are an array [n, F]")
    return ArrayTable(array)


class ParquetTable(NodeTable):
    """Rows of parquet files, one row group after the other; large row groups are cut."""

    def __init__(self, place: Place, columns: Sequence[str]) -> None:
        self._place, self._columns = place, list(columns)
        self._parts: list[tuple[str, int, int, int, int]] = []  # file, row group, offset in it, start, stop
        start = 0
        for file in place.files:
            table = open_parquet(place, file)
            lost = next((name for name in self._columns if name not in table.schema_arrow.names), None)
            if lost is not None:
                raise GraphError(
                    f"{file} has no column {lost!r} as {place.files[0]} has; write all files with the same columns"
                )
            about = table.metadata
            for group in range(about.num_row_groups):
                rows = about.row_group(group).num_rows
                for offset in range(0, rows, ROWS):
                    size = min(ROWS, rows - offset)
                    self._parts.append((file, group, offset, start, start + size))
                    start += size
        self.num_nodes, self.num_features = start, len(self._columns)
        self._held: tuple[tuple[str, int], Any] | None = None

    @property
    def num_blocks(self) -> int:
        return len(self._parts)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        return [(start, stop) for *_, start, stop in self._parts]

    def read(self, number: int) -> Block:
        file, group, offset, start, stop = self._parts[number]
        if self._held is None or self._held[0] != (file, group):
            table = open_parquet(self._place, file).read_row_group(group, columns=self._columns)
            self._held = (file, group), table
        rows = self._held[1].slice(offset, stop - start)
        x = np.empty((stop - start, self.num_features), np.float32)
        for at, name in enumerate(self._columns):
            x[:, at] = _numbers(rows.column(name), name, self._place)
        return Block(start, _finite(x, start))


def _numbers(column: Any, name: str, place: Place) -> NDArray[Any]:
    if column.null_count:
        raise GraphError(f"{place.name}: column {name!r} lacks values; fill them in")
    try:
        return np.asarray(column.cast(pa.float32(), safe=False).to_numpy())
    except pa.ArrowException as error:
        raise GraphError(f"{place.name}: column {name!r} is no number ({error}); encode it, or leave it out") from error


def _finite(x: Float, start: int) -> Float:
    bad = ~np.isfinite(x)
    if bad.any():
        row, column = (int(k[0]) for k in np.nonzero(bad))
        raise GraphError(f"feature {column} of node {start + row} is {x[row, column]}; fill it in: features are finite")
    return x
