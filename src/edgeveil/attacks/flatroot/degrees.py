"""Degrees from a power of the propagation matrix, and what is left to decode.

P's leading eigenvector is the square root of the degrees (symmetric forms) or all ones (row-stochastic ones, where
detailed balance P_uv d_u = P_vu d_v gives ratios of degrees). That fixes degrees up to one factor per component. For
k = 2 the factor follows from a trace: the sum over u of d_u (P^2)_uu counts every (w, neighbour of w) with weight
1/d_w, hence is the number of nodes (plus what the identity in P adds). No search over scales is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import ArpackError, eigsh

from edgeveil.attacks.flatroot.forms import Form

__all__ = ["Degrees", "Puzzle", "puzzle", "ratios", "two_step_degrees"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
SMALL = 64  # nodes of a component whose eigenvector is found densely


@dataclass(frozen=True, eq=False)
class Degrees:
    """`degree` counts the loop where the form has one. `gamma`: the answers are gamma P^k, each entry off by at most
    `error` (as a multiple of gamma) and gamma itself by the share `drift`.

    `proven`: any other whole numbers would break the eigenvector equation by more than the answers' error.
    """

    degree: Int
    gamma: float
    error: float
    drift: float
    proven: bool


@dataclass(frozen=True, eq=False)
class Puzzle:
    """The equations B_uv = gain a_uv + sum of r_w over common neighbours w (closed ones where the form has loops).

    `common` is symmetric CSR without diagonal; `around` the sum of r over a node's own (open) neighbourhood, or None.
    """

    form: Form
    degrees: Degrees
    common: sp.csr_matrix
    around: Float
    weight: Float

    @property
    def neighbours(self) -> Int:
        """How many neighbours every node has."""
        return self.degrees.degree - int(self.form.loops)

    @property
    def gain(self) -> float:
        """What an edge adds to its own equation besides common neighbours."""
        return 2.0 * self.form.shift

    def tolerance(self, u: Int, v: Int, value: Any) -> Float:
        """How far the measured B_uv may be from the true one."""
        d = self.degrees
        out: Float = d.error * np.maximum(d.degree[u], d.degree[v]) + d.drift * np.abs(value)
        return out


def two_step_degrees(matrix: Any, form: Form, error: float, drift: float = 0.0) -> Degrees | None:
    """Degrees behind gamma P^2; None when no whole numbers fit. `error` bounds the error of any entry, `drift` (or what
    `matrix` shows of it, if that is more) by what share the eigenvector's equation is missed."""
    n = matrix.shape[0]
    size, label = connected_components(matrix, directed=False)
    count = np.bincount(label, minlength=size)
    lone = count[label] == 1
    shape = ratios(matrix) if not form.symmetric else _leading(matrix, label, count) ** 2
    root = np.sqrt(shape) if form.symmetric else np.ones(n)
    top = (1.0 + form.shift) ** 2
    kept = ~lone | form.loops  # a lone node of the first-order form has P = 1, not 2
    if not kept.any():
        return Degrees(np.zeros(n, np.int64), float(matrix.diagonal().mean()), 0.0, 0.0, True)
    share = (matrix @ root)[kept] / root[kept]
    gamma = float(np.median(share)) / top
    if not gamma > 0:
        return None
    diagonal = matrix.diagonal() / gamma - form.shift
    shift = 2.0 * form.shift * form.loops
    trace = np.bincount(label, weights=shape * diagonal, minlength=size)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = (1 + shift) * count / trace
    raw = np.where(kept, shape * scale[label], 0.0)
    whole = np.rint(raw)
    least = np.where(lone, float(form.loops), 1.0 + form.loops)
    if (
        not np.isfinite(raw).all()
        or (np.abs(raw - whole) > 0.2).any()
        or (whole < least).any()
        or (whole >= n + 1).any()
    ):
        return None
    return _checked(matrix, form, whole.astype(np.int64), gamma, top, kept, error, drift)


def _checked(
    matrix: Any, form: Form, degree: Int, gamma: float, top: float, kept: Any, error: float, drift: float
) -> Degrees | None:
    """Refine gamma with the exact degrees, and see whether other degrees could pass."""
    root = np.sqrt(degree) if form.symmetric else np.ones(len(degree))
    share = (matrix @ root)[kept] / root[kept]
    gamma = float(np.median(share)) / top
    drift = max(drift, 2 * float(np.abs(share / (top * gamma) - 1).max()), 4 * float(np.finfo(np.float64).eps))
    if drift > 0.1:
        return None
    return Degrees(degree, gamma, error / gamma, drift, _unique(matrix, degree, gamma, error / gamma, drift, form))


def _unique(matrix: Any, degree: Int, gamma: float, error: float, drift: float, form: Form) -> bool:
    """Whether no other whole degrees d' satisfy the eigenvector equation (detailed balance) within the errors.

    Both d and d' meet the trace identity, so the smallest ratio q_u = d'_u / d_u of a component is at most 1. Next to
    a node of smallest ratio lies one, v, of larger ratio, and q_v / q_u - 1 >= 1 / (d_u d_v), two fractions apart. The
    equation at u is then off by at least the entry between them times half of that.
    """
    entries = matrix.tocoo()
    off = entries.row != entries.col
    u, v, value = entries.row[off], entries.col[off], entries.data[off] / gamma
    if not len(u):
        return True
    d = degree.astype(np.float64)
    apart = 1.0 / (3.0 * d[u] * d[v])
    if form.symmetric:
        return bool((value * np.sqrt(d[v] / d[u]) * apart).min() > 2 * drift)
    return bool((value * apart).min() > 2 * error)


def _leading(matrix: Any, label: Int, count: Int) -> Float:
    """The leading eigenvector of every component, positive, of norm one in each."""
    out = np.ones(matrix.shape[0])
    order = np.argsort(label, kind="stable")
    starts = np.concatenate([[0], np.cumsum(count)])
    for at in np.flatnonzero(count > 1):
        nodes = order[starts[at] : starts[at + 1]]
        block = matrix[nodes][:, nodes]
        vector = np.linalg.eigh(block.toarray())[1][:, -1] if len(nodes) <= SMALL else _lanczos(block)
        out[nodes] = np.maximum(np.abs(vector), 1e-300)
    return out


def _lanczos(block: Any) -> Float:
    start = np.sqrt(np.asarray(block.sum(axis=1)).ravel())
    try:
        vector = eigsh(block, k=1, which="LA", v0=start, tol=0, ncv=min(block.shape[0] - 1, 60), maxiter=20000)[1][:, 0]
    except ArpackError:
        vector = start
    for _ in range(30):  # polish: Lanczos stops at the square root of what power steps still gain
        vector = block @ vector
        vector /= np.linalg.norm(vector)
    return np.asarray(vector)


def ratios(matrix: Any) -> Float:
    """Degrees up to one factor per component, from detailed balance P_uv d_u = P_vu d_v along a spanning tree."""
    n = matrix.shape[0]
    both = matrix.minimum(matrix.T).tocsr()
    size, label = connected_components(both, directed=False)
    log = np.zeros(n)
    for start in np.unique(label, return_index=True)[1][np.bincount(label, minlength=size) > 1]:
        order, before = breadth_first_order(both, start, directed=False)
        child, parent = order[1:], before[order[1:]]
        down, up = (np.asarray(matrix[a, b]).ravel() for a, b in ((parent, child), (child, parent)))
        for c, p, step in zip(child.tolist(), parent.tolist(), np.log(down / up).tolist(), strict=True):
            log[c] = log[p] + step
    out: Float = np.exp(log)
    return out


def puzzle(matrix: Any, form: Form, degrees: Degrees) -> Puzzle:
    """The equations behind gamma P^2."""
    d = degrees.degree.astype(np.float64)
    left = sp.diags(np.sqrt(d)) if form.symmetric else sp.diags(d)
    right = sp.diags(np.sqrt(d)) if form.symmetric else sp.identity(len(d))
    b = (left @ matrix @ right / degrees.gamma).tocsr()
    b = ((b + b.T) / 2).tocsr()
    diagonal = b.diagonal() - form.shift * d - 2.0 * form.shift * form.loops
    common = (b - sp.diags(b.diagonal())).tocsr()
    common.eliminate_zeros()
    common.sort_indices()
    weight = np.divide(1.0, d, out=np.zeros(len(d)), where=d > 0)
    around = diagonal - weight if form.loops else diagonal
    return Puzzle(form, degrees, common, around, weight)
