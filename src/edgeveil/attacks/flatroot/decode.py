"""From gamma P^k to the graph: degrees, rules, completions, and a certificate that says how much was proven."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.degrees import Puzzle, puzzle, ratios, two_step_degrees
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.propagate import EDGE, NO_EDGE, Board, Contradiction, propagate, symmetric
from edgeveil.attacks.flatroot.roots import DENSEST, only_root, root_edges, signed_guess
from edgeveil.attacks.flatroot.search import Effort, complete

__all__ = ["CONSISTENT", "FAILED", "UNPROVEN", "Decoded", "decode", "nothing", "ordered", "support"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
CONSISTENT = "consistent, not unique: {} pairs are not determined by the answers; their probabilities are given"
UNPROVEN = (
    "consistent, not proven unique: the rebuilt product equals the answers, but the rules did not force every pair"
)
FAILED = "the answers are no power of this form's matrix to within their error, so nothing is asserted"


@dataclass(frozen=True, eq=False)
class Decoded:
    """`edges` [2, m] it asserts, `open` [2, o] not determined with their `probability`.

    `consistent`: the rebuilt product equals the answers within their error, for some choice of the open pairs.
    `certified`: moreover every pair was forced.
    """

    edges: Int
    open: Int
    probability: Float
    consistent: bool
    certified: bool
    note: str = ""


def nothing(note: str) -> Decoded:
    """No assertion at all."""
    none = np.empty((2, 0), np.int64)
    return Decoded(none, none, np.empty(0), False, False, note)


def decode(matrix: Any, form: Form, error: float, effort: int = 4000, drift: float = 0.0) -> Decoded:
    """The graph behind `matrix` = gamma P^k, each entry of which is off by at most `error`.

    `matrix` [u, v]: how much node v moves node u. Entries that are not stored are exactly zero. `drift`: by what share
    the true power may miss the equation of the leading eigenvector, where that is known better than from `matrix`.
    """
    m = sp.csr_matrix(matrix, dtype=np.float64)
    m.data[np.abs(m.data) <= error] = 0.0
    m.eliminate_zeros()
    if not m.nnz or (m.data < 0).any():
        return nothing(FAILED)
    if form.layers == 1:
        return support(m, form, error)
    if form.layers == 2:
        return _two_steps(m, form, error, effort, drift)
    if form.layers % 2 or form.positive:
        return _by_root(m, form, error)
    return nothing(f"no decoder for {form.layers} layers of the form {form.norm}: its even powers hide signs")


def support(matrix: Any, form: Form, error: float) -> Decoded:
    """One layer, or a mix of powers with the higher ones projected out: an edge wherever there is an entry."""
    off = (matrix - sp.diags(matrix.diagonal())).tocsr()
    off.eliminate_zeros()
    mutual = off.minimum(off.T)
    if mutual.nnz != off.nnz:
        return nothing(FAILED)
    upper = sp.triu(off, 1).tocoo()
    edges = ordered(upper.row, upper.col)
    a = symmetric(edges[0], edges[1], matrix.shape[0])
    p = form.matrix(a).multiply(a).tocsr()  # off the diagonal
    if not p.nnz:
        return Decoded(edges, edges[:, :0], np.empty(0), True, True)
    ratio = off.multiply(p.power(-1)).tocsr().data
    gamma = float(np.median(ratio))
    rest = abs(off - gamma * p)
    even = float(rest.max()) <= 8 * error + 1e-9 * float(off.max())
    smallest = gamma / (1.0 if form.norm == "sum" else matrix.shape[0])
    if not even:
        return nothing(FAILED)
    certified = 2 * error < smallest
    return Decoded(edges, edges[:, :0], np.empty(0), True, certified, "" if certified else UNPROVEN)


def ordered(u: Any, v: Any) -> Int:
    """Pairs [2, m], sorted."""
    pairs = np.stack([u, v]).astype(np.int64)
    out: Int = pairs[:, np.lexsort((pairs[1], pairs[0]))]
    return out


def _two_steps(m: Any, form: Form, error: float, effort: int, drift: float) -> Decoded:
    if form.symmetric:
        m = ((m + m.T) / 2).tocsr()
    degrees = two_step_degrees(m, form, error, drift)
    if degrees is None:
        return nothing(FAILED)
    p = puzzle(m, form, degrees)
    board = Board.start(p)
    try:
        propagate(board)
        share = complete(board, Effort(effort))
    except Contradiction:
        return nothing(FAILED)
    return _conclude(p, board, share, m)


def _conclude(p: Puzzle, board: Board, share: Float, matrix: Any) -> Decoded:
    """Check the rebuilt product, guess where too much is open, and say what was proven."""
    at = board.open
    if not len(at):
        equal = rebuilds(p, board.adjacency())
        edges = board.edges()
        proven = p.degrees.proven and bool((_blur(p) < _least(p)).all())
        if not equal:
            return nothing(FAILED)
        return Decoded(edges, edges[:, :0], np.empty(0), True, proven, "" if proven else UNPROVEN)
    if not np.isnan(share).any():
        open_pairs = np.stack([board.u[at], board.v[at]])
        return Decoded(board.edges(), open_pairs, share, True, False, CONSISTENT.format(len(at)))
    return _guessed(p, board, share, matrix)


def _blur(p: Puzzle) -> Float:
    """By how much a B of zero may be wrong at every node's worst partner."""
    d = p.degrees
    out: Float = d.error * np.maximum(d.degree, d.degree.max(initial=1)).astype(np.float64)
    return out


def _least(p: Puzzle) -> Float:
    """The least that an edge adds to its own equation."""
    r = p.weight
    out: Float = p.gain + (r + r[r > 0].min(initial=1.0) if p.form.loops else np.zeros(len(r)))
    return out


def _guessed(p: Puzzle, board: Board, share: Float, matrix: Any) -> Decoded:
    """A spectral or rooted guess for what the rules left open. It asserts only a graph that rebuilds the answers."""
    at = board.open
    form, n = p.form, len(p.weight)
    open_pairs = np.stack([board.u[at], board.v[at]])
    guess = None
    if n <= DENSEST and form.positive:
        found = root_edges(matrix, form)
        keys = found[0] * n + found[1]
        guess = at[np.isin(open_pairs[0] * n + open_pairs[1], keys)]
    elif n <= DENSEST:
        guess = signed_guess(p, board)
    if guess is not None:
        tried = replace(board, status=board.status.copy())
        tried.status[at] = NO_EDGE
        tried.status[guess] = EDGE
        if rebuilds(p, tried.adjacency()):
            proven = form.positive and only_root(form, tried.adjacency(), matrix, p.degrees.gamma, p.degrees.error)
            edges = tried.edges()
            return Decoded(edges, edges[:, :0], np.empty(0), True, proven, "" if proven else UNPROVEN)
    probability = np.where(np.isnan(share), _balance(board), share)
    return Decoded(board.edges(), open_pairs, probability, False, False, CONSISTENT.format(len(at)))


def _balance(board: Board, rounds: int = 200) -> Float:
    """Probabilities of the open pairs whose sums meet the degrees: odds x_u x_v, fitted by turns."""
    at = board.open
    u, v = board.u[at], board.v[at]
    n = len(board.puzzle.weight)
    sure = board.status == EDGE
    missing = board.puzzle.neighbours - np.bincount(np.r_[board.u[sure], board.v[sure]], minlength=n)
    x = np.ones(n)
    for _ in range(rounds):
        odds = x[u] * x[v]
        have = np.bincount(np.r_[u, v], weights=np.tile(odds / (1 + odds), 2), minlength=n)
        x *= np.sqrt(np.divide(missing, have, out=np.ones(n), where=have > 0))
        x = np.clip(x, 1e-9, 1e9)
    odds = x[u] * x[v]
    out: Float = odds / (1 + odds)
    return out


def rebuilds(p: Puzzle, adjacency: Any) -> bool:
    """Whether this graph's two-step product equals the answers everywhere within their error."""
    n = len(p.weight)
    if not np.array_equal(np.asarray(adjacency.sum(axis=1)).ravel().astype(np.int64), p.neighbours):
        return False
    a = (adjacency + sp.identity(n)).tocsr() if p.form.loops else adjacency
    b = (a @ sp.diags(p.weight) @ a + p.gain * adjacency).tocsr()
    b = (b - sp.diags(b.diagonal())).tocsr()
    rest = (b - p.common).tocoo()
    value = np.asarray(p.common[rest.row, rest.col]).ravel() if rest.nnz else np.empty(0)
    return bool((np.abs(rest.data) <= p.tolerance(rest.row, rest.col, value) + 1e-12).all())


def _by_root(m: Any, form: Form, error: float) -> Decoded:
    """Powers with a single root: find it densely, rebuild, compare."""
    even = ((m + m.T) / 2).tocsr() if form.symmetric else _evened(m)
    edges = root_edges(even, form)
    a = symmetric(edges[0], edges[1], m.shape[0])
    power = form.power(a)
    gamma = float(m.diagonal().sum() / power.diagonal().sum())
    rest = abs(power - m / gamma)
    if float(rest.max()) > 8 * error / gamma + 1e-9:
        return nothing(FAILED)
    other = form if form.symmetric else replace(form, norm="aug")
    proven = only_root(other, a, even, gamma, error / gamma)
    return Decoded(edges, edges[:, :0], np.empty(0), True, proven, "" if proven else UNPROVEN)


def _evened(m: Any) -> Any:
    """D^1/2 M D^-1/2, symmetric, from detailed balance."""
    root = np.sqrt(ratios(m))
    even = (sp.diags(root) @ m @ sp.diags(1 / root)).tocsr()
    return ((even + even.T) / 2).tocsr()
