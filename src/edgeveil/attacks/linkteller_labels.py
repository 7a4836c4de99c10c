"""LinkTeller against labels only: at which step does whose decision flip? (LinkTeller App. E3 leaves this open.)

A node's label flips once the influence times the step exceeds its margin, so the inverse of the smallest step that
flips it measures influence over margin. Margins differ between nodes and stay unknown, which is what this loses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.attacks.linkteller import check_variant, score_influence
from edgeveil.errors import InputError
from edgeveil.release.target import AttackerView, Target

__all__ = ["LinkTellerLabels"]

Array = NDArray[Any]


@ATTACKS.register("linkteller-labels")
@dataclass(frozen=True, kw_only=True)
class LinkTellerLabels(Attack):
    """Scales one node's features by 1 + step and 1 - step for every step of the ladder: 2 n steps + 1 queries.

    Works on any target: graded answers are read as labels.
    """

    steps: tuple[float, ...] = (2.0, 8.0, 32.0, 128.0)
    """Relative steps to try, in any order."""
    variant: str = "correct"
    """``correct`` adds a pair's two directions; ``published`` takes one."""

    reference: ClassVar[str] = "decision-only form of Wu et al., LinkTeller, IEEE S&P 2022, appendix E3"
    needs: ClassVar[frozenset[str]] = frozenset({"answers", "features"})
    watches: ClassVar[bool] = True

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Inverse flipping steps of both signs, added, as the influence matrix."""
        check_variant(self.variant)
        ladder = sorted(float(s) for s in self.steps)
        if not ladder or ladder[0] <= 0:
            raise InputError(f"steps must be positive numbers, got {self.steps!r}")
        base = _labels(target.query())[view.nodes]
        rows = [self._one(target, view, at, base, ladder) for at in range(len(view.nodes))]
        matrix = sp.csr_matrix(np.array(rows))
        note = "labels only: a score is influence over the receiver's unknown margin, on a ladder of steps"
        scored = score_influence(matrix, view, self.variant, "black-box", {})
        return replace(scored, notes=(*scored.notes, note))

    def _one(self, target: Target, view: AttackerView, at: int, base: Array, ladder: list[float]) -> Array:
        row, node = view.rows(at), view.nodes[[at]]
        total = np.zeros(len(base))
        for sign in (1.0, -1.0):
            inverse = np.zeros(len(base))
            for step in reversed(ladder):
                moved = row * (1 + sign * step)
                if view.controlled_features is not None:
                    partly = row.copy()
                    partly[:, view.controlled_features] = moved[:, view.controlled_features]
                    moved = partly
                flipped = _labels(target.query(features=moved, nodes=node))[view.nodes] != base
                inverse[flipped] = 1 / step
            total += inverse
        return total


def _labels(answer: Array) -> Array:
    return answer if answer.ndim == 1 else answer.argmax(axis=1)
