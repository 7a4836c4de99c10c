"""The few pairs that the rules leave open: try both, and where that does not settle them list every completion.

Exhausting the cases is a proof. Each group of open pairs is looked at alone, in a dense block of its nodes and all
their possible neighbours: equations with a node outside the block hold no open pair.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from edgeveil.attacks.flatroot.propagate import EDGE, NO_EDGE, Board, Contradiction

__all__ = ["Effort", "complete"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
WIDEST = 400  # nodes of a block
MOST = 512  # completions listed for one group


@dataclass
class Effort:
    """How many trials are left."""

    trials: int = 4000

    def spend(self) -> bool:
        """Take one trial; False when none is left."""
        self.trials -= 1
        return self.trials >= 0


def complete(board: Board, effort: Effort) -> Float:
    """Settle what can be settled; the share of completions with an edge, for every pair then open (nan: not known)."""
    share = np.full(len(board.u), np.nan)
    for columns in _groups(board):
        block = _Block.cut(board, columns)
        if block is None:
            continue
        found = block.solve(effort)
        if found is None:
            continue
        mean = found.mean(axis=0)
        board.decide(columns[mean == 1], EDGE)
        board.decide(columns[mean == 0], NO_EDGE)
        share[columns] = mean
    out: Float = share[board.open]
    return out


def _groups(board: Board) -> list[Int]:
    """Open pairs in groups that share no equation."""
    at = board.open
    if not len(at):
        return []
    nodes = np.unique(np.r_[board.u[at], board.v[at]])
    place = np.full(len(board.puzzle.weight), -1)
    place[nodes] = np.arange(len(nodes))
    joined = board.puzzle.common[nodes][:, nodes]
    pairs = sp.csr_matrix((np.ones(len(at)), (place[board.u[at]], place[board.v[at]])), shape=joined.shape)
    label = connected_components(joined + pairs, directed=False)[1][place[board.u[at]]]
    order = np.argsort(label, kind="stable")
    cuts = np.flatnonzero(np.diff(label[order])) + 1
    return [at[part] for part in np.split(order, cuts)]


@dataclass(eq=False)
class _Block:
    """Dense equations of one group. `rows`: nodes with open pairs; only their equations are complete here."""

    u: Int
    v: Int
    sure: Bool
    rows: Bool
    b: Float
    slack: Float
    weight: Float
    missing: Int
    gain: float
    loops: bool
    found: list[Bool] = field(default_factory=list)

    @classmethod
    def cut(cls, board: Board, columns: Int) -> _Block | None:
        p = board.puzzle
        inner = np.unique(np.r_[board.u[columns], board.v[columns]])
        possible = board.adjacency(possible=True)
        nodes = np.unique(np.r_[inner, possible[inner].indices]).astype(np.int64)
        if len(nodes) > WIDEST:
            return None
        place = np.full(len(p.weight), -1)
        place[nodes] = np.arange(len(nodes))
        b = p.common[nodes][:, nodes].toarray()
        slack = p.tolerance(nodes[:, None], nodes[None, :], b)
        sure = board.adjacency()
        degree = np.asarray(sure.sum(axis=1)).ravel()[nodes].astype(np.int64)
        return cls(
            place[board.u[columns]], place[board.v[columns]], sure[nodes][:, nodes].toarray() > 0,
            np.isin(nodes, inner), b, slack, p.weight[nodes], p.neighbours[nodes] - degree, p.gain, p.form.loops,
        )  # fmt: skip

    def solve(self, effort: Effort) -> Bool | None:
        """All completions [count, open pairs]; None when the effort ran out or there are too many."""
        start = self._settle(np.zeros(len(self.u), np.int8))
        if start is None:
            raise Contradiction
        self.found = []
        if not self._branch(start, effort):
            return None
        if not self.found:
            raise Contradiction
        return np.array(self.found)

    def _branch(self, status: NDArray[np.int8], effort: Effort) -> bool:
        """Whether every case below was looked at."""
        status_now = self._ahead(status, effort)
        if status_now is None:
            return True
        free = np.flatnonzero(status_now == 0)
        if not len(free):
            self.found.append(status_now == EDGE)
            return len(self.found) <= MOST
        if effort.trials <= 0:
            return False
        for choice in (EDGE, NO_EDGE):
            tried = self._tried(status_now, int(free[0]), choice)
            if not effort.spend() or (tried is not None and not self._branch(tried, effort)):
                return False
        return True

    def _ahead(self, status: NDArray[np.int8], effort: Effort) -> NDArray[np.int8] | None:
        """Look one step ahead from every open pair: a choice that leads nowhere forces the other."""
        moved = True
        while moved:
            moved = False
            for at in np.flatnonzero(status == 0):
                for choice in (EDGE, NO_EDGE):
                    if status[at] != 0 or not effort.spend():
                        continue
                    if self._tried(status, int(at), choice) is None:
                        forced = self._tried(status, int(at), -choice)
                        if forced is None:
                            return None
                        status, moved = forced, True
        return status

    def _tried(self, status: NDArray[np.int8], at: int, choice: int) -> NDArray[np.int8] | None:
        out = status.copy()
        out[at] = choice
        return self._settle(out)

    def _walks(self, edge: Bool) -> Float:
        a = edge + (np.eye(len(edge)) if self.loops else 0.0)
        out: Float = (a * self.weight) @ a + self.gain * edge
        return out

    def _settle(self, status: NDArray[np.int8]) -> NDArray[np.int8] | None:
        """The rules on this block to a fixed point; None for a contradiction."""
        u, v = self.u, self.v
        own = self.gain + (self.weight[u] + self.weight[v] if self.loops else 0.0)
        while True:
            low, high = self._bounds(status)
            wrong = (low > self.b + self.slack) | (high < self.b - self.slack)
            np.fill_diagonal(wrong, False)
            free = status == 0
            missing = self.missing - _count(u, v, status == EDGE, len(self.weight))
            room = _count(u, v, free, len(self.weight))
            inside = self.rows
            if wrong[inside].any() or (missing[inside] < 0).any() or (missing[inside] > room[inside]).any():
                return None
            full, short = missing == 0, missing == room
            b, slack = self.b[u, v], self.slack[u, v]
            reject = free & (full[u] | full[v] | (low[u, v] + own > b + slack))
            accept = free & (short[u] | short[v] | (high[u, v] - own < b - slack))
            if (reject & accept).any():
                return None
            if not (reject.any() or accept.any()):
                return status
            status = np.where(reject, NO_EDGE, np.where(accept, EDGE, status)).astype(np.int8)

    def _bounds(self, status: NDArray[np.int8]) -> tuple[Float, Float]:
        low, high = self.sure.copy(), self.sure.copy()
        for edge, keep in ((low, status == EDGE), (high, status != NO_EDGE)):
            edge[self.u[keep], self.v[keep]] = edge[self.v[keep], self.u[keep]] = True
        return self._walks(low), self._walks(high)


def _count(u: Int, v: Int, keep: Bool, n: int) -> Int:
    return np.bincount(np.r_[u[keep], v[keep]], minlength=n)
