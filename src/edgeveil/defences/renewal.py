"""How a method answers for a new or changed private graph with a model it has trained: its own declaration.

A method that can do so returns a `Renewal` from `Defence.renewal`; it alone knows which fresh statistics it asks for,
whose budgets they spend and how they compose with what the release has spent before. A method that declares nothing is
refused before anything is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Protocol

from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import Budget, Charge, exact
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee
from edgeveil.release.predictors import GraphPredictor, Predictor
from edgeveil.seeds import derive

if TYPE_CHECKING:
    from edgeveil.release.release import Release

__all__ = ["SNAPSHOT", "Renewal", "Renewed", "Snapshot", "composed", "perturb_again"]

SNAPSHOT = "snapshot"
SUM_NOTE = "An edge that stands in further snapshots pays for each of them; a server's ledger adds them up"


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The release, the graph it shall answer for, and that graph's features in model space.

    `fresh` tells features that came with the graph from those the release has stored, which are paid for.
    """

    release: Release
    graph: Graph
    x: FeatureMatrix
    fresh: bool
    seed: int | None

    def noise_seed(self, *path: str | int) -> int | None:
        """Seed of one named noise stream; None for operating-system entropy."""
        return None if self.seed is None else derive(self.seed, "renew", *path)


class Renewed(NamedTuple):
    """What answers from now on, the features stored with it, and what old and new spending promise together."""

    predictor: Predictor
    matrix: FeatureMatrix
    guarantee: Guarantee


def _no_check(snapshot: Snapshot) -> None:
    return None


@dataclass(frozen=True)
class Renewal:
    """A method's proven way to answer for another graph.

    epsilon: what that costs, in the unit of the method's guarantee. answer: asks the graph and states the sum. check:
    refuses features that `answer` could not take; it runs before anything is charged and must not look at an edge.
    """

    epsilon: Fraction
    answer: Callable[[Snapshot], Renewed]
    check: Callable[[Snapshot], None] = _no_check


def composed(old: Guarantee, budget: Budget, seed: int | None) -> Guarantee:
    """Sequential composition of what the weights cost and of a budget for the snapshot: epsilons and deltas add."""
    assert old.claimed_epsilon is not None
    spent, delta = budget.cap, old.delta + budget.delta
    both = f" (delta {old.delta:g} and {budget.delta:g})" if delta else ""
    return replace(
        old,
        claimed_epsilon=float(exact(old.claimed_epsilon) + spent),
        delta=delta if delta in (old.delta, budget.delta) else math.nextafter(delta, 1.0),
        accountant=budget.accountant if budget.delta else old.accountant,
        charges=(*old.charges, *budget.charges),
        composition=f"sequential: {float(spent):g} for the snapshot, asked once, and {old.claimed_epsilon:g}{both} "
        "for the weights, paid by edges that were in the earlier graph too; every answer is post-processing",
        randomness=SECURE if seed is None and old.randomness == SECURE else SEEDED,
        notes=(*(n for n in old.notes if n != SUM_NOTE), SUM_NOTE),
    )


class _Perturbs(Protocol):
    def perturb(self, graph: Graph, seed: int | None = None) -> Graph: ...

    def mechanism_guarantee(self, seed: int | None = None) -> Guarantee: ...


def perturb_again(mechanism: _Perturbs) -> Renewal:
    """For mechanisms that read edges only to perturb them: the new graph is perturbed once, features stay public."""
    claim = mechanism.mechanism_guarantee(None)
    assert claim.claimed_epsilon is not None
    cost = exact(claim.claimed_epsilon)

    def answer(snapshot: Snapshot) -> Renewed:
        budget = Budget(cost, delta=claim.delta or None, accountant=claim.accountant)
        for charge in claim.charges or (Charge(f"{type(mechanism).__name__} perturbation", cost),):
            budget.enter(charge._replace(on=SNAPSHOT))
        noisy = mechanism.perturb(snapshot.graph, seed=snapshot.noise_seed())
        old = snapshot.release.predictor
        assert isinstance(old, GraphPredictor)
        guarantee = composed(snapshot.release.guarantee, budget, snapshot.seed)
        return Renewed(GraphPredictor(old.spec, old.model, noisy.adjacency), snapshot.x, guarantee)

    return Renewal(cost, answer)
