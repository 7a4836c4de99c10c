from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from edgeveil.privacy.noise import noise_for
from edgeveil.privacy.probability import logistic
from edgeveil.privacy.skips import successes
from laws import fits


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("chunk", [3, 1000])
def test_the_same_law_as_one_coin_per_place(seed: int | None, chunk: int) -> None:
    p, trials, runs = logistic(Fraction(1)), 12, 4000
    noise = noise_for(seed)
    counts, places = [], []
    for _ in range(runs):
        pieces = list(successes(noise, p, trials, chunk))
        found = np.concatenate([*pieces, np.empty(0, np.int64)])
        assert (np.diff(found) > 0).all()
        assert all(len(piece) <= chunk for piece in pieces)
        counts.append(len(found))
        places.extend(found.tolist())
    rate = float(p)
    fits(counts, {k: comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(trials + 1)})
    fits(places, dict.fromkeys(range(trials), 1 / trials))


def test_no_places_no_successes() -> None:
    assert list(successes(noise_for(0), logistic(Fraction(1)), 0, 10)) == []
