"""Which pairs must be edges, which cannot be: sound rules on the equations of a two-step product, to a fixed point.

With L the edges that are sure and U those still possible (both with loops where the form has them), every B_uv lies
between (L R L)_uv and (U R U)_uv, R = diag(r). Each rule forces a pair only when the other choice would leave that
range by more than the measured B may be wrong, so whatever it decides is true of every graph that gave these answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.degrees import Puzzle

__all__ = ["EDGE", "NO_EDGE", "OPEN", "Board", "Contradiction", "propagate"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
OPEN, EDGE, NO_EDGE = 0, 1, -1
CHUNK = 1 << 22  # walks looked at together


class Contradiction(Exception):
    """No graph gives these answers (or they are less exact than believed)."""


@dataclass(eq=False)
class Board:
    """Candidate pairs u < v and what is known of each; every other pair is no edge."""

    puzzle: Puzzle
    u: Int
    v: Int
    status: NDArray[np.int8]

    @classmethod
    def start(cls, puzzle: Puzzle) -> Board:
        """Candidates: pairs whose B leaves room for what an edge adds."""
        upper = sp.triu(puzzle.common, 1).tocoo()
        u, v = upper.row.astype(np.int64), upper.col.astype(np.int64)
        order = np.lexsort((v, u))
        u, v, b = u[order], v[order], upper.data[order]
        keep = b + puzzle.tolerance(u, v, b) >= _own(puzzle, u, v)
        return cls(puzzle, u[keep], v[keep], np.zeros(int(keep.sum()), np.int8))

    @property
    def open(self) -> Int:
        """Columns of the pairs not yet decided."""
        return np.flatnonzero(self.status == OPEN)

    def edges(self) -> Int:
        """The sure edges [2, m]."""
        sure = self.status == EDGE
        return np.stack([self.u[sure], self.v[sure]])

    def adjacency(self, *, possible: bool = False) -> sp.csr_matrix:
        """Sure edges (with those still possible), symmetric; no loops."""
        keep = self.status == EDGE if not possible else self.status != NO_EDGE
        return symmetric(self.u[keep], self.v[keep], len(self.puzzle.weight))

    def decide(self, columns: Any, status: int) -> None:
        """Settle pairs; a pair settled otherwise before is a contradiction."""
        before = self.status[columns]
        if ((before != OPEN) & (before != status)).any():
            raise Contradiction
        self.status[columns] = status


def symmetric(u: Int, v: Int, n: int) -> sp.csr_matrix:
    """0/1 CSR of undirected pairs."""
    ones = np.ones(2 * len(u))
    out = sp.csr_matrix((ones, (np.r_[u, v], np.r_[v, u])), shape=(n, n))
    out.sort_indices()
    return out


def _own(puzzle: Puzzle, u: Int, v: Int) -> Float:
    """What an edge (u, v) adds to its own equation: the gain, and u and v as closed common neighbours."""
    r = puzzle.weight
    out: Float = np.full(len(u), puzzle.gain) + (r[u] + r[v] if puzzle.form.loops else 0.0)
    return out


def propagate(board: Board) -> None:
    """Apply all rules until none decides anything; raises `Contradiction`."""
    while True:
        while _by_degree(board) or _by_neighbourhood(board):
            pass
        if not len(board.open):
            return
        low = _walks(board.adjacency(), board)
        if _by_lower_bound(board, low) or _by_two_steps(board, low) or _by_upper_bound(board):
            continue
        return


def _with_loops(adjacency: Any, board: Board) -> Any:
    if not board.puzzle.form.loops:
        return adjacency
    return (adjacency + sp.identity(adjacency.shape[0], format="csr")).tocsr()


def _walks(adjacency: Any, board: Board) -> sp.csr_matrix:
    """A R A, with the gain of A's own edges, on the rows of nodes that still have open pairs (others stay empty)."""
    rows = np.zeros(adjacency.shape[0])
    at = board.open
    rows[board.u[at]] = rows[board.v[at]] = 1.0
    a = _with_loops(adjacency, board)
    out = ((sp.diags(rows) @ a) @ (sp.diags(board.puzzle.weight) @ a)).tocsr()
    if board.puzzle.gain:
        out = (out + board.puzzle.gain * (sp.diags(rows) @ adjacency)).tocsr()
    out.sort_indices()
    return out


def lookup(matrix: Any, u: Int, v: Int) -> Float:
    """matrix[u, v] for many pairs."""
    if not len(u):
        return np.zeros(0)
    return np.asarray(matrix[u, v], np.float64).ravel()


def _by_degree(board: Board) -> bool:
    """A node with all its edges rejects the rest; one that needs all its candidates takes them."""
    at = board.open
    missing, free = _missing(board), _count(board, at)
    if (missing < 0).any() or (missing > free).any():
        raise Contradiction
    u, v = board.u[at], board.v[at]
    full, short = missing == 0, missing == free
    reject, accept = full[u] | full[v], short[u] | short[v]
    if (reject & accept).any():
        raise Contradiction
    board.decide(at[reject], NO_EDGE)
    board.decide(at[accept], EDGE)
    return bool(reject.any() or accept.any())


def _count(board: Board, at: Any) -> Int:
    return np.bincount(np.r_[board.u[at], board.v[at]], minlength=len(board.puzzle.weight))


def _missing(board: Board) -> Int:
    """Edges that every node still lacks."""
    out: Int = board.puzzle.neighbours - _count(board, np.flatnonzero(board.status == EDGE))
    return out


def _by_neighbourhood(board: Board) -> bool:
    """The sum of r over a node's neighbours is its own equation: no missing neighbour may leave it unreachable."""
    at = board.open
    if not len(at):
        return False
    p, r = board.puzzle, board.puzzle.weight
    n = len(r)
    me, other = np.r_[board.u[at], board.v[at]], np.r_[board.v[at], board.u[at]]
    sure = np.flatnonzero(board.status == EDGE)
    su, sv = board.u[sure], board.v[sure]
    left = p.around - np.bincount(np.r_[su, sv], weights=r[np.r_[sv, su]], minlength=n)
    slack = p.tolerance(np.arange(n), np.arange(n), p.around + p.form.shift * p.degrees.degree + 4)
    missing = _missing(board)
    least, most = np.full(n, np.inf), np.zeros(n)
    np.minimum.at(least, me, r[other])
    np.maximum.at(most, me, r[other])
    rest = missing[me] - 1
    bad = (r[other] + rest * least[me] > left[me] + slack[me]) | (r[other] + rest * most[me] < left[me] - slack[me])
    half = len(at)
    reject = bad[:half] | bad[half:]
    board.decide(at[reject], NO_EDGE)
    return bool(reject.any())


def _by_lower_bound(board: Board, low: Any) -> bool:
    """Reject where the sure common neighbours leave no room for what the edge itself adds."""
    at = board.open
    u, v = board.u[at], board.v[at]
    b = lookup(board.puzzle.common, u, v)
    reject = lookup(low, u, v) + _own(board.puzzle, u, v) > b + board.puzzle.tolerance(u, v, b)
    board.decide(at[reject], NO_EDGE)
    return bool(reject.any())


def _by_upper_bound(board: Board) -> bool:
    """Accept where all possible common neighbours together do not reach B without the edge."""
    at = board.open
    u, v = board.u[at], board.v[at]
    high = lookup(_walks(board.adjacency(possible=True), board), u, v)
    high = high - _own(board.puzzle, u, v)
    b = lookup(board.puzzle.common, u, v)
    accept = high < b - board.puzzle.tolerance(u, v, b)
    board.decide(at[accept], EDGE)
    return bool(accept.any())


def _by_two_steps(board: Board, low: Any) -> bool:
    """Reject (u, w) if some sure neighbour x of w has no room for w as a common neighbour of u and x."""
    at = board.open
    sure = board.adjacency()
    length = np.diff(sure.indptr)
    rejected = np.zeros(len(at), dtype=bool)
    for first, second in ((board.u, board.v), (board.v, board.u)):
        for part in _parts(length[second[at]]):
            columns = at[part]
            u, w = first[columns], second[columns]
            source, x = _expand(sure, w)
            keep = x != u[source]
            source, x = source[keep], x[keep]
            b = lookup(board.puzzle.common, u[source], x)
            room = b - lookup(low, u[source], x) + board.puzzle.tolerance(u[source], x, b)
            bad = room < board.puzzle.weight[w[source]]
            rejected[part[np.unique(source[bad])]] = True
    board.decide(at[rejected], NO_EDGE)
    return bool(rejected.any())


def _parts(lengths: Any) -> list[Int]:
    """Positions in groups whose lengths add up to at most a chunk."""
    group = np.cumsum(lengths) // CHUNK
    cuts = np.flatnonzero(np.diff(group)) + 1
    return [p for p in np.split(np.arange(len(lengths)), cuts) if len(p)]


def _expand(matrix: Any, rows: Int) -> tuple[Int, Int]:
    """All stored columns of the given rows: position in `rows`, column."""
    width = np.diff(matrix.indptr)[rows]
    source = np.repeat(np.arange(len(rows)), width)
    start = np.repeat(matrix.indptr[rows] - (np.cumsum(width) - width), width)
    entry = np.arange(int(width.sum())) + start
    return source, matrix.indices[entry].astype(np.int64)
