"""Edge files read in chunks: memory stays bounded however long the file is, and every edge comes out once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import GraphError, InputError, StorageError
from edgeveil.values import is_whole

__all__ = ["CHUNK", "edge_chunks", "simple_chunks"]

CHUNK = 1 << 21  # edges held at a time
Int = NDArray[np.int64]
Pairs = Iterator[tuple[Int, Int]]
BOM = b"\xef\xbb\xbf"
NUMBER = re.compile(rb"""[\s,"']*[-+.]?[0-9]""")
OTHER, DIGIT, LINE, COMMA, SPACE = range(5)
KINDS = np.full(256, OTHER, np.uint8)
KINDS[list(b"0123456789")], KINDS[list(b"\n")], KINDS[list(b",")], KINDS[list(b" \t\r\v\f")] = DIGIT, LINE, COMMA, SPACE


def edge_chunks(path: Path, chunk: int = CHUNK) -> Pairs:
    """(u, v) arrays of at most about `chunk` edges, as the file has them.

    Text files hold exactly two whole numbers per line, separated by one comma or by tabs or spaces, with ``#`` comments
    and an optional header line at the top; a header is a line whose first field is not a number. Empty lines are
    skipped. ``.npy`` files hold an integer array [2, E] or [E, 2] and are mapped, not loaded.
    """
    _check_chunk(chunk)
    if not path.is_file():
        raise StorageError(f"no edge file at {path}; give a text or .npy file with two node numbers per edge")
    return _npy_chunks(path, chunk) if path.suffix == ".npy" else _text_chunks(path, chunk)


def _check_chunk(chunk: int) -> None:
    if not is_whole(chunk) or chunk < 1:
        raise InputError(f"chunk is the number of edges held at a time, a whole number >= 1, got {chunk!r}")


def _npy_chunks(path: Path, chunk: int) -> Pairs:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise StorageError(f"{path.name} is no readable .npy file ({error}); write it with numpy.save") from error
    if not isinstance(array, np.ndarray):
        raise StorageError(f"{path.name} is a .npz archive; save the edges alone with numpy.save")
    if array.ndim != 2 or 2 not in array.shape or array.dtype.kind not in "iu":
        raise GraphError(f"{path.name} holds {array.dtype} {array.shape}; edges are an integer array [2, E] or [E, 2]")
    rows = array if array.shape[0] == 2 else array.T
    for start in range(0, rows.shape[1], chunk):
        u, v = np.asarray(rows[:, start : start + chunk], dtype=np.int64)
        yield u, v


def _text_chunks(path: Path, chunk: int) -> Pairs:
    with path.open("rb") as file:
        start = len(BOM) if file.read(len(BOM)) == BOM else 0
        file.seek(start)
        for line in iter(file.readline, b""):
            text = line.lstrip()
            if text and not text.startswith(b"#"):
                if not NUMBER.match(text):  # a header
                    start = file.tell()
                break
            start = file.tell()
        file.seek(start)
        while block := file.read(12 * chunk):
            block += file.readline()
            yield _parse(block, path)


def _parse(block: bytes, path: Path) -> tuple[Int, Int]:
    raw = np.frombuffer(block, np.uint8)
    kind = KINDS[raw]
    first = kind == DIGIT
    first[1:] &= kind[:-1] != DIGIT
    first |= kind == LINE
    events = kind[np.flatnonzero(first)] == DIGIT  # True where a number starts, False where a line ends
    starts = np.flatnonzero(events)
    u, v = starts[0::2], starts[1::2]
    paired = len(u) == len(v) and bool((v == u + 1).all()) and bool((u[1:] > v[:-1] + 1).all())
    if not paired or (kind == OTHER).any() or not _commas_divide(kind):
        raise GraphError(f"{path.name} {_complaint(block)}")
    numbers = np.fromstring(block.replace(b",", b" "), dtype=np.int64, sep=" ")
    if len(numbers) and numbers.max() == np.iinfo(np.int64).max:
        raise GraphError(f"{path.name} holds a node number of more than 18 digits; number the nodes 0..n-1")
    return numbers[0::2], numbers[1::2]


def _commas_divide(kind: NDArray[np.uint8]) -> bool:
    """Whether every comma is the only one of its line and stands between the two numbers."""
    if not (kind == COMMA).any():
        return True
    shown = kind[kind != SPACE]
    at = np.flatnonzero(shown == COMMA)
    return bool(
        at[0] > 0 and at[-1] < len(shown) - 1 and (shown[at - 1] == DIGIT).all() and (shown[at + 1] == DIGIT).all()
    )


def _complaint(block: bytes) -> str:
    """The first line that is wrong and what is wrong with it."""
    for line in block.split(b"\n"):
        fields = [f for part in line.split(b",") for f in (part.split() or [b""])] if line.strip() else [b"0", b"0"]
        shown = line.strip()[:60].decode("utf-8", "replace")
        if not all(field.isdigit() for field in fields):
            return f"holds a line that is not two whole numbers >= 0: {shown!r}"
        if len(fields) != 2:
            return f"does not hold exactly two node numbers on every line: {shown!r}; drop weights and times"
    return "does not hold exactly two node numbers on every line"


def simple_chunks(read: Callable[[], Pairs], num_nodes: int, chunk: int = CHUNK) -> Pairs:
    """Every undirected edge once, u < v, from a file that `read` can open again.

    One pass shows whether the file is strictly sorted with u < v and counts the edges by their lower end; only if it
    is not, nodes are grouped so that no group has more than about `chunk` edges and the file is read once per group.
    """
    _check_chunk(chunk)
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
