"""Lower bounds on epsilon from counts: what an experiment proves about a mechanism, at a stated confidence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, ndtri

from edgeveil.errors import InputError

__all__ = [
    "GuessBound",
    "RatioBound",
    "clopper_pearson",
    "event_bound",
    "guess_bound",
    "likelihood_bound",
    "mean_bound",
    "one_run_bound",
    "one_run_p_value",
    "shift_bound",
    "views_bound",
]

_DARING = 0.95  # share of all money that is staked at most
Int = NDArray[np.int64]
Views = Mapping[str, Sequence[Hashable]]
"""Ways of looking at the same outputs: each names one code per output."""


def clopper_pearson(hits: int, trials: int, miss: float) -> tuple[float, float]:
    """Lower and upper confidence limit of a success rate; each is wrong with probability at most `miss`."""
    if not 0 <= hits <= trials:
        raise InputError(f"{hits} hits in {trials} trials is impossible")
    low = float(betaincinv(hits, trials - hits + 1, miss)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - miss)) if hits < trials else 1.0
    return low, high


def event_bound(hits: int, hits_other: int, trials: int, miss: float, delta: float = 0.0) -> float:
    """Epsilon that P(S) <= e^eps P'(S) + delta needs at least, for an event S seen `hits` and `hits_other` times.

    Wrong (above the true epsilon) with probability at most `miss`.
    """
    low, _ = clopper_pearson(hits, trials, miss / 2)
    _, high = clopper_pearson(hits_other, trials, miss / 2)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


class RatioBound(NamedTuple):
    """A lower bound from outputs on two neighbouring inputs, and the counts behind it."""

    lower_bound: float
    ceiling: float
    view: str
    hits: int
    hits_other: int
    trials: int


def views_bound(first: Views, second: Views, miss: float, delta: float = 0.0, *, gaussian: bool = False) -> RatioBound:
    """Lower bound on epsilon from independent outputs on two neighbouring inputs, seen in several ways.

    With `gaussian` the bound is one on the shift mu of Gaussian noise instead: P(S) <= Phi(Phi^-1(P'(S)) + mu).

    The first half of the outputs chooses the view, the favoured input and the event (a set of codes): a quarter puts
    the codes in order, a quarter says where to cut. The second half tests that one event, so the search costs no
    confidence. The ceiling is the bound of an event that always occurs on
    one input and never on the other.
    """
    half = min(min(map(len, views.values())) for views in (first, second)) // 2
    best: tuple[float, str, bool, set[Hashable]] = (-math.inf, next(iter(first)), False, set())
    for view in first:
        parts = [(views[view][: half // 2], views[view][half // 2 : half]) for views in (first, second)]
        for swapped in (False, True):
            value, event = _best_event(parts[swapped], parts[not swapped], miss, delta, gaussian)
            if value > best[0]:
                best = (value, view, swapped, event)
    _, view, swapped, event = best
    mine, others = (second, first) if swapped else (first, second)
    hits, hits_other = (sum(code in event for code in views[view][half : 2 * half]) for views in (mine, others))
    bound, most = (
        shift_bound(*counts, half, miss) if gaussian else event_bound(*counts, half, miss, delta)
        for counts in ((hits, hits_other), (half, 0))
    )
    return RatioBound(bound, most, view, hits, hits_other, half)


def shift_bound(hits: int, hits_other: int, trials: int, miss: float) -> float:
    """Least mu with P(S) <= Phi(Phi^-1(P'(S)) + mu), for an event seen so often; Dong, Roth and Su 2022, Def. 2.6."""
    low, _ = clopper_pearson(hits, trials, miss / 2)
    _, high = clopper_pearson(hits_other, trials, miss / 2)
    return max(0.0, float(ndtri(low) - ndtri(high))) if low > 0 else 0.0


def mean_bound(scores: Sequence[float], miss: float) -> float:
    """Lower confidence limit of the mean of independent scores in [0, 1], wrong with probability at most `miss`.

    Whoever bets against "the mean is at most c" by stakes fixed before each score multiplies their money by 1/miss with
    probability at most `miss` if that is true (Ville; Waudby-Smith and Ramdas 2024). Stakes follow the spread seen so
    far and fall with c, so the money falls with c too, and one search finds the largest c that is refuted. Scores that
    scatter little are worth much, which Hoeffding's bound would not see.
    """
    seen = np.asarray(scores, np.float64)
    count = np.arange(1, len(seen) + 1)
    means = (0.5 + np.cumsum(seen)) / (count + 1)
    spread = (0.25 + np.cumsum((seen - means) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    stakes = np.sqrt(-2 * math.log(miss) / (before * len(seen)))

    def refuted(mean: float) -> bool:
        money = np.cumsum(np.log1p(np.minimum(stakes, _DARING / mean) * (seen - mean)))
        return bool(money.max() >= -math.log(miss))

    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def likelihood_bound(
    outputs: Sequence[Hashable], others: Sequence[Hashable], miss: float, delta: float = 0.0
) -> tuple[float, int, int]:
    """`views_bound` for a single view: the bound and its two hit counts."""
    found = views_bound({"": outputs}, {"": others}, miss, delta)
    return found.lower_bound, found.hits, found.hits_other


def _best_event(
    favoured: Sequence[Sequence[Hashable]],
    other: Sequence[Sequence[Hashable]],
    miss: float,
    delta: float,
    gaussian: bool,
) -> tuple[float, set[Hashable]]:
    """Codes in order of likelihood ratio on the first samples, cut where the ratio of limits on the second is best."""
    first, second = Counter(favoured[0]), Counter(other[0])
    ordered = sorted(first, key=lambda o: (-(first[o] + 1) / (second[o] + 1), -first[o]))
    if not ordered:
        return 0.0, set()
    again = [Counter(sample[1]) for sample in (favoured, other)]
    mine, theirs = (np.cumsum([counts[o] for o in ordered]) for counts in again)
    trials = len(favoured[1])
    low = np.where(mine > 0, betaincinv(np.maximum(mine, 1), trials - mine + 1, miss), 0.0)
    high = np.where(theirs < trials, betaincinv(theirs + 1, np.maximum(trials - theirs, 1), 1 - miss), 1.0)
    value = ndtri(np.maximum(low, 1e-300)) - ndtri(high) if gaussian else np.maximum(low - delta, 0) / high
    cut = int(np.argmax(value))
    return float(value[cut]), set(ordered[: cut + 1])


class GuessBound(NamedTuple):
    """A lower bound from guessed coins, and the counts behind it; `named` were guessed to be edges."""

    lower_bound: float
    ceiling: float
    view: str
    guesses: int
    right: int
    tested: int
    named: int
    named_right: int


def guess_bound(
    views: Mapping[str, Int],
    strata: Sequence[Int],
    coins: NDArray[np.bool_],
    miss: float,
    rng: np.random.Generator,
    delta: float = 0.0,
) -> GuessBound:
    """Lower bound on epsilon from one output in which every coin decided about one edge.

    `views` give each coin a code read off the output, `strata` public groups of coins. A random half of the coins,
    which are taken as known, chooses a view, a grouping and which codes are guessed how (a quarter puts codes in order,
    a quarter says where to cut); the other half is guessed and counted (`one_run_bound`). The ceiling is the bound
    for a right guess of every tested coin.
    """
    learnt, cut, tested = np.split(rng.permutation(len(coins)), [len(coins) // 4, len(coins) // 2])
    best: tuple[float, str, Any, Any] = (-1.0, "", None, None)
    for view, codes in views.items():
        for grouped in (np.zeros(len(coins), np.int64), *strata):
            joint = (codes - codes.min()) * (int(grouped.max()) + 1) + grouped
            cells = np.unique(joint, return_inverse=True)[1]
            rule = _guess_rule(cells, coins, learnt, cut, miss)
            if rule[0] > best[0]:
                best = (rule[0], view, cells, rule[1])
    _, view, cells, rule = best
    guesses = rule[cells[tested]]
    right = (guesses > 0) == coins[tested]
    made, said = guesses != 0, guesses > 0
    counts = int(made.sum()), int(right[made].sum())
    bound = one_run_bound(counts[1], counts[0], len(tested), miss, delta)
    ceiling = one_run_bound(len(tested), len(tested), len(tested), miss, delta)
    return GuessBound(bound, ceiling, view, *counts, len(tested), int(said.sum()), int(right[said].sum()))


def _guess_rule(
    cells: Int, coins: NDArray[np.bool_], learnt: Int, cut: Int, miss: float
) -> tuple[float, NDArray[np.int8]]:
    """Guess (+1, -1, 0) per cell and the limit it reaches: majorities in order of certainty, cut where that is best."""
    size = int(cells.max()) + 1
    inside, all_ = _counts(cells, coins, learnt, size)
    right = np.maximum(inside, all_ - inside)
    certain = np.where(right > 0, betaincinv(np.maximum(right, 1), all_ - right + 1, 0.1), 0.0)
    order = np.argsort(-certain, kind="stable")
    guess = np.where(2 * inside >= all_, 1, -1)
    inside, all_ = _counts(cells, coins, cut, size)
    hits = np.cumsum(np.where(guess > 0, inside, all_ - inside)[order])
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), np.cumsum(all_[order]) - hits + 1, miss), 0.0)
    last = int(np.argmax(low))
    out = np.zeros(size, np.int8)
    out[order[: last + 1]] = guess[order[: last + 1]]
    return float(low[last]), out


def _counts(cells: Int, coins: NDArray[np.bool_], part: Int, size: int) -> tuple[Int, Int]:
    """Per cell, of a part of the coins: how many fell true, and how many there are."""
    inside = np.bincount(cells[part][coins[part]], minlength=size)
    return inside, np.bincount(cells[part], minlength=size)


def one_run_p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """Chance of at least `right` correct of `guesses` if the mechanism were (epsilon, delta)-DP.

    Steinke, Nasr and Jagielski (2023): given the guesses, the number of correct ones is dominated by a binomial with
    success rate e^eps/(1+e^eps), plus a term for delta.
    """
    if right <= 0:
        return 1.0
    rate = 1 / (1 + math.exp(-epsilon))
    tail = float(betainc(right, guesses - right + 1, rate))
    if delta == 0:
        return tail
    steps = np.arange(1, right + 1)
    from_ = right - steps
    at_least = np.where(from_ > 0, betainc(np.maximum(from_, 1), guesses - from_ + 1, rate), 1.0)
    return min(1.0, tail + 2 * canaries * delta * float(np.max((at_least - tail) / steps)))


def one_run_bound(right: int, guesses: int, canaries: int, miss: float, delta: float = 0.0) -> float:
    """The largest epsilon that the experiment rejects; wrong with probability at most `miss`."""
    low, high = 0.0, 60.0
    if guesses == 0 or one_run_p_value(right, guesses, canaries, low, delta) > miss:
        return 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        rejected = one_run_p_value(right, guesses, canaries, middle, delta) <= miss
        low, high = (middle, high) if rejected else (low, middle)
    return low
