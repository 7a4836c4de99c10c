"""Flat answers of a model at hand, as derivatives: what n questions would tell, without their rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.decode import Decoded, decode
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.mixes import decode_mix
from edgeveil.release.target import Target

__all__ = ["Seen", "flat_row", "see"]

Float = NDArray[np.float64]
LARGE = 1e8  # so far out that no bias decides the state of a unit
PROBES = 24
COLUMNS = 64
ROUNDING = 2e-13  # of the largest entry


@dataclass(frozen=True, eq=False)
class Seen:
    """What was decoded, and the response matrix [u, v] behind it for ranking pairs that were not."""

    decoded: Decoded
    matrix: Any


def flat_row(width: int, rng: np.random.Generator, columns: int = COLUMNS) -> Float:
    """A random non-negative feature row with few entries, so that n copies of it stay sparse."""
    row = np.zeros(width)
    chosen = rng.choice(width, min(width, columns), replace=False)
    row[chosen] = rng.uniform(0.5, 1.5, len(chosen))
    return row


def flat_features(row: Float, n: int) -> sp.csr_matrix:
    """n copies of a row."""
    at = np.flatnonzero(row)
    indptr = np.arange(n + 1) * len(at)
    return sp.csr_matrix((np.tile(row[at], n), np.tile(at, n), indptr), shape=(n, len(row)))


def base_scale(form: Form) -> float:
    """How large the flat row is: attention wants it small, units' states want it large."""
    if form.from_zero:
        return 0.0
    return 1.0 if form.attends else LARGE


def see(target: Target, form: Form, width: int, rng: np.random.Generator) -> Seen:
    """Decode a target that offers derivatives."""
    assert target.derivative is not None
    n = target.num_nodes
    row = flat_row(width, rng)
    features = flat_features(base_scale(form) * row, n)
    nodes = np.arange(n)

    def response(senders: Any, along: Any = None) -> Any:
        return sp.csr_matrix(target.derivative(features, senders, row, along)).T.tocsr()  # type: ignore[misc]

    if not form.own:
        matrix = response(nodes)
        return Seen(decode(matrix, form, rounding(matrix, form)), matrix)
    classes = np.eye(target.num_outputs or 1)
    senders = np.sort(rng.choice(n, min(n, PROBES), replace=False))
    first, second = plane([response(senders, along) for along in classes], senders)
    one, two = response(nodes, first), response(nodes, second)
    error = ROUNDING * float(max(abs(one).max(), abs(two).max(), 1e-300))
    size = (one.multiply(one) + two.multiply(two)).sqrt().tocsr()
    return Seen(decode_mix(one, two, form, error), size)


def rounding(matrix: Any, form: Form) -> float:
    """A bound on the error of exact derivatives: double precision, or twice the asymmetry where there must be none."""
    if not matrix.nnz:
        return 0.0
    error = ROUNDING * float(matrix.max())
    return max(error, 2 * float(abs(matrix - matrix.T).max())) if form.symmetric else error


def plane(responses: list[Any], senders: Any) -> tuple[Float, Float]:
    """Two orthonormal directions of the answers that span the moves of other nodes (columns are the senders)."""
    pattern = sum(abs(r) for r in responses).tocoo()
    keep = senders[pattern.col] != pattern.row
    u, v = pattern.row[keep], pattern.col[keep]
    if not len(u):
        width = len(responses)
        return np.eye(width)[0], np.eye(width)[min(1, width - 1)]
    vectors = np.stack([np.asarray(r.tocsr()[u, v]).ravel() for r in responses], axis=1)
    turned = np.linalg.svd(vectors, full_matrices=True)[2] if len(u) < 64 else _principal(vectors)
    return turned[0], turned[min(1, len(turned) - 1)]


def _principal(vectors: Float) -> Float:
    values = np.linalg.eigh(vectors.T @ vectors)[1]
    out: Float = values.T[::-1]
    return out
