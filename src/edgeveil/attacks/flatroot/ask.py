"""The stored graph from few black-box questions: ask, recover rows, decode; ask more only while rows are unsolved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.ask_edges import ask_edges
from edgeveil.attacks.flatroot.confirm import proof
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
ROWS = 3  # flat rows that are tried until no output only repeats others
FIRST = 8  # questions before the first try
GROWTH, DEAR_GROWTH = 1.12, 1.35  # of the questions from one try to the next; a try is dear where these are many
LARGE = 5000
MOST = 2.5  # measurements of coarse answers, per node
MANY, RARE = 500, 0.2  # nodes, and the share of them solved at first, that call for reading edges without rows


def ask_power(flat: Flat, forms: Sequence[Form], n: int) -> Seen:
    """Rows of P^k until all are solved or the budget is spent, then the graph, whichever of the forms it has.

    The forms are all symmetric or all not. A graph is certified only if every other form is refuted.
    """
    wasted = 0
    for attempt in range(ATTEMPTS):
        power = _Power(flat, forms, n)
        try:
            power.run()
            if power.dense:
                seen = ask_edges(flat, forms[0], n, power.answers)
                if seen is not None:
                    return seen
                power.dense = False
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
        self.answers = Answers()
        self.dense: bool | None = None  # whether rows of P^k are too full, so that edges must be read without them
        self._mix: tuple[Float, Float] | None = None
        self._shown = flat.shown
        self.rows = Rows(n, 1e-9, self._symmetric, coarse=flat.coarse)

    def run(self) -> None:
        """Ask in growing rounds."""
        if not self._symmetric:
            self._show()
        else:
            self._enrich()
            while len(self.answers.z) < TRIAL:
                self._one()
            if self._shown is None and mixing(self.answers, self._flat.coarse) is None:
                return
            if self.dense is None and self._n > LARGE and self._edgewise:
                self.dense = True  # rows of large graphs take more questions and longer
                return
        while not self.rows.solved.all() or self._blurred():
            if self.rows.num_measurements >= (MOST if self.rows.coarse else 1.1) * self._n + 2 * SPARE:
                return
            for _ in range(self._more()):
                self._one()
            self.recover()
            if not self.calibrated:
                return
            if self.dense is None:
                self.dense = self._is_dense()
                if self.dense:
                    return

    def _enrich(self) -> None:
        """Another flat row where this one leaves so few units active that some outputs only repeat others."""
        if self._n < MANY or self._flat.coarse or self._flat.bounded:
            return
        for _ in range(ROWS):
            self._one()
            turn = whiten(self.answers.change[0])
            if turn is not None and turn.shape[1] == self._flat.base.shape[1]:
                return
            self._flat.redraw()
            self.answers = Answers()

    def _blurred(self) -> bool:
        """Whether rows from coarse answers decode to nothing yet; more questions average the rounding out."""
        if not self.rows.coarse or self.conclude().decoded.consistent:
            return False
        self.rows.forget()
        return True

    @property
    def _edgewise(self) -> bool:
        """Whether edges can be read without rows."""
        form, flat = self._forms[0], self._flat
        plain = form.symmetric and form.layers == 2 and form.norm != "sum" and not form.attends
        return plain and len(self._forms) == 1 and not flat.bounded and not flat.coarse

    def _is_dense(self) -> bool:
        """Whether hardly any row was solved, and edges stand out of P^2 without rows."""
        return self._edgewise and self._forms[0].positive and self._n >= MANY and bool(self.rows.solved.mean() < RARE)

    @property
    def calibrated(self) -> bool:
        """Whether the answers showed how they mix the directions."""
        return self._mix is not None

    def _more(self) -> int:
        """How many questions the next round asks: just enough for elimination where that is near."""
        asked = len(self.answers.z)
        if asked <= TRIAL:
            return (FIRST if self._n <= LARGE else 8 * FIRST) - asked
        growth = DEAR_GROWTH if self._n > LARGE or self.rows.coarse else GROWTH
        step = max(1, math.ceil(asked * (growth - 1)))
        short = math.ceil((len(self.rows.unsolved) + SPARE + 1) / 0.95) - self.rows.num_measurements
        rank = max(1, self.rows.num_measurements // asked)
        need = math.ceil(short / rank)
        return need if 0 < need <= 2 * step else step

    def _one(self) -> None:
        z = self._flat.draw()
        self.answers.change.append(self._flat.ask(z))
        self.answers.z.append(z)

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
            self._mix = mixing(self.answers, self._flat.coarse)
        else:
            turn = whiten(np.concatenate(self.answers.change))
            self._mix = None if turn is None else (self._shown @ turn, turn)
        if self._mix is None:
            return False
        q, turn = self._mix
        if self._flat.coarse:  # all outputs with the same noise, not with the same signal
            size = np.linalg.norm(turn, axis=0)
            q, turn = q / size * size.min(), turn / size * size.min()
        self._mix = (q * math.sqrt(q.shape[1]) / float(np.linalg.norm(q)), turn)
        return True

    def recover(self) -> None:
        """Solve what the answers so far allow; the rows solved make the calibration better."""
        if len(self.answers.z) < 2 or not self._calibrate():
            return
        self._measure()
        self.rows.solve()
        if self._symmetric and self.rows.solved.sum() > 10 * len(self._flat.directions):
            self._refine()

    def _measure(self) -> None:
        assert self._mix is not None
        q, turn = self._mix
        design = np.concatenate([z @ q for z in self.answers.z], axis=1)
        answers = np.concatenate([c @ turn for c in self.answers.change], axis=1)
        noise = self._flat.blur(len(self.answers.z)) * float(np.linalg.norm(turn, axis=0).max())
        self.rows.noise = np.maximum(noise, 1e-13)
        self.rows.restart(design, answers)

    def _refine(self) -> None:
        """Fit Q again, with the rows that are solved."""
        assert self._mix is not None
        turn = self._mix[1]
        at = self.rows.clear(np.flatnonzero(self.rows.solved))
        known = self.rows.matrix[at]
        left = np.concatenate([known @ z for z in self.answers.z])
        right = np.concatenate([(c @ turn)[at] for c in self.answers.change])
        q = np.linalg.lstsq(left, right, rcond=None)[0]
        self._mix = (q, turn)

    def conclude(self) -> Seen:
        """Decode if every row is solved; else rank by what is known."""
        matrix = self.rows.matrix
        if not self.rows.solved.all():
            return Seen(nothing(UNSOLVED.format(len(self.rows.unsolved), self._n)), self.rows.rough())
        matrix.data[matrix.data < 0] = 0.0
        size = np.sqrt((self.rows.design**2).mean())
        noise = float(np.max(self.rows.noise))
        if self.rows.coarse and self._symmetric:
            matrix, noise = self.rows.reconciled(), float(np.partition(self.rows.noise, -2)[-2])
        error = (24 / math.sqrt(self.rows.num_measurements) if self.rows.coarse else 50) * noise / float(size)
        if self._symmetric:
            error = max(error, float(abs(matrix - matrix.T).max()))
        tried = [self._decoded(matrix, form, error) for form in self._forms]
        tried = [
            self._sharpened(self._against_answers(got, form), form)
            for got, form in zip(tried, self._forms, strict=True)
        ]
        fitting = [d for d in tried if d.consistent]
        if len(tried) == 1 or not fitting:
            return Seen(tried[0], matrix)
        return Seen(fitting[0] if len(fitting) == 1 else replace(fitting[0], certified=False, note=SEVERAL), matrix)

    def _decoded(self, matrix: Any, form: Form, error: float) -> Decoded:
        """Where answers are coarse their error is an estimate: several are tried, and nothing is certified."""
        for more in (0.05, 0.25, 1, 4, 16) if self.rows.coarse else (1,):
            got = decode(matrix.copy(), form, more * error)
            if got.consistent:
                break
        return got

    def _sharpened(self, got: Decoded, form: Form) -> Decoded:
        """Fresh questions show how exact the answers are, and may prove a found graph."""
        if got.certified or not got.consistent or got.open.size or self.rows.coarse or self._mix is None:
            return got
        if self._flat.bounded:
            return got
        try:
            return proof(self._flat, form, got.edges, self.answers, self._mix[1]) or got
        except OutOfQuestions:
            return got

    def _against_answers(self, got: Decoded, form: Form) -> Decoded:
        """A certificate must also explain every measurement, whatever the rows in between were believed to be."""
        if not got.certified:
            return got
        if self.rows.coarse:
            return replace(got, certified=False, note=UNPROVEN)
        a = symmetric(got.edges[0], got.edges[1], self._n)
        told = form.power(a) @ self.rows.design
        answers = self.rows.answers
        scale = float((told * answers).sum() / (told * told).sum())
        blur = 1e-9 + 20 * float(np.max(self.rows.noise))
        if np.abs(scale * told - answers).max() <= blur * float(np.abs(answers).max()):
            return got
        return replace(got, certified=False, note=UNPROVEN)
