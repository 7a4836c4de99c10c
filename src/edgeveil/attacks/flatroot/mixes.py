"""Layers that also read the node itself answer P_uv a + (P^2)_uv b for u != v, with unknown vectors a and b.

Pairs that are no edge move along b alone, so what lies off that direction is P. Which direction is b is not given: a
pentagon and its pentagram swap the roles of a and b. So every direction that occurs is tried, and the graph is
certified only if all others are refuted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.decode import CONSISTENT, FAILED, UNPROVEN, Decoded, nothing, ordered, support
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.propagate import lookup, symmetric

__all__ = ["Moves", "decode_mix"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
SAMPLE = 200  # rows on which a direction is first tried
FIRST = 30  # of the most frequent directions are tried in full
ALIKE = 1e-7
EVEN = ("mean", "sum", "aug-rwalk")  # forms whose P has equal entries within a row


@dataclass(frozen=True, eq=False)
class Moves:
    """How node v moved node u != v, in two coordinates, where it moved it at all."""

    u: Int
    v: Int
    value: Float  # [entries, 2]
    num_nodes: int

    @classmethod
    def of(cls, first: Any, second: Any, error: float) -> Moves:
        """From two matrices [u, v] of coordinates; moves below the error are none."""
        n = first.shape[0]
        pattern = (abs(first) + abs(second)).tocoo()
        keep = (pattern.row != pattern.col) & (pattern.data > 4 * error)
        u, v = pattern.row[keep].astype(np.int64), pattern.col[keep].astype(np.int64)
        value = np.stack([lookup(part.tocsr(), u, v) for part in (first, second)], axis=1)
        return cls(u, v, value.reshape(-1, 2), n)

    def directions(self) -> tuple[Float, Int]:
        """Distinct angles (mod pi) of the moves and how often each occurs, most frequent first."""
        angle = np.sort(np.mod(np.arctan2(self.value[:, 1], self.value[:, 0]), np.pi))
        cuts = np.flatnonzero(np.diff(angle) > ALIKE) + 1
        parts = np.split(angle, cuts)
        middle, count = np.array([np.median(p) for p in parts]), np.array([len(p) for p in parts])
        if len(middle) > 1 and middle[0] + np.pi - middle[-1] < ALIKE:  # 0 and pi are one direction
            count[0] += count[-1]
            middle, count = middle[:-1], count[:-1]
        order = np.argsort(-count, kind="stable")
        return middle[order], count[order]

    def off(self, angle: float, error: float) -> Float:
        """The part across a direction; exactly zero where the move is along it."""
        across = self.value @ np.array([-np.sin(angle), np.cos(angle)])
        size = np.linalg.norm(self.value, axis=1)
        out: Float = np.where(np.abs(across) <= 4 * error + 4 * ALIKE * size, 0.0, across)
        return out


def decode_mix(first: Any, second: Any, form: Form, error: float) -> Decoded:
    """The graph behind responses in two coordinates [u, v] (diagonals are ignored)."""
    if form.layers > 2:
        return nothing(f"no decoder for {form.layers} layers that also read the node itself")
    moves = Moves.of(first, second, error)
    if form.layers == 1 or not len(moves.u):
        size = np.linalg.norm(moves.value, axis=1)
        return support(_matrix(moves, size), form, error)
    found = _survivors(moves, form, error)
    if not found:
        return nothing(FAILED)
    if len(found) > 1:
        return _between(found, moves.num_nodes)
    proven = found[0].certified and form.norm in EVEN
    return replace(found[0], certified=proven, note="" if proven else UNPROVEN)


def _survivors(moves: Moves, form: Form, error: float) -> list[Decoded]:
    """The graphs of all directions that the answers do not refute; without a cheap test, of the frequent ones only."""
    angles = list(moves.directions()[0])
    rows = np.unique(moves.u)
    keep = np.isin(moves.u, rows[np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(int)])
    part = Moves(moves.u[keep], moves.v[keep], moves.value[keep], moves.num_nodes)
    even = form.norm in EVEN
    angles = [a for a in angles if _rows_even(part, part.off(float(a), error))] if even else angles[:FIRST]
    found = [got for a in angles if (got := _along(moves, float(a), form, error)) is not None]
    cliques = _cliques(moves, form, error)
    return found if cliques is None else [*found, cliques]


def _between(found: list[Decoded], n: int) -> Decoded:
    """Several graphs give these answers: what they share is sure, the rest open."""
    keys, count = np.unique(np.concatenate([d.edges[0] * n + d.edges[1] for d in found]), return_counts=True)
    pairs = np.stack(np.divmod(keys, n))
    sure = count == len(found)
    note = CONSISTENT.format(int((~sure).sum()))
    return Decoded(pairs[:, sure], pairs[:, ~sure], count[~sure] / len(found), True, False, note)


def _cliques(moves: Moves, form: Form, error: float) -> Decoded | None:
    """The graph in which every pair that moves is an edge (so that no other direction exists), if that fits."""
    pattern = _matrix(moves, np.ones(len(moves.u)))
    if (pattern != pattern.T).nnz:
        return None
    upper = sp.triu(pattern, 1).tocoo()
    edges = ordered(upper.row, upper.col)
    p = form.matrix(pattern)
    two = (p @ p).tocsr()
    if _reaches(two, pattern):
        return None
    design = np.stack([lookup(m, moves.u, moves.v) for m in (p, two)], axis=1)
    fit = np.linalg.lstsq(design, moves.value, rcond=None)[0]
    if np.abs(design @ fit - moves.value).max() > 8 * error + 10 * ALIKE * np.abs(moves.value).max():
        return None
    return Decoded(edges, edges[:, :0], np.empty(0), True, True)


def _reaches(two: Any, pattern: Any) -> bool:
    """Whether two steps lead off the pattern."""
    off = (two - sp.diags(two.diagonal())).tocsr()
    off.eliminate_zeros()
    return bool(off.multiply(pattern).count_nonzero() != off.count_nonzero())


def _matrix(moves: Moves, value: Float) -> sp.csr_matrix:
    out = sp.csr_matrix((value, (moves.u, moves.v)), shape=(moves.num_nodes,) * 2)
    out.eliminate_zeros()
    return out


def _along(moves: Moves, angle: float, form: Form, error: float) -> Decoded | None:
    """The graph if non-edges move along this direction; None if the answers contradict that."""
    across = moves.off(angle, error)
    some = across[across != 0]
    if not len(some) or (np.sign(some) != np.sign(some[0])).any():
        return None
    got = support(_matrix(moves, np.abs(across)), form, error)
    return got if got.consistent and _rest_fits(moves, angle, got.edges, form, error) else None


def _rest_fits(moves: Moves, angle: float, edges: Int, form: Form, error: float) -> bool:
    """Whether the part along the direction is a mix of P and P^2 of these edges, and zero elsewhere."""
    a = symmetric(edges[0], edges[1], moves.num_nodes)
    p = form.matrix(a)
    two = (p @ p).tocsr()
    expected = int((two - sp.diags(two.diagonal())).count_nonzero())
    both = (abs(p) + two).tocsr()
    both = (both - sp.diags(both.diagonal())).tocsr()
    both.eliminate_zeros()
    if expected and both.nnz != len(moves.u):
        return False
    design = np.stack([lookup(m, moves.u, moves.v) for m in (p, two)], axis=1)
    along = moves.value @ np.array([np.cos(angle), np.sin(angle)])
    fit = np.linalg.lstsq(design, along, rcond=None)[0]
    return bool(np.abs(design @ fit - along).max() <= 8 * error + 10 * ALIKE * np.abs(along).max())


def _rows_even(moves: Moves, across: Float) -> bool:
    """Whether all entries of a row are equal, as in D^-1 A (with or without loops) and in A."""
    some = across != 0
    if not some.any():
        return False
    u, size = moves.u[some], np.abs(across[some])
    high, low = np.zeros(moves.num_nodes), np.full(moves.num_nodes, np.inf)
    np.maximum.at(high, u, size)
    np.minimum.at(low, u, size)
    hit = high > 0
    return bool((high[hit] - low[hit] <= 1e-5 * high[hit]).all())
