"""Guessing: the baseline whose precision is the density (LinkTeller §V-C2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.release.target import AttackerView, Target
from edgeveil.seeds import stream

__all__ = ["Guess"]


@ATTACKS.register("random")
@dataclass(frozen=True)
class Guess(Attack):
    """Uniform scores; asks nothing."""

    reference: ClassVar[str] = "Wu et al., LinkTeller, IEEE S&P 2022, section V-C2"

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """One uniform number per pair. A whole graph's guesses are all alike, so none is listed."""
        if view.whole_graph:
            n = len(view.nodes)
            return Scored(np.empty(0), np.empty((2, 0), np.int64), "none", unlisted=n * (n - 1) // 2)
        count = len(view.pair_positions()[0])
        return Scored(stream(seed, "attack", "random").random(count), access="none")
