"""Spending epsilon: bookkeeping with sequential and parallel composition, by a named accountant.

Charges on the same edges compose (sequential composition); how is the accountant's business, `pure` adds exact
fractions. Charges on edge sets that are disjoint by construction, such as a training graph and a different inference
graph, do not: the total is the largest cost of any one edge set (parallel composition, LinkTeller Lemma 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from edgeveil.errors import BudgetExceeded, InputError
from edgeveil.privacy.accountants import accountant as find_accountant
from edgeveil.privacy.charges import (
    DELTA,
    Charge,
    Gaussian,
    check_delta,
    check_epsilon,
    exact,
    exact_square,
    make_gaussian,
)

__all__ = [
    "DELTA",
    "Budget",
    "Charge",
    "Gaussian",
    "check_delta",
    "check_epsilon",
    "directed_to_undirected",
    "exact",
    "undirected_to_directed",
]


def directed_to_undirected(epsilon: float) -> float:
    """Cost of one undirected edge under a mechanism stated per directed entry: the edge fills two entries."""
    return 2 * epsilon


def undirected_to_directed(epsilon: float) -> float:
    """Per-entry epsilon that costs `epsilon` for one undirected edge."""
    return epsilon / 2


class Budget:
    """A cap on epsilon, at a delta, and the charges made against it.

    ``Budget(4.0)`` is pure: exact fractions, delta 0. ``Budget(4.0, accountant="zcdp")`` and the other accountants have
    a delta (10^-6 unless given; never derive it from the private graph) and take Gaussian noise:

    >>> budget = Budget(1.0, delta=1e-6, accountant="zcdp")
    >>> sigma = budget.gaussian_scale(queries=3, sensitivity=math.sqrt(2))
    >>> for layer in range(3):
    ...     _ = budget.spend_gaussian(sigma, f"layer {layer}", sensitivity=math.sqrt(2))

    ``Budget(math.inf)`` has no cap: it is for runs without noise, whose charges would be infinite, so it records none.
    Edge sets named by `on` must be disjoint by construction; calling one graph by two names halves its bill and is
    the caller's lie.
    """

    def __init__(self, epsilon: float | Fraction, *, delta: float | None = None, accountant: str = "pure") -> None:
        check_epsilon(epsilon, infinite=True)
        self._accountant = find_accountant(accountant)
        if accountant == "pure" and delta:
            raise InputError(
                f"the pure accountant has no delta, got {delta!r}; name another, such as accountant='zcdp'"
            )
        self._delta = 0.0 if accountant == "pure" else check_delta(DELTA if delta is None else delta)
        self._cap = None if isinstance(epsilon, float) and math.isinf(epsilon) else exact(epsilon)
        self._charges: list[Charge] = []

    @property
    def accountant(self) -> str:
        """Name of the accountant that adds up the charges."""
        return self._accountant.name

    @property
    def delta(self) -> float:
        """The delta at which epsilon is stated; 0 for the pure accountant."""
        return self._delta

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
        """Cost of the charges on one edge set."""
        return self._cost([c for c in self._charges if c.on == on])

    def _cost(self, charges: list[Charge]) -> Fraction:
        return _priced(self._accountant.name, tuple(c._replace(what="", on="") for c in charges), self._delta)

    @property
    def spent(self) -> Fraction:
        """Total cost for any one edge: the largest over the disjoint edge sets."""
        return max((self.spent_on(on) for on in {c.on for c in self._charges}), default=Fraction(0))

    @property
    def remaining(self) -> Fraction:
        """What is left of the cap on the edge set that has paid the most so far."""
        return self.cap - self.spent

    def spend(self, epsilon: float | Fraction, what: str, on: str = "graph") -> Fraction:
        """Charge a query before it runs; raises `BudgetExceeded` and charges nothing when the cap would break."""
        if self._cap is None:
            return Fraction(0)
        check_epsilon(epsilon)
        amount = exact(epsilon)
        self.enter(Charge(what, amount, on))
        return amount

    def spend_gaussian(
        self,
        scale: float | Fraction,
        what: str,
        on: str = "graph",
        *,
        sensitivity: float | Fraction | None = None,
        cells: int | None = None,
        law: str = "discrete",
    ) -> Fraction:
        """Charge a query with Gaussian noise of that scale before it runs; returns the scale for the sampler.

        State how far one edge moves the answer: `sensitivity` in L2, or `cells`, the number of counts that change by
        exactly 1 (their sensitivity is its root), which lets accountants be more precise. Discrete noise is for answers
        in whole numbers (of any grid; scale and sensitivity are in steps of it).
        """
        if self._cap is None:
            return Fraction(0)
        noise = make_gaussian(scale, _squared(sensitivity, cells), law=law, cells=cells)
        self.enter(Charge(what, None, on, noise))
        return noise.scale

    def enter(self, charge: Charge) -> None:
        """Make a charge that is stated already, by the rules of `spend`."""
        if self._cap is None:
            return
        before = [c for c in self._charges if c.on == charge.on]
        spent, total = self._cost(before), self._cost([*before, charge])
        if total > self.cap:
            raise BudgetExceeded(self.cap, spent, total - spent, charge.what)
        self._charges.append(charge)

    def gaussian_scale(
        self,
        queries: int = 1,
        *,
        sensitivity: float | Fraction | None = None,
        cells: int | None = None,
        law: str = "discrete",
        on: str = "graph",
    ) -> Fraction:
        """Smallest scale at which `queries` Gaussian queries still fit, beside what `on` has paid already.

        It has at most six digits, rounded upwards, and is 0 for a budget without a cap.
        """
        if self._cap is None:
            return Fraction(0)
        if queries < 1:
            raise InputError(f"a scale is for one query at least, got queries={queries!r}")
        squared = _squared(sensitivity, cells)
        before = [c for c in self._charges if c.on == on]
        if self._cost(before) >= self.cap:
            raise BudgetExceeded(self.cap, self._cost(before), Fraction(0), "a Gaussian query")

        def fits(scale: Fraction) -> bool:
            fresh = Charge("query", None, on, make_gaussian(scale, squared, law=law, cells=cells))
            return self._cost([*before, *[fresh] * queries]) <= self.cap

        return _smallest_scale(fits, Fraction(math.sqrt(squared * queries) / float(self.cap)))

    def share(self, *weights: int | Fraction) -> tuple[Fraction, ...]:
        """The cap cut in exact proportion; the parts sum to the cap to the last digit."""
        total = sum(Fraction(w) for w in weights)
        if not weights or any(w <= 0 for w in weights):
            raise InputError(f"budget shares must be positive, got {weights}")
        return tuple(self.cap * Fraction(w) / total for w in weights)

    def __repr__(self) -> str:
        cap = "no cap" if self._cap is None else f"{float(self.spent):g} of {float(self._cap):g} spent"
        how = f", {self.accountant} at delta {self._delta:g}" if self._delta else ""
        return f"Budget({cap}{how}, {len(self._charges)} charges)"


@lru_cache(maxsize=4096)
def _priced(accountant: str, charges: tuple[Charge, ...], delta: float) -> Fraction:
    """Cost of charges on one edge set; kept, as a curve takes milliseconds and audits ask for it by the thousand."""
    return find_accountant(accountant).epsilon(charges, delta) if charges else Fraction(0)


def _squared(sensitivity: float | Fraction | None, cells: int | None) -> Fraction:
    """Squared L2 sensitivity, from either way of stating it."""
    if (sensitivity is None) == (cells is None):
        raise InputError(
            "state how far one edge moves the answer: either sensitivity= (L2) or cells= (counts changed by 1)"
        )
    return Fraction(cells) if sensitivity is None and cells is not None else exact_square(sensitivity or 0)


def _smallest_scale(fits: Callable[[Fraction], bool], start: Fraction) -> Fraction:
    """The smallest scale that fits, to six digits, rounded up; whatever is returned has been tried."""
    low, high = Fraction(0), _up(start)
    while not fits(high):
        low, high = high, _up(2 * high)
        if high > 2**200:
            raise InputError("no scale of Gaussian noise meets this epsilon and delta; allow more of either")
    while _up((low + high) / 2) < high and (high - low) > high / 10**6:
        middle = _up((low + high) / 2)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _up(scale: Fraction) -> Fraction:
    """Rounded up to seven significant digits."""
    step = Fraction(10) ** (math.floor(math.log10(scale)) - 6)
    return math.ceil(scale / step) * step
