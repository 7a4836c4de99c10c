"""Spending epsilon: exact rational bookkeeping with sequential and parallel composition.

Charges on the same edges add up (sequential composition). Charges on edge sets that are disjoint by construction,
such as a training graph and a different inference graph, do not: the total is the largest sum over any one edge set
(parallel composition, LinkTeller Lemma 1).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from edgeveil.errors import BudgetExceeded, InputError
from edgeveil.values import is_number

__all__ = ["Budget", "Charge", "check_epsilon", "directed_to_undirected", "exact", "undirected_to_directed"]


class Charge(NamedTuple):
    """One query on private edges and what it cost."""

    what: str
    epsilon: Fraction
    on: str = "graph"


def check_epsilon(epsilon: float | Fraction | None, *, infinite: bool = False) -> float:
    """A positive, finite epsilon as float; `infinite=True` also admits inf (no noise, no guarantee)."""
    if epsilon is None:
        raise InputError("this defence needs an epsilon > 0 (for example epsilon=4.0)")
    if not is_number(epsilon):
        raise InputError(f"epsilon must be a number > 0, got {epsilon!r}")
    value = float(epsilon)
    if math.isnan(value) or value <= 0 or (math.isinf(value) and not infinite):
        raise InputError(f"epsilon must be a finite number > 0, got {epsilon!r}; try a value between 0.1 and 10")
    return value


def exact(epsilon: float | Fraction | int) -> Fraction:
    """The decimal a person typed, as a rational: 0.1 becomes 1/10, not the nearest binary fraction."""
    return epsilon if isinstance(epsilon, Fraction) else Fraction(str(epsilon))


def directed_to_undirected(epsilon: float) -> float:
    """Cost of one undirected edge under a mechanism stated per directed entry: the edge fills two entries."""
    return 2 * epsilon


def undirected_to_directed(epsilon: float) -> float:
    """Per-entry epsilon that costs `epsilon` for one undirected edge."""
    return epsilon / 2


class Budget:
    """A cap on epsilon and the charges made against it.

    ``Budget(math.inf)`` has no cap: it is for runs without noise, whose charges would be infinite, so it records none.
    Edge sets named by `on` must be disjoint by construction; calling one graph by two names halves its bill and is
    the caller's lie.
    """

    def __init__(self, epsilon: float | Fraction) -> None:
        check_epsilon(epsilon, infinite=True)
        self._cap = None if isinstance(epsilon, float) and math.isinf(epsilon) else exact(epsilon)
        self._charges: list[Charge] = []

    @property
    def unlimited(self) -> bool:
        """True when there is no cap, and so no promise."""
        return self._cap is None

    @property
    def cap(self) -> Fraction:
        """The epsilon that may be spent on any one edge."""
        if self._cap is None:
            raise InputError("a budget with infinite epsilon has no cap; give a finite epsilon where one is needed")
        return self._cap

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge so far, in order."""
        return tuple(self._charges)

    def spent_on(self, on: str) -> Fraction:
        """Sum of the charges on one edge set."""
        return sum((c.epsilon for c in self._charges if c.on == on), Fraction(0))

    @property
    def spent(self) -> Fraction:
        """Total cost for any one edge: the largest sum over the disjoint edge sets."""
        return max((self.spent_on(on) for on in {c.on for c in self._charges}), default=Fraction(0))

    @property
    def remaining(self) -> Fraction:
        """What may still be spent on an edge set that has paid the most so far."""
        return self.cap - self.spent

    def spend(self, epsilon: float | Fraction, what: str, on: str = "graph") -> Fraction:
        """Charge a query before it runs; raises `BudgetExceeded` and charges nothing when the cap would break."""
        if self._cap is None:
            return Fraction(0)
        check_epsilon(epsilon)
        amount, spent = exact(epsilon), self.spent_on(on)
        if spent + amount > self._cap:
            raise BudgetExceeded(self._cap, spent, amount, what)
        self._charges.append(Charge(what, amount, on))
        return amount

    def share(self, *weights: int | Fraction) -> tuple[Fraction, ...]:
        """The cap cut in exact proportion; the parts sum to the cap to the last digit."""
        total = sum(Fraction(w) for w in weights)
        if not weights or any(w <= 0 for w in weights):
            raise InputError(f"budget shares must be positive, got {weights}")
        return tuple(self.cap * Fraction(w) / total for w in weights)

    def __repr__(self) -> str:
        cap = "no cap" if self._cap is None else f"{float(self.spent):g} of {float(self._cap):g} spent"
        return f"Budget({cap}, {len(self._charges)} charges)"
