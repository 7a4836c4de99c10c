"""Roots of P^k by its eigenvalues, for graphs small enough to be dense; and when a root is the only one.

Odd powers and positive semi-definite P have exactly one root, so a graph whose rebuilt product equals the answers is
the graph; how equal it must be follows from how far two graphs' matrices are apart. Even powers of an indefinite P
leave one sign per eigenvalue open: there the spectral decoder proposes and never proves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.degrees import Puzzle
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.propagate import EDGE, OPEN, Board, symmetric
from edgeveil.errors import TooLarge

__all__ = ["DENSEST", "check_memory", "close_roots", "only_root", "root_edges", "signed_guess"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
DENSEST = 10_000


def check_memory(n: int) -> None:
    """Refuse what would not fit before anything is allocated: five dense n x n arrays."""
    need = 5 * 8 * n * n
    free = _available()
    if n > DENSEST or need > free:
        raise TooLarge(
            f"the spectral decoder needs dense arrays of {n:,} x {n:,} numbers, {need / 2**30:.1f} GB, and takes at "
            f"most {DENSEST:,} nodes; {free / 2**30:.1f} GB are free"
        )


def _available() -> int:
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 4 * 2**30


def root_edges(matrix: Any, form: Form) -> Int:
    """Edges [2, m] of the graph whose P^k is proportional to the symmetric `matrix` (odd k, or P positive)."""
    check_memory(matrix.shape[0])
    values, vectors = np.linalg.eigh(np.asarray(matrix.todense(), np.float64))
    top = 1.0 + form.shift
    values = values / values[-1] * top**form.layers
    root = np.abs(values) ** (1.0 / form.layers) * np.where(values < 0, 0.0 if form.positive else -1.0, 1.0)
    p = (vectors * root) @ vectors.T - form.shift * np.eye(len(values))
    if form.loops:
        size = np.sqrt(np.maximum(np.diagonal(p), 1e-12))  # 1 / sqrt(degree)
        edge = p > 0.5 * size[:, None] * size[None, :]
    else:
        edge = p > 0.5 * _open_sizes(p - np.diag(np.diagonal(p)))
    u, v = np.nonzero(np.triu(edge, 1))
    return np.stack([u, v]).astype(np.int64)


def _open_sizes(p: Float) -> Float:
    """1 / sqrt(d_u d_v) without loops to read degrees from: count what is larger than half of that, and again."""
    degree = np.full(len(p), float(len(p)))
    for _ in range(50):
        size: Float = 1 / np.sqrt(degree[:, None] * degree[None, :])
        now = np.maximum((p > 0.5 * size).sum(axis=1).astype(np.float64), 1.0)
        if np.array_equal(now, degree):
            break
        degree = now
    return size


def signed_guess(puzzle: Puzzle, board: Board, rounds: int = 40) -> Int:
    """A graph for the open pairs: choose the signs of P's eigenvalues that suit the best pairs, and so on.

    Returns the columns of the board that it takes for edges, as many as the degrees leave to be found.
    """
    n = len(puzzle.weight)
    check_memory(n)
    size = np.sqrt(puzzle.weight)
    two = (puzzle.common.toarray() + np.diag(_diagonal(puzzle))) * size[:, None] * size[None, :]
    values, vectors = np.linalg.eigh(two)
    length = np.sqrt(np.maximum(values, 0.0))
    at = board.open
    u, v = board.u[at], board.v[at]
    wanted = int(puzzle.neighbours.sum() // 2 - (board.status == EDGE).sum())
    sure = board.edges()
    score = np.asarray(puzzle.common[u, v]).ravel() / (puzzle.weight[u] + puzzle.weight[v])
    last: Any = None
    for _ in range(rounds):
        best = np.argsort(-score, kind="stable")[:wanted]
        chosen = np.sort(at[best])
        if last is not None and np.array_equal(chosen, last):
            break
        last = chosen
        a = symmetric(np.r_[sure[0], board.u[chosen]], np.r_[sure[1], board.v[chosen]], n)
        p = (sp.diags(size) @ (a + sp.identity(n)) @ sp.diags(size)).tocsr()
        sign = np.where(np.einsum("ij,ij->j", vectors, p @ vectors) < 0, -1.0, 1.0)
        root = (vectors * (sign * length)) @ vectors.T
        score = root[u, v] / (size[u] * size[v])
    assert last is not None
    out: Int = last[board.status[last] == OPEN]
    return out


def _diagonal(puzzle: Puzzle) -> Float:
    """B_uu of a form with loops and without identity."""
    out: Float = puzzle.around + puzzle.weight
    return out


def only_root(form: Form, adjacency: Any, matrix: Any, gamma: float, error: float) -> bool:
    """Whether no other graph's symmetric P^k is as close to the answers as this one's.

    Positive P: roots are operator monotone, so ||P - P'|| <= ||P^k - P'^k||^(1/k) (Ando 1988). Else, for k = 3,
    ||P - P'||_F^3 <= 4 n ||P^3 - P'^3||_F, because (a^3 - b^3)(a - b) >= (a - b)^4 / 4. An edge that only one of two
    graphs has makes their P differ by at least 1/n there. `error` bounds every entry of matrix / gamma.
    """
    n = adjacency.shape[0]
    rest = (form.power(adjacency) - matrix / gamma).tocsr()
    reach = float(np.diff(matrix.tocsr().indptr).max(initial=1))
    if form.positive:
        return close_roots(form, n, float(abs(rest).sum(axis=1).max()) + 2 * reach * error)
    if form.layers != 3:
        return False
    off = float(np.sqrt(rest.power(2).sum())) + 2 * np.sqrt(n * reach) * error
    return bool((4 * n * off) ** (1.0 / 3.0) < 0.5 / n)


def close_roots(form: Form, n: int, apart: float) -> bool:
    """Whether powers of positive P that differ by at most `apart` (operator norm) have one graph of n nodes."""
    return bool(apart ** (1.0 / form.layers) < 0.5 / n)
