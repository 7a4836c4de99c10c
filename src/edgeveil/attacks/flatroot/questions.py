"""Flat questions to a black box: what to ask, how far to move, and how the answers measure every row of P^k at once.

The base question gives all nodes one row s c. A question moves row v by delta s sum_k z_vk x_k: the answers move by
P^k Z Q with one unknown Q [directions, answers] for all nodes. For symmetric P^k, Q follows from the answers alone:
Z_i' P^k Z_j is the transpose of Z_j' P^k Z_i, which is linear in Q. For others, moving all rows alike shows Q.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.exact import COLUMNS, flat_row
from edgeveil.attacks.probing import Resolution, resolution
from edgeveil.errors import TargetError
from edgeveil.release.target import Target

__all__ = ["Answers", "Flat", "OutOfQuestions", "mixing"]

Float = NDArray[np.float64]
SHARP, BLUNT = 1e-4, 0.1  # a null vector worth its name; and where answers are coarse
DENSE = 10**6  # numbers of a question that is asked as a plain array
EPS = float(np.finfo(np.float64).eps)


class OutOfQuestions(Exception):
    """The budget is spent."""


@dataclass
class Answers:
    """Moves `z` [n, directions] and the answers' change per step, [n, outputs], of each question."""

    z: list[Float] = field(default_factory=list)
    change: list[Float] = field(default_factory=list)


class Flat:
    """A target asked on flat features: row s c everywhere, moved by `step` times s.

    `central` asks every question with both signs: models that attend bend to second order.
    """

    def __init__(
        self,
        target: Target,
        width: int,
        rng: np.random.Generator,
        scale: float,
        step: float,
        budget: int | None = None,
        central: bool = False,
        columns: int = COLUMNS,
    ) -> None:
        self._target, self._budget, self._asked = target, budget, target.queries
        self._rng, self._width, self._columns = rng, width, columns
        self.step, self.central, self.bounded, self.scale = step, central, False, scale
        self.grain: Any = None
        self._errors: list[Float] = []
        self.settle: Callable[[], None] | None = None  # what else a new flat row needs
        self.shown: Float | None = None  # how answers mix the directions, where settling showed it
        self.redraw()

    def redraw(self, finer: float = 1.0) -> None:
        """Another flat row and other directions, with moves that are finer by a factor."""
        self.row = flat_row(self._width, self._rng, self._columns)
        self.columns = np.flatnonzero(self.row)
        self.step *= finer
        self.move_to(self.scale)
        self.turn(self.base.shape[1])
        if self.settle is not None:
            self.settle()

    def turn(self, count: int) -> None:
        """Other directions, so many of them."""
        self.directions = self._rng.normal(size=(count, len(self.columns))) * np.abs(self.row[self.columns]).mean()

    def move_to(self, scale: float) -> None:
        """Ask the base question at another scale."""
        self.scale = scale
        raw = self._query(np.tile(scale * self.row[self.columns], (self._target.num_nodes, 1)))
        grain = _grain(raw)
        if self.grain is None or self._target.answer_kind != "probabilities" or self._finer(grain):
            self.grain = grain
        self.base = self.read(raw)

    def _finer(self, grain: Resolution) -> bool:
        """Probabilities near 0 and 1 look rounder than they are, never finer."""
        return bool(self.grain.rounded and (grain.exact or grain.step < self.grain.step))

    def along_itself(self) -> None:
        """From now on move rows along the flat row only, never below zero: such moves keep every unit's state."""
        self.directions = self.row[self.columns][None, :]
        self.step, self.bounded = 0.95, True

    @property
    def unit(self) -> float:
        """Features moved by z = 1."""
        return self.step * (self.scale if self.scale > 1e-3 else 1.0)

    @property
    def left(self) -> int | None:
        """Questions that may still be asked; None: any number."""
        return None if self._budget is None else self._budget - (self._target.queries - self._asked)

    def draw(self) -> Float:
        """Random moves z [n, directions]."""
        shape = (self._target.num_nodes, len(self.directions))
        return self._rng.uniform(-1, 1, shape) if self.bounded else self._rng.normal(size=shape)

    def normal(self, shape: tuple[int, int]) -> Float:
        """Random vectors, from the questions' own stream."""
        return self._rng.normal(size=shape)

    def ask(self, z: Float, directions: Float | None = None) -> Float:
        """The answers' change per unit when row v moves along sum_k z_vk directions_k."""
        along = self.directions if directions is None else directions
        flat, move = self.scale * self.row[self.columns], self.unit * (z @ along)
        raw = self._query(flat + move)
        up = self.read(raw)
        if self.coarse:
            self._errors.append(self.grain.step / np.maximum(raw, self.grain.step).min(axis=1))
        if not self.central:
            return (up - self.base) / self.unit
        return (up - self.read(self._query(flat - move))) / (2 * self.unit)

    def shrink(self) -> tuple[Float, Float]:
        """Random shares y [n] in [0, 1], and P^k y up to one factor, to nearly full precision.

        Rows lose half of y: such moves are as large as the row, yet keep every unit's state and exceed no limit.
        """
        y = self._rng.random(self._target.num_nodes)
        rows = (1 - 0.5 * y)[:, None] * (self.scale * self.row[self.columns])
        along = np.linalg.eigh(self.base.T @ self.base)[1][:, -1]
        size = 0.5 * float(np.abs(self.base @ along).mean())
        return y, np.asarray((self.base - self.read(self._query(rows))) @ along / size, np.float64)

    def _query(self, rows: Float) -> Float:
        if self.left is not None and self.left <= 0:
            raise OutOfQuestions
        n, width = self._target.num_nodes, len(self.row)
        if isinstance(self._target.features, np.ndarray) or n * width <= DENSE:
            x: Any = np.zeros((n, width))
            x[:, self.columns] = rows
        else:
            indptr = np.arange(n + 1) * len(self.columns)
            x = sp.csr_matrix((rows.ravel(), np.tile(self.columns, n), indptr), shape=(n, width))
        return np.asarray(self._target.query(features=x), np.float64)

    def read(self, answer: Float) -> Float:
        """Logits as they are; probabilities as differences of logarithms, which are differences of logits."""
        if self._target.answer_kind != "probabilities":
            return answer
        if answer.min() < 0 or answer.max() > 1 + 1e-6:
            raise TargetError("the target says it answers probabilities, but some lie outside [0, 1]")
        grain = 1e-300 if self.grain.exact else self.grain.step
        log = np.log(np.maximum(answer, grain))
        if np.abs(answer.sum(axis=1) - 1).max() > 0.02 * max(answer.shape[1], 5):
            binary: Float = log - np.log(np.maximum(1 - answer, grain))
            return binary
        out: Float = log[:, :-1] - log[:, -1:]
        return out

    @property
    def coarse(self) -> bool:
        """Whether probabilities are rounded: then every answer has an error of its own."""
        return bool(self._target.answer_kind == "probabilities" and not self.grain.exact)

    def blur(self, last: int) -> Any:
        """Noise of every node over the `last` questions: rounding moves a log-ratio by half a step over p."""
        if not self.coarse or not last:
            return self.noise
        return np.sqrt(np.mean(np.square(self._errors[-last:]), axis=0)) / 4 / self.unit

    @property
    def noise(self) -> float:
        """Size of the answers' rounding in units of a change."""
        return float(self.row_noise.max(initial=0.0))

    @property
    def row_noise(self) -> Float:
        """The same for every node: double precision rounds in proportion to a node's own answer."""
        size = np.abs(self.base).max(axis=1, initial=0.0) + 1.0
        grain = self.grain.step if self.grain.kind != "float64" else 0.0
        return np.asarray(np.maximum(grain, 4 * EPS * size) / self.unit, np.float64)


def _grain(answer: Float) -> Resolution:
    """The answers' resolution; far out, single precision would pass for whole numbers."""
    if np.abs(answer).max(initial=0.0) > 1e3 and np.array_equal(answer, answer.astype(np.float32)):
        return Resolution(float(np.abs(answer).max()) * float(np.finfo(np.float32).eps), "float32")
    return resolution(answer)


def mixing(answers: Answers, coarse: bool = False) -> tuple[Float, Float] | None:
    """Q' [directions, rank] and the turn V [outputs, rank] with change V = P^k Z Q', for symmetric P^k, up to a factor.

    Q'^T N_ij = (Q'^T N_ji)^T with N_ij = Z_j^T change_i V: the null vector of a linear system. None if none stands out.
    """
    stacked = np.concatenate(answers.change)
    turn = whiten(stacked)
    if turn is None:
        return None
    count = min(len(answers.z), 6)
    part = [c @ turn for c in answers.change[:count]]
    k, rank = answers.z[0].shape[1], turn.shape[1]
    blocks = []
    for i in range(count):
        for j in range(i, count):
            blocks.append(_equations(answers.z[j].T @ part[i], answers.z[i].T @ part[j]))
    values, vectors = np.linalg.svd(np.concatenate(blocks), full_matrices=False)[1:]
    if len(values) > 1 and values[-1] > (BLUNT if coarse else SHARP) * values[-2]:
        return None
    q = vectors[-1].reshape(k, rank)
    agree = sum(float(((z @ q) * p).sum()) for z, p in zip(answers.z[:count], part, strict=True))
    return q * np.sign(agree), turn


def whiten(changes: Float) -> Float | None:
    """A turn of the outputs to uncorrelated ones of equal size; outputs that only repeat others are dropped."""
    values, vectors = np.linalg.eigh(changes.T @ changes / len(changes))
    keep = values > max(values[-1], 0.0) * 1e-8
    if not values[-1] > 0 or not keep.any():
        return None
    out: Float = vectors[:, keep] / np.sqrt(values[keep])
    return out


def _equations(one: Float, other: Float) -> Float:
    """Rows of the linear system q -> (q^T one) - (q^T other)^T, q flattened row by row."""
    k, rank = one.shape
    first = np.einsum("ka,bc->bakc", one, np.eye(rank))  # (q^T one)[b, a] = sum_k q[k, b] one[k, a]
    second = np.einsum("kb,ac->bakc", other, np.eye(rank))  # (q^T other)[a, b] = sum_k q[k, a] other[k, b]
    out: Float = (first - second).reshape(rank * rank, k * rank)
    return out
