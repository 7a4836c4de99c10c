"""Few questions to layers that also read the node itself: rows of P straight away, by looking past P^2.

Moving one node shows how others move: those two steps away all along one direction b of the answers. What lies across
b and across the node's own response is P z alone, and rows of P are as sparse as the graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.ask import DEAR_GROWTH, FIRST, GROWTH, LARGE, UNSOLVED
from edgeveil.attacks.flatroot.decode import FAILED, nothing, support
from edgeveil.attacks.flatroot.exact import Seen
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.mixes import Moves, decode_mix
from edgeveil.attacks.flatroot.propagate import symmetric
from edgeveil.attacks.flatroot.questions import Flat, OutOfQuestions
from edgeveil.attacks.flatroot.row_decoding import SPARE, Rows

__all__ = ["ask_own"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
PROBES = 12
ENOUGH = 25  # other nodes seen moving
TRIES = 3  # directions tried for b


@dataclass(frozen=True, eq=False)
class _Lens:
    """The functional that sees P alone, and what it sees of the node itself."""

    look: Float
    own: float


def ask_own(flat: Flat, form: Form, n: int, rng: np.random.Generator) -> Seen:
    """Probe single nodes for the directions, measure rows of P, decode."""
    empty = Seen(nothing(FAILED), sp.csr_matrix((n, n)))
    try:
        vectors, place, own = _probe(flat, n, rng)
    except OutOfQuestions:
        return empty
    z: list[Float] = []
    change: list[Float] = []
    for lens in _lenses(vectors, place, own, form, n):
        seen = _measured(flat, form, n, lens, z, change)
        if seen is None or seen.decoded.consistent or seen.matrix.nnz:
            return seen or empty
    return empty


def _probe(flat: Flat, n: int, rng: np.random.Generator) -> tuple[Float, Int, Float]:
    """Moves of other nodes [moves, outputs], which probe each comes from, and the mean own response."""
    along = flat.directions[:1]
    vectors, place, own = [], [], []
    for at, v in enumerate(rng.permutation(n)[:PROBES]):
        z = np.zeros((n, 1))
        z[v] = 1.0
        moved = flat.ask(z, along)
        own.append(moved[v])
        hit = np.flatnonzero(np.linalg.norm(moved, axis=1) > 100 * flat.noise)
        hit = hit[hit != v]
        vectors.append(moved[hit])
        place.append(np.full(len(hit), at))
        if sum(map(len, vectors)) >= ENOUGH and at >= 1:
            break
    return np.concatenate(vectors), np.concatenate(place).astype(np.int64), np.array(own)


def _lenses(vectors: Float, place: Int, own: Float, form: Form, n: int) -> list[_Lens]:
    """Functionals to try, the likeliest first."""
    if not len(vectors):
        return []
    turned = np.linalg.svd(vectors, full_matrices=False)[2]
    if form.layers == 1:
        return [_lens(turned[0], np.zeros(0), own, vectors)]
    if len(turned) < 2:
        return []
    moves = Moves(place, np.arange(len(vectors)) + n, vectors @ turned[:2].T, n + len(vectors))
    out = []
    for angle in moves.directions()[0][:TRIES]:
        along = math.cos(angle) * turned[0] + math.sin(angle) * turned[1]
        across = -math.sin(angle) * turned[0] + math.cos(angle) * turned[1]
        out.append(_lens(across, along, own, vectors))
    return out


def _lens(across: Float, along: Float, own: Float, vectors: Float) -> _Lens:
    """`across`, made blind to the node's own response where the answers have a dimension left for that."""
    mine = own[0]
    if len(along):
        mine = mine - (mine @ along) * along
    size = float(np.linalg.norm(mine))
    look = across
    if size > 0 and len(across) > 1 + bool(len(along)):
        tried = across - (across @ mine) / size**2 * mine
        if np.linalg.norm(tried) > 1e-2:
            look = tried / np.linalg.norm(tried)
    look = look * (float(np.sign(np.sum(vectors @ look))) or 1.0)
    return _Lens(look, float(own[0] @ look))


def _measured(flat: Flat, form: Form, n: int, lens: _Lens, z: list[Float], change: list[Float]) -> Seen | None:
    """Ask until every row of P is solved (answers are shared between lenses)."""
    rows = Rows(n, 1e-9, form.symmetric, own=True)
    along = flat.directions[:1]
    size = 1.0
    try:
        while not rows.solved.all() and rows.num_measurements < 1.1 * n + 2 * SPARE:
            more = (
                max(len(z), FIRST)
                if not rows.num_measurements
                else math.ceil(len(z) * (GROWTH if n <= LARGE else DEAR_GROWTH))
            )
            while len(z) < more:
                moves = flat.draw()[:, :1]
                change.append(flat.ask(moves, along))
                z.append(moves)
            size = _solve(rows, flat, lens, z, change, size)
    except OutOfQuestions:
        if len(change) >= SPARE:
            size = _solve(rows, flat, lens, z, change, size)
    if not rows.solved.all():
        return Seen(nothing(UNSOLVED.format(len(rows.unsolved), n)), rows.matrix)
    error = 50 * rows.noise
    matrix = rows.matrix.tocsr()
    matrix.data[np.abs(matrix.data) <= error] = 0.0
    matrix.eliminate_zeros()
    return _certify(flat, form, matrix, error, z, change)


def _solve(rows: Rows, flat: Flat, lens: _Lens, z: list[Float], change: list[Float], size: float) -> float:
    seen = np.concatenate([(c @ lens.look)[:, None] for c in change], axis=1)
    design = np.concatenate(z, axis=1)
    seen = seen - lens.own * design
    if not rows.num_measurements:  # one scale throughout, so that solved rows stay comparable
        size = float(np.sqrt((seen**2).mean())) or 1.0
    rows.noise = max(4 * flat.noise / size, 1e-12)
    rows.restart(design, seen / size)
    rows.solve()
    return size


def _certify(flat: Flat, form: Form, matrix: sp.csr_matrix, error: float, z: list[Float], change: list[Float]) -> Seen:
    """Rebuild the answers from the graph, and ask whether any other direction could have been b."""
    off = (matrix - sp.diags(matrix.diagonal())).tocsr()
    got = support(off, form, error)
    if not got.consistent:
        return Seen(got, matrix)
    p = form.matrix(symmetric(got.edges[0], got.edges[1], matrix.shape[0]))
    powers = [sp.identity(matrix.shape[0], format="csr"), p, (p @ p).tocsr()][: form.layers + 1]
    linked = np.diff(off.indptr) > 0  # a lone node's units may be in another state
    left = np.concatenate([np.concatenate([m @ one for m in powers], axis=1)[linked] for one in z])
    right = np.concatenate([one[linked] for one in change])
    fit = np.linalg.lstsq(left, right, rcond=None)[0]
    if np.abs(left @ fit - right).max() > 100 * flat.noise + 1e-7 * np.abs(right).max():
        return Seen(nothing(FAILED), matrix)
    if form.layers == 1:
        return Seen(got, matrix)
    basis = np.linalg.svd(fit[1:3], full_matrices=False)[2][:2]
    if len(basis) < 2:
        return Seen(nothing(FAILED), matrix)
    first, second = ((p * float(fit[1] @ e) + powers[2] * float(fit[2] @ e)).tocsr() for e in basis)
    largest = float(max(abs(first).max(), abs(second).max()))
    return Seen(decode_mix(first, second, form, max(4 * flat.noise, 1e-13 * largest)), matrix)
