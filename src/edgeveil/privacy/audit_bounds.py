"""Lower bounds on epsilon from counts: what an experiment proves about a mechanism, at a stated confidence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from scipy.special import betainc, betaincinv

from edgeveil.errors import InputError

__all__ = ["clopper_pearson", "event_bound", "likelihood_bound", "one_run_bound", "one_run_p_value"]


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


def likelihood_bound(
    outputs: Sequence[Hashable], others: Sequence[Hashable], miss: float, delta: float = 0.0
) -> tuple[float, int, int]:
    """Lower bound from samples of a mechanism on two neighbouring inputs, and the two hit counts behind it.

    The first half of the samples chooses the event (a set of outputs that the first input favours), the second half
    tests that one event, so the search costs no confidence.
    """
    half = min(len(outputs), len(others)) // 2
    event = _best_event(Counter(outputs[:half]), Counter(others[:half]), half, miss, delta)
    hits, hits_other = (sum(o in event for o in sample[half : 2 * half]) for sample in (outputs, others))
    return event_bound(hits, hits_other, half, miss, delta), hits, hits_other


def _best_event(
    first: Counter[Hashable], second: Counter[Hashable], trials: int, miss: float, delta: float
) -> set[Hashable]:
    """Outputs in order of likelihood ratio, cut where the bound on these samples is best."""
    ordered = sorted(first, key=lambda o: (-(first[o] + 1) / (second[o] + 1), -first[o]))
    mine, theirs = np.cumsum([first[o] for o in ordered]), np.cumsum([second[o] for o in ordered])
    low = betaincinv(mine, trials - mine + 1, miss / 2)
    high = np.where(theirs < trials, betaincinv(theirs + 1, np.maximum(trials - theirs, 1), 1 - miss / 2), 1.0)
    cut = int(np.argmax(np.maximum(low - delta, 0) / high)) + 1
    return set(ordered[:cut])


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
