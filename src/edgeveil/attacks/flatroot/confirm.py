"""Questions drawn after a graph was found: how far the answers' own matrix can be from that graph's power.

Answers are M Z W for the true M = P^k and an unknown mixture W of the columns; the found graph's F predicts F Z. For a
row u the rest is Gaussian with a covariance of at least dist(F_u, line of M_u)^2 in every column, whatever W is: if
Z is independent of F, a short rest means a short distance (Freivalds 1977). One column is F's positive eigenvector e
(F e = t e); how evenly the answers repeat it ties the scales of all rows together and bounds by how much e misses
M's own equation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from edgeveil.attacks.flatroot.decode import Decoded, decode
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.propagate import symmetric
from edgeveil.attacks.flatroot.questions import Answers, Flat

__all__ = ["eigenvector", "fresh_bounds", "proof"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
LAST = 48  # fresh measurements of every row
CHANCE = 1e-15  # that the bounds are wrong
BLUNT = 8.0  # columns with more than so many times the least noise are left out


def eigenvector(form: Form, adjacency: Any) -> Float:
    """The positive vector that P keeps, up to its eigenvalue: roots of the degrees, or ones; 0 at lone nodes."""
    degree = np.asarray(adjacency.sum(axis=1)).ravel() + float(form.loops)
    out: Float = np.sqrt(degree) if form.symmetric else (degree > 0).astype(np.float64)
    return out


def fresh_bounds(flat: Flat, form: Form, power: Any, root: Float, mix: tuple[Float, Float]) -> tuple[float, float]:
    """(error, drift): no entry of M is further from `power` than `error`, and M root = root (1 +- drift), up to t.

    `mix`: directions to columns and answers to columns, fitted to `power`. Infinite where entries of M that are so
    small that they could hide in the error would let M join what `power` keeps apart. Raises `OutOfQuestions`.
    """
    (q, turn), n = mix, power.shape[0]
    back, blur = np.linalg.pinv(q), np.linalg.norm(turn, axis=0)
    sharp = np.argsort(blur)[: int((blur <= BLUNT * blur.min()).sum())]  # columns differ in their noise alone
    noise = flat.row_noise[:, None] * blur[sharp]
    count = math.ceil((LAST + 1) / len(sharp))
    rest, drift = np.zeros(n), math.inf
    for number in range(count):
        vectors = flat.normal((n, len(blur)))
        if number == 0:
            vectors[:, sharp[0]] = root * math.sqrt(n) / np.linalg.norm(root)
        seen, told = (flat.ask(vectors @ back) @ turn)[:, sharp], (power @ vectors)[:, sharp]
        left = np.abs(seen - told) + noise
        if number == 0:
            kept, left = root > 0, left[:, 1:]
            share = seen[kept, 0] / told[kept, 0]
            drift = float((np.abs(share / np.median(share) - 1) + noise[kept, 0] / told[kept, 0]).max())
        rest += np.square(left).sum(axis=1)
    apart = np.sqrt(rest / (2 * gammaincinv((count * len(sharp) - 1) / 2, CHANCE / n)))
    if not float(apart.max()) < 0.5 / float(n) ** form.layers:  # the least that an entry of M can be, halved
        return math.inf, math.inf
    return _entries(power, root, apart, drift), 4 * drift


def proof(flat: Flat, form: Form, edges: Int, answers: Answers, turn: Float) -> Decoded | None:
    """The graph that every rule forces on the found one's power, within what fresh questions leave open; None where
    they leave too much. The mixture of the directions is fitted to the power first. Raises `OutOfQuestions`."""
    adjacency = symmetric(edges[0], edges[1], len(answers.z[0]))
    power = form.power(adjacency)
    left = np.concatenate([power @ z for z in answers.z])
    q = np.linalg.lstsq(left, np.concatenate(answers.change) @ turn, rcond=None)[0]
    error, drift = fresh_bounds(flat, form, power, eigenvector(form, adjacency), (q, turn))
    if not math.isfinite(error):
        return None
    proven = decode(power, form, error, drift=drift)
    return proven if proven.certified or proven.open.size else None


def _entries(power: Any, root: Float, apart: Float, drift: float) -> float:
    """What a row's distance and the doubt about its scale make of its entries."""
    there = power.copy()
    there.data = np.ones_like(there.data)
    reach = np.sqrt(there @ np.square(root))
    top = np.asarray(power @ root)
    scale = np.divide(apart * reach, top, out=np.zeros_like(apart), where=top > 0) + drift
    largest = np.asarray(abs(power).max(axis=1).todense()).ravel()
    return float((apart + 2 * scale * largest).max())
