"""The stored graph from few black-box questions: ask, recover rows, decode; ask more only while rows are unsolved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.decode import UNPROVEN, Decoded, decode, nothing
from edgeveil.attacks.flatroot.exact import Seen
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.propagate import symmetric
from edgeveil.attacks.flatroot.questions import Answers, Flat, OutOfQuestions, mixing, whiten
from edgeveil.attacks.flatroot.row_decoding import SPARE, Rows

__all__ = ["ask_power"]

Float = NDArray[np.float64]
UNSOLVED = "{} of {} rows of the product are not determined by the questions asked, so nothing is asserted"
SEVERAL = "consistent, not unique: the answers fit several forms of the model; say which it is (norm=, layers=)"
FINER, FINEST, ATTEMPTS = 0.03, 1e-5, 8
TRIAL = 3  # questions that show whether all units keep their state
FIRST = 8  # questions before the first try
GROWTH, COARSE_GROWTH = 1.12, 1.35  # of the questions from one try to the next; on large graphs a try is dear
LARGE = 5000


def ask_power(flat: Flat, forms: Sequence[Form], n: int) -> Seen:
    """Rows of P^k until all are solved or the budget is spent, then the graph, whichever of the forms it has.

    The forms are all symmetric or all not. A graph is certified only if every other form is refuted.
    """
    wasted = 0
    for attempt in range(ATTEMPTS):
        power = _Power(flat, forms, n)
        try:
            power.run()
            wasted += power.calibrated
            if power.rows.solved.all() or wasted == 2 or flat.bounded or attempt + 1 == ATTEMPTS:
                break
            # Some unit changed its state: another row, and smaller moves as long as rounding allows them.
            flat.redraw(FINER if not attempt or FINER * flat.step >= FINEST else 1.0)
        except OutOfQuestions:
            power.recover()
            break
    return power.conclude()


class _Power:
    """Questions so far, the calibration, and the rows solved with them."""

    def __init__(self, flat: Flat, forms: Sequence[Form], n: int) -> None:
        self._flat, self._forms, self._n = flat, forms, n
        self._symmetric = forms[0].symmetric
        self._answers = Answers()
        self._mix: tuple[Float, Float] | None = None
        self._shown: Float | None = None
        self.rows = Rows(n, 1e-9, self._symmetric)

    def run(self) -> None:
        """Ask in growing rounds."""
        if not self._symmetric:
            self._show()
        else:
            for _ in range(TRIAL):
                self._one()
            if mixing(self._answers) is None:
                return
        while not self.rows.solved.all():
            if self.rows.num_measurements >= 1.1 * self._n + 2 * SPARE:
                return
            for _ in range(self._more()):
                self._one()
            self.recover()
            if not self.calibrated:
                return

    @property
    def calibrated(self) -> bool:
        """Whether the answers showed how they mix the directions."""
        return self._mix is not None

    def _more(self) -> int:
        """How many questions the next round asks: just enough for elimination where that is near."""
        asked = len(self._answers.z)
        if asked <= TRIAL:
            return (FIRST if self._n <= LARGE else 3 * FIRST) - asked
        growth = GROWTH if self._n <= LARGE else COARSE_GROWTH
        step = max(1, math.ceil(asked * (growth - 1)))
        short = math.ceil((len(self.rows.unsolved) + SPARE + 1) / 0.95) - self.rows.num_measurements
        rank = max(1, self.rows.num_measurements // asked)
        need = math.ceil(short / rank)
        return need if 0 < need <= 2 * step else step

    def _one(self) -> None:
        z = self._flat.draw()
        self._answers.change.append(self._flat.ask(z))
        self._answers.z.append(z)

    def _show(self) -> None:
        """Move all rows alike, one direction at a time: row sums of P^k are one, so the answers are Q itself."""
        count = len(self._flat.directions)
        q = []
        for k in range(count):
            z = np.zeros((self._n, count))
            z[:, k] = 1.0
            q.append(np.median(self._flat.ask(z), axis=0))
        self._shown = np.array(q)

    def _calibrate(self) -> bool:
        """Once: another calibration would scale the rows solved so far differently."""
        if self._mix is not None:
            return True
        if self._shown is None:
            self._mix = mixing(self._answers)
        else:
            turn = whiten(np.concatenate(self._answers.change))
            self._mix = None if turn is None else (self._shown @ turn, turn)
        if self._mix is None:
            return False
        q, turn = self._mix
        self._mix = (q * math.sqrt(q.shape[1]) / float(np.linalg.norm(q)), turn)
        return True

    def recover(self) -> None:
        """Solve what the answers so far allow; the rows solved make the calibration better."""
        if len(self._answers.z) < 2 or not self._calibrate():
            return
        self._measure()
        self.rows.solve()
        if self._shown is None and self.rows.solved.sum() > 10 * len(self._flat.directions):
            self._refine()

    def _measure(self) -> None:
        assert self._mix is not None
        q, turn = self._mix
        design = np.concatenate([z @ q for z in self._answers.z], axis=1)
        answers = np.concatenate([c @ turn for c in self._answers.change], axis=1)
        noise = self._flat.noise * float(np.linalg.norm(turn, axis=0).max())
        self.rows.noise = max(noise, 1e-13)
        self.rows.restart(design, answers)

    def _refine(self) -> None:
        """Fit Q again, with the rows that are solved."""
        assert self._mix is not None
        turn = self._mix[1]
        at = np.flatnonzero(self.rows.solved)
        known = self.rows.matrix[at]
        left = np.concatenate([known @ z for z in self._answers.z])
        right = np.concatenate([(c @ turn)[at] for c in self._answers.change])
        q = np.linalg.lstsq(left, right, rcond=None)[0]
        self._mix = (q, turn)

    def conclude(self) -> Seen:
        """Decode if every row is solved; else rank by what is known."""
        matrix = self.rows.matrix
        if not self.rows.solved.all():
            return Seen(nothing(UNSOLVED.format(len(self.rows.unsolved), self._n)), matrix)
        matrix.data[matrix.data < 0] = 0.0
        size = np.sqrt((self.rows.design**2).mean())
        error = 50 * self.rows.noise / float(size)
        if self._symmetric:
            error = max(error, float(abs(matrix - matrix.T).max()))
        tried = [self._against_answers(decode(matrix, form, error), form) for form in self._forms]
        fitting = [d for d in tried if d.consistent]
        if len(tried) == 1 or not fitting:
            return Seen(tried[0], matrix)
        return Seen(fitting[0] if len(fitting) == 1 else replace(fitting[0], certified=False, note=SEVERAL), matrix)

    def _against_answers(self, got: Decoded, form: Form) -> Decoded:
        """A certificate must also explain every measurement, whatever the rows in between were believed to be."""
        if not got.certified:
            return got
        a = symmetric(got.edges[0], got.edges[1], self._n)
        told = form.power(a) @ self.rows.design
        answers = self.rows.answers
        scale = float((told * answers).sum() / (told * told).sum())
        blur = 1e-9 + 20 * self.rows.noise
        if np.abs(scale * told - answers).max() <= blur * float(np.abs(answers).max()):
            return got
        return replace(got, certified=False, note=UNPROVEN)
