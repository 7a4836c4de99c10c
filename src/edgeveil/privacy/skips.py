"""Independent coins over a huge range, visited only where they fall true."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from edgeveil.privacy.noise import Noise
from edgeveil.privacy.probability import Probability

__all__ = ["successes"]

Int = NDArray[np.int64]


def successes(noise: Noise, p: Probability, trials: int, chunk: int) -> Iterator[Int]:
    """Sorted places in range(trials) where a coin of bias p shows true, in pieces of at most `chunk`.

    The gaps between successes are independent geometric draws, so this is the same distribution as `trials` coins,
    for the price of the successes alone.
    """
    failure, rate = p.complement(), float(p)
    at = -1
    while at < trials - 1:
        expected = (trials - 1 - at) * rate
        size = min(chunk, int(expected + 4 * math.sqrt(expected)) + 16)
        gaps = noise.geometric(failure, size, trials)
        places = at + np.cumsum(gaps + 1)
        inside = int(np.searchsorted(places, trials))
        yield places[:inside]
        if inside < size:
            return
        at = int(places[-1])
