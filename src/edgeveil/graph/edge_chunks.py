"""Edge files read in chunks: memory stays bounded however long the file is, and every edge comes out once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import GraphError, StorageError

__all__ = ["CHUNK", "edge_chunks", "simple_chunks"]

CHUNK = 1 << 21  # edges held at a time
Int = NDArray[np.int64]
Pairs = Iterator[tuple[Int, Int]]


def edge_chunks(path: Path, chunk: int = CHUNK) -> Pairs:
    """(u, v) arrays of at most about `chunk` edges, as the file has them.

    Text files hold two whole numbers per line, separated by comma, tab or space, with an optional header line and
    ``#`` comments at the top; ``.npy`` files hold an integer array [2, E] or [E, 2] and are mapped, not loaded.
    """
    if not path.is_file():
        raise StorageError(f"no edge file at {path}; give a text or .npy file with two node numbers per edge")
    return _npy_chunks(path, chunk) if path.suffix == ".npy" else _text_chunks(path, chunk)


def _npy_chunks(path: Path, chunk: int) -> Pairs:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim != 2 or 2 not in array.shape or array.dtype.kind not in "iu":
        raise GraphError(f"{path.name} holds {array.dtype} {array.shape}; edges are an integer array [2, E] or [E, 2]")
    rows = array if array.shape[0] == 2 else array.T
    for start in range(0, rows.shape[1], chunk):
        u, v = np.asarray(rows[:, start : start + chunk], dtype=np.int64)
        yield u, v


def _text_chunks(path: Path, chunk: int) -> Pairs:
    with path.open("rb") as file:
        start = 0
        for line in iter(file.readline, b""):
            if line.strip() and not line.lstrip().startswith(b"#"):
                parts = line.replace(b",", b" ").split()
                if not all(part.isdigit() for part in parts):  # a header
                    start = file.tell()
                break
            start = file.tell()
        file.seek(start)
        while block := file.read(12 * chunk):
            block += file.readline()
            yield _parse(block, path)


def _parse(block: bytes, path: Path) -> tuple[Int, Int]:
    words = block.replace(b",", b" ").split()
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    try:
        numbers = np.array(words, dtype=np.int64)
    except ValueError as error:
        raise GraphError(f"{path.name} holds a line that is not two whole numbers: {error}") from error
    if len(numbers) % 2 or len(numbers) > 2 * lines:
        raise GraphError(f"{path.name} does not hold exactly two node numbers on every line; drop weights and times")
    return numbers[0::2], numbers[1::2]


def simple_chunks(read: Callable[[], Pairs], num_nodes: int, chunk: int = CHUNK) -> Pairs:
    """Every undirected edge once, u < v, from a file that `read` can open again.

    One pass shows whether the file is strictly sorted with u < v and counts the edges by their lower end; only if it
    is not, nodes are grouped so that no group has more than about `chunk` edges and the file is read once per group.
    """
    ordered, per_node = _survey(read(), num_nodes)
    if ordered:
        yield from read()
        return
    bounds = [0]
    ends = np.cumsum(per_node)
    while bounds[-1] < num_nodes:
        done = ends[bounds[-1] - 1] if bounds[-1] else 0
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(ends, done + chunk, side="right"))))
    for low, high in pairwise(bounds):
        keys = [_keys(u, v, num_nodes, low, high) for u, v in read()]
        unique = np.unique(np.concatenate(keys)) if keys else np.empty(0, np.int64)
        yield unique // num_nodes, unique % num_nodes


def _keys(u: Int, v: Int, n: int, low: int, high: int) -> Int:
    a, b = np.minimum(u, v), np.maximum(u, v)
    mine = (a >= low) & (a < high) & (a != b)
    keys: Int = a[mine] * n + b[mine]
    return keys


def _survey(chunks: Pairs, n: int) -> tuple[bool, Int]:
    ordered, last = True, -1
    per_node = np.zeros(n, np.int64)
    for u, v in chunks:
        a, b = np.minimum(u, v), np.maximum(u, v)
        if len(a) and (a.min() < 0 or b.max() >= n):
            raise GraphError(f"the edge file names node {a.min() if a.min() < 0 else b.max()}; labels cover 0..{n - 1}")
        keys = u * n + v
        if len(keys):
            ordered = ordered and bool((u < v).all()) and int(keys[0]) > last and bool((np.diff(keys) > 0).all())
            last = int(keys[-1])
        per_node += np.bincount(a, minlength=n)
    return ordered, per_node
