"""EdgeRand and LapGraph on edges that stay in files: noisy edges come out in order, chunk by chunk, never all at once.

EdgeRand draws what it draws in memory, in the same order: the same seed gives the same edges. LapGraph keeps the values
of its cells in scratch files: one whole number per edge, and the place and value of every non-edge above a level that
almost surely more non-edges reach than are wanted. Which cells are the largest follows from counts of their values.
Non-edges above the level are a coin for every free place, so that their places need no second draw as in memory
(`topcells`); the law is the same. Should too few reach the level, which happens with probability below 10^-8, nothing
comes out: whether it happens depends on noisy values alone, so that it tells nothing that they would not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError, StorageError
from edgeveil.graph.pairs import num_pairs, sample_distinct
from edgeveil.graph.stored.graph_in_files import StoredGraph
from edgeveil.graph.upper_triangle import CHUNK
from edgeveil.privacy.noise import Noise
from edgeveil.privacy.probability import Probability
from edgeveil.privacy.skips import successes
from edgeveil.privacy.topcells import GRID, SLACK, GridCells, tail

if TYPE_CHECKING:
    from edgeveil.defences.lapgraph import LapGraph

__all__ = ["merged", "stream_edgerand", "stream_lapgraph"]

Int = NDArray[np.int64]
Kept = Iterator[tuple[Int, NDArray[np.bool_]]]  # ranks of true edges in order, and which of them are shown


def stream_edgerand(graph: StoredGraph, flip: Probability, noise: Noise) -> Iterator[Int]:
    """Sorted chunks of the output's ranks (LinkTeller Alg. 3)."""
    edges = graph.num_edges
    lies = np.concatenate(
        [np.packbits(noise.bernoulli(flip, min(CHUNK, edges - at))) for at in range(0, edges, CHUNK)]
        or [np.empty(0, np.uint8)]
    )  # a bit per edge; `CHUNK` is a multiple of 8

    def kept() -> Kept:
        at = 0
        for ranks in graph.ordered_ranks():
            bits = np.unpackbits(lies[at // 8 : (at + len(ranks)) // 8 + 1])[at % 8 : at % 8 + len(ranks)]
            yield ranks, bits == 0
            at += len(ranks)

    yield from merged(kept(), successes(noise, flip, num_pairs(graph.num_nodes) - edges, CHUNK))


def merged(edges: Kept, places: Iterator[Int]) -> Iterator[Int]:
    """True edges that are shown and non-edges at the given free places (both in order) as one sorted stream."""
    rest, done = _Rest(places), 0
    for ranks, shown in edges:
        below, at = ranks - (done + np.arange(len(ranks))), 0
        for part in rest.until(int(below[-1])):
            lies = part + done + np.searchsorted(below, part, side="right")
            upto = int(np.searchsorted(ranks, lies[-1]))
            yield _joined(ranks[at:upto][shown[at:upto]], lies)
            at = upto
        yield ranks[at:][shown[at:]]
        done += len(ranks)
    for part in rest.until(None):
        yield part + done


class _Rest:
    """A stream of sorted numbers that is taken up to a limit, and then further."""

    def __init__(self, parts: Iterator[Int]) -> None:
        self._parts, self._held = parts, np.empty(0, np.int64)

    def until(self, limit: int | None) -> Iterator[Int]:
        """All numbers below `limit` that are left."""
        while True:
            cut = len(self._held) if limit is None else int(np.searchsorted(self._held, limit))
            if cut:
                yield self._held[:cut]
            self._held = self._held[cut:]
            if len(self._held):
                return
            more = next(self._parts, None)
            if more is None:
                return
            self._held = more


def _joined(a: Int, b: Int) -> Int:
    return np.insert(b, np.searchsorted(b, a), a) if len(a) else b


class _Tally:
    """How often each whole number occurred."""

    def __init__(self) -> None:
        self._low, self._counts = 0, np.zeros(1, np.int64)

    def add(self, values: Int) -> None:
        """Count these."""
        if not len(values):
            return
        low = min(self._low, int(values.min()))
        size = max(self._low + len(self._counts), int(values.max()) + 1) - low
        fresh = np.bincount(values - low, minlength=size)
        fresh[self._low - low : self._low - low + len(self._counts)] += self._counts
        self._low, self._counts = low, fresh

    def level(self, top: int, other: _Tally) -> int:
        """The value of the `top`-th largest of both tallies."""
        low = min(self._low, other._low)
        high = max(t._low + len(t._counts) for t in (self, other))
        both = np.zeros(high - low, np.int64)
        for t in (self, other):
            both[t._low - low : t._low - low + len(t._counts)] += t._counts
        reached = np.cumsum(both[::-1])
        return high - 1 - int(np.searchsorted(reached, top))

    def at(self, level: int) -> tuple[int, int]:
        """How many lie above a value, and how many on it."""
        place = level - self._low
        if place < 0:
            return int(self._counts.sum()), 0
        on = int(self._counts[place]) if place < len(self._counts) else 0
        return int(self._counts[place + 1 :].sum()), on


def stream_lapgraph(method: LapGraph, graph: StoredGraph, noise: Noise, scratch: Path) -> Iterator[Int]:
    """Sorted chunks of the ranks of the T largest noisy cells (LinkTeller Alg. 4); all noise is discrete."""
    count_epsilon, cell_epsilon = method.split
    edges, total = graph.num_edges, num_pairs(graph.num_nodes)
    cells = GridCells(cell_epsilon, noise)
    top = min(max(edges + int(noise.discrete_laplace(1 / count_epsilon, 1)[0]), 0), total)
    if top == 0:
        return
    ones, zeros = _Tally(), _Tally()
    files = _Scratch(scratch)
    for at in range(0, edges, CHUNK):
        ones.add(files.keep("ones", cells.ones(min(CHUNK, edges - at))))
    level, free = _first_level(cells, total - top, top), total - edges
    revealed = 0
    for places in successes(noise, tail(level, cells.rate), free, CHUNK):
        files.keep("places", places)
        zeros.add(files.keep("zeros", np.asarray(cells.zeros_above(level, len(places)), np.int64)))
        revealed += len(places)
    if revealed < top:
        raise StorageError("too few noisy cells reach the level (a chance below 10^-8): nothing came out, run again")
    cut = ones.level(top, zeros)
    (above_ones, ties), (above_zeros, more) = ones.at(cut), zeros.at(cut)
    chosen = sample_distinct(ties + more, top - above_ones - above_zeros, noise)
    true = _shown(graph.ordered_ranks(), files.read("ones"), cut, chosen[chosen < ties])
    false = _shown(files.read("places"), files.read("zeros"), cut, chosen[chosen >= ties] - ties)
    yield from merged(true, (places[mask] for places, mask in false))


def _first_level(cells: GridCells, zeros: int, top: int) -> int:
    """The step that about as many zero cells reach as are wanted (`topcells`), from the noisy count alone."""
    wanted = top + SLACK * (math.sqrt(top) + 3)
    if zeros <= 2 * wanted:
        raise InputError(
            f"about {top:,} edges fill too much of {zeros + top:,} pairs to be streamed; load them: raise --in-memory"
        )
    return max(1, math.floor(math.log(zeros / wanted / 2) / float(cells.epsilon) * GRID))


def _shown(ranks: Iterator[Int], values: Iterator[Int], cut: int, chosen: Int) -> Kept:
    """Numbers with values above the cut, and the chosen ones among those on it."""
    held, tied = np.empty(0, np.int64), 0
    for part in ranks:
        while len(held) < len(part):
            held = np.concatenate([held, next(values)])
        mine, held = held[: len(part)], held[len(part) :]
        on = np.flatnonzero(mine == cut)
        low, high = np.searchsorted(chosen, [tied, tied + len(on)])
        mask = mine > cut
        mask[on[chosen[low:high] - tied]] = True
        tied += len(on)
        yield part, mask


class _Scratch:
    """Whole numbers in private files, written once and read once in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("ones", "zeros", "places"):
            (folder / f"{name}.bin").unlink(missing_ok=True)

    def keep(self, name: str, values: Int) -> Int:
        """Append."""
        try:
            with (self._folder / f"{name}.bin").open("ab") as file:
                np.asarray(values, np.int64).tofile(file)
        except OSError as error:
            raise StorageError(f"cannot write to {self._folder}: {error.strerror or error}; free some space") from error
        return np.asarray(values, np.int64)

    def read(self, name: str) -> Iterator[Int]:
        """All of it, in chunks; the file is gone afterwards."""
        path = self._folder / f"{name}.bin"
        if not path.exists():
            return
        with path.open("rb") as file:
            while len(part := np.fromfile(file, np.int64, CHUNK)):
                yield part
        path.unlink()
