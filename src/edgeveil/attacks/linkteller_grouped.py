"""LinkTeller from few queries: perturb many nodes at once with random signs and untangle who moved whom.

To first order the answer to a joint perturbation is the signed sum of the single ones, and a node hears few others
loudly. So a fraction of n queries determines every node's loud influencers by group orthogonal matching pursuit. Where
answers are exact, a node that did not move at all excludes everyone perturbed in that query (hidden-graph learning by
additive queries; no published link-stealing attack that does this is known to us).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.attacks.linkteller import check_variant, query_influence, score_influence
from edgeveil.attacks.posterior.laws import describes
from edgeveil.attacks.probing import Probe
from edgeveil.attacks.recovery import Recovered, group_omp
from edgeveil.errors import InputError
from edgeveil.release.target import AttackerView, Target
from edgeveil.seeds import stream

__all__ = ["LinkTellerGrouped"]

Array = NDArray[Any]
LEAST = 20
NOISE = 0.1  # of the worst case; answers whose true value is far from a rounding edge show none
MUTE = (
    "{:.0%} of the nodes' answers end at a rounding stop (all probability in one class) and hardly respond; sums of "
    "many perturbations lose more there than single ones, so trust the full linkteller attack instead"
)


@ATTACKS.register("linkteller-grouped")
@dataclass(frozen=True, kw_only=True)
class LinkTellerGrouped(Attack):
    """At most `queries` questions besides the unperturbed one (default: a fifth of the nodes).

    `share`: which part of the nodes one question perturbs. `first`: which part of the budget the first round may
    spend; the second perturbs only nodes that some unexplained answer may still depend on, and is skipped when
    nothing is unexplained. With a budget of at least one question per node this is plain LinkTeller.
    """

    queries: int | None = None
    delta: float | None = None
    """Relative step; none suits the answers' resolution."""
    variant: str = "correct"
    """``correct`` adds a pair's two directions; ``published`` takes one."""
    share: float = 0.5
    first: float = 0.7
    repeats: int = 1
    """More than 1 averages the answers of a randomised model."""

    reference: ClassVar[str] = "group-testing form of Wu et al., LinkTeller, IEEE S&P 2022"
    strength: ClassVar[int] = 2
    assumes: ClassVar[str] = "alters many nodes' features at a time and sees graded answers"
    needs: ClassVar[frozenset[str]] = frozenset({"answers", "graded answers", "features"})
    watches: ClassVar[bool] = True
    saves_queries: ClassVar[bool] = True

    def idle(self, target: Target) -> str:
        """What it estimates, `linkteller` reads off a model at hand; undefended, the questions tell something."""
        if target.influence is None or describes(target.mechanism) == "none":
            return ""
        return "linkteller reads the exact influence, and behind a defence the number of questions says no more"

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Two rounds of signed groups, then pair scores as in LinkTeller."""
        self._check_parameters()
        count = len(view.nodes)
        budget = max(LEAST, math.ceil(count / 5)) if self.queries is None else self.queries // self.repeats
        probe = Probe(target, view, self.delta, self.repeats)
        facts = {"delta": probe.delta, "resolution": probe.resolution.step, "budget": budget}
        if budget >= count:
            matrix = query_influence(probe, view, np.arange(count))
            return score_influence(matrix, view, self.variant, "black-box", facts)
        rounds = _Rounds(probe, count, self.share, stream(seed, "attack", "grouped"))
        spent = max(1, round(self.first * budget))
        rounds.ask(spent, np.ones(count, dtype=bool))
        recovered = rounds.recover()
        undecided = rounds.undecided(recovered.explained)
        if undecided.any() and budget > spent:
            rounds.ask(budget - spent, undecided)
            recovered = rounds.recover()
        facts["explained"] = float(recovered.explained.mean())
        scored = score_influence(sp.csr_matrix(recovered.norms.T), view, self.variant, "black-box", facts)
        notes = (MUTE.format(probe.mute),) if probe.mute > 0.25 else ()
        return replace(scored, notes=(*scored.notes, *notes))

    def _check_parameters(self) -> None:
        check_variant(self.variant)
        if self.queries is not None and self.queries < max(1, self.repeats):
            raise InputError(f"queries must be at least 1 (and at least repeats), got {self.queries!r}")
        for name in ("share", "first"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{name} must lie in (0, 1], got {getattr(self, name)!r}")


class _Rounds:
    """The questions asked so far: who was perturbed with which sign, and how everyone answered."""

    def __init__(self, probe: Probe, count: int, share: float, rng: np.random.Generator) -> None:
        self._probe, self._count, self._share, self._rng = probe, count, share, rng
        self._design: list[Array] = []
        self._answers: list[Array] = []
        self._heard: list[Array] = []
        self._open = np.ones((count, count), dtype=bool)

    def ask(self, questions: int, senders: Array) -> None:
        """Perturb random signed groups of the given senders."""
        exact = self._probe.resolution.exact and not self._probe.randomised
        for _ in range(questions):
            signs = self._rng.choice([-1.0, 1.0], self._count)
            signs *= senders & (self._rng.random(self._count) < self._share)
            moved = np.flatnonzero(signs)
            if not len(moved):
                moved = self._rng.choice(np.flatnonzero(senders), 1)
                signs[moved] = 1.0
            answer = self._probe.respond(moved, signs[moved])
            self._design.append(signs)
            self._answers.append(answer)
            self._heard.append(self._probe.heard)
            if exact:
                still = ~answer.any(axis=1)
                self._open[np.ix_(still, moved)] = False

    def recover(self) -> Recovered:
        """Influence norms [receivers, senders] from everything asked so far."""
        answers, design = np.stack(self._answers, axis=1), np.stack(self._design)
        limit = max(1, min(len(design) // 2, self._count))
        return group_omp(answers, design, self._open, NOISE * self._probe.floor, limit, np.stack(self._heard, axis=1))

    def undecided(self, explained: Array) -> Array:
        """Senders that some receiver with an unexplained answer may still depend on."""
        if not self._probe.resolution.exact:
            return np.ones(self._count, dtype=bool)
        return np.asarray(self._open[~explained].any(axis=0), dtype=bool)
