"""Few questions for a connected graph of two-step answers, however full the rows of P^2: degrees, bits, a last check.

Every question is free to carry as many vectors as the answers have independent outputs. While degrees are looked for,
one of them is the next Krylov vector of the leading eigenvector (the square roots of the degrees); the others are
random and serve the bits.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.confirm import proof
from edgeveil.attacks.flatroot.decode import UNPROVEN, Decoded, nothing
from edgeveil.attacks.flatroot.direct import DirectBits
from edgeveil.attacks.flatroot.edgewise import Bits, checked, leading_degrees
from edgeveil.attacks.flatroot.exact import Seen
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.questions import Answers, Flat, OutOfQuestions, mixing
from edgeveil.attacks.flatroot.roots import close_roots

__all__ = ["ask_edges"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
STEPS = 60  # Krylov vectors at most
SETTLED, CONVERGED = 1e-3, 1e-8  # of the eigenvector's equation, before degrees are tried and when they must fit
LAST = 12  # fresh questions at most that a found graph must explain
SPARSE, HOPELESS = 2, 8  # of the bits' least measurements: so few nodes, so many measurements, are for rows
GROWTH, EARLY_GROWTH = 1.12, 1.3
BLUR = 1e-5  # of a measurement, while the mixture is only roughly known; an edge adds far more
OPEN = "{} pairs are likely edges after the questions asked, but they do not explain the answers: nothing is asserted"


def ask_edges(flat: Flat, form: Form, n: int, answers: Answers) -> Seen | None:
    """The graph; a ranking when the questions run out; None where this way does not work (rows may).

    `answers`: random questions asked before.
    """
    asked = _Vectors(flat, form, n, answers)
    try:
        if not asked.calibrate():
            return None
        degree = asked.degrees()
        if degree is None:
            return None
        bits = asked.bits = (DirectBits if form.positive else Bits)(form, degree, BLUR)
        if bits.least > n / SPARSE:
            return None
        while asked.count < bits.least:
            asked.more()
        while not bits.fit(*asked.measured()):
            if asked.count > (min(n, HOPELESS * bits.least) if bits.least else n):
                return None
            asked.more()
        return asked.conclude(bits)
    except OutOfQuestions:
        return asked.best()


class _Vectors:
    """P^2 times chosen vectors, from questions: moves z and the answers' change, of which random columns are kept."""

    def __init__(self, flat: Flat, form: Form, n: int, answers: Answers) -> None:
        self._flat, self._form, self._n = flat, form, n
        self._answers = answers
        self._spent = [0] * len(answers.z)  # leading columns of each question that were not random
        self.bits: Bits | None = None

    def calibrate(self) -> bool:
        """How the answers mix the directions."""
        mix = mixing(self._answers)
        if mix is None:
            return False
        q, self._turn = mix
        self._mix(q * math.sqrt(q.shape[1]) / float(np.linalg.norm(q)))
        return True

    def _mix(self, q: Float) -> None:
        self._q, self._back = q, np.linalg.pinv(q)

    @property
    def rank(self) -> int:
        return int(self._q.shape[1])

    @property
    def count(self) -> int:
        """Random measurements so far."""
        return self.rank * len(self._spent) - sum(self._spent)

    def _ask(self, vectors: Float, spent: int = 0) -> Float:
        z = vectors @ self._back
        self._answers.change.append(self._flat.ask(z))
        self._answers.z.append(z)
        self._spent.append(spent)
        return np.asarray(self._answers.change[-1] @ self._turn, np.float64)

    def _draw(self, count: int) -> Float:
        return self._flat.normal((self._n, count))

    def degrees(self) -> Int | None:
        """Whole degrees from the leading eigenvector, by Lanczos; its eigenvalue gives the answers their scale."""
        top = (1.0 + self._form.shift) ** 2
        basis = [_unit(np.abs(self._flat.base).sum(axis=1))]
        images: list[Float] = []
        for _ in range(STEPS):
            extra = self._draw(self.rank - 1)
            out = self._ask(np.concatenate([math.sqrt(self._n) * basis[-1][:, None], extra], axis=1), spent=1)
            images.append(out[:, 0] / math.sqrt(self._n))
            inner = np.array(basis) @ np.array(images).T
            values, vectors = np.linalg.eigh((inner + inner.T) / 2)
            lead, image = vectors[:, -1] @ np.array(basis), vectors[:, -1] @ np.array(images)
            off = float(np.linalg.norm(image - values[-1] * lead)) / values[-1]
            if off < SETTLED:
                degree = leading_degrees((image / values[-1]) ** 2, self._linked(), int(self._form.loops))
                if degree is None and off < CONVERGED:
                    return None  # several components, each with a scale of its own
                if degree is not None:
                    self._mix(self._q * (float(values[-1]) / top))
                    return degree
            step = images[-1]
            for _ in range(2):
                step = step - np.array(basis).T @ (np.array(basis) @ step)
            basis.append(_unit(step))
        return None

    def _linked(self) -> NDArray[np.bool_]:
        """Nodes whose answers follow more than their own moves."""
        design, answers = self.measured()
        own = (design * answers).sum(axis=1) / (design**2).sum(axis=1)
        rest = np.linalg.norm(answers - own[:, None] * design, axis=1)
        return np.asarray(rest > BLUR * np.linalg.norm(answers, axis=1))

    def more(self) -> None:
        """More random vectors: many while most edges are missing."""
        found = 0 if self.bits is None else self.bits.edges.shape[1]
        growth = GROWTH if self.bits is not None and self.bits.missing < found else EARLY_GROWTH
        for _ in range(max(1, math.ceil((growth - 1) * self.count / self.rank))):
            self._ask(self._draw(self.rank))

    def measured(self) -> tuple[Float, Float]:
        """All random vectors, and P^2 times them."""
        asked = list(zip(self._answers.z, self._answers.change, self._spent, strict=True))
        design = np.concatenate([(z @ self._q)[:, spent:] for z, _, spent in asked], axis=1)
        return design, np.concatenate([(c @ self._turn)[:, spent:] for _, c, spent in asked], axis=1)

    def conclude(self, bits: Bits) -> Seen:
        """Fresh questions may prove the graph that explains all of these."""
        edges, none = bits.edges, np.empty((2, 0), np.int64)
        power = self._form.power(bits.adjacency)
        found = Decoded(edges, none, np.empty(0), True, False, UNPROVEN)
        if self._form.positive:
            found = replace(found, certified=True, note="") if self._only_root(power) else found
        else:
            with suppress(OutOfQuestions):
                found = proof(self._flat, self._form, edges, self._answers, self._turn) or found
        return Seen(found, power)

    def _only_root(self, power: Any) -> bool:
        """Fresh vectors bound how far the answers' matrix can be from the found one; roots are close if squares are."""
        fresh: list[tuple[Float, Float]] = []
        while len(fresh) < LAST and self._flat.left != 0:
            fresh.append(self._flat.shrink())
            design, answers = (np.stack(side, axis=1) for side in zip(*fresh, strict=True))
            factor, apart = checked(power, design, answers)
            if len(fresh) > 1 and close_roots(self._form, self._n, 2 * apart / abs(factor)):
                return True
        return False

    def best(self) -> Seen | None:
        """What the questions show when they end early."""
        if self.bits is None:
            return None
        asked = self.measured()
        if self.bits.fit(*asked):
            return self.conclude(self.bits)
        likely = self.bits.likely(*asked)
        return Seen(nothing(OPEN.format(likely.nnz // 2)), likely)


def _unit(vector: Float) -> Float:
    out: Float = vector / np.linalg.norm(vector)
    return out
