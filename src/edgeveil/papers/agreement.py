"""When do two measurements of one thing agree? The rule of every fidelity table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LEAST", "Comparison", "compare", "compare_summary", "share"]

LEAST = {"fraction": 0.02, "auc100": 2.0, "pct": 3.0}


@dataclass(frozen=True)
class Comparison:
    """Ours against theirs, in the printed unit. `agrees` is None where the unit (seconds) or a lack of runs forbids it.

    `z` is the difference in pooled standard deviations, None when neither side shows any spread.
    """

    ours: float
    ours_std: float
    runs: int
    theirs: float
    theirs_std: float | None
    difference: float
    pooled: float
    tolerance: float
    z: float | None
    agrees: bool | None


def compare(samples: Sequence[float], mean: float, std: float | None, unit: str) -> Comparison:
    """Agreement: the means differ by at most two pooled standard deviations, or by 0.02 (3 percentage points).

    The pooled deviation is the root mean square of the two, population form as in the papers; a figure printed without
    spread counts with ours alone. AUC printed as a percentage uses 2 points.
    """
    known = [float(s) for s in samples if not math.isnan(s)]
    if not known:
        nan = math.nan
        return Comparison(nan, nan, 0, mean, std, nan, nan, nan, None, None)
    ours = math.fsum(known) / len(known)
    spread = math.sqrt(math.fsum((s - ours) ** 2 for s in known) / len(known))
    return compare_summary(ours, spread, len(known), mean, std, unit)


def compare_summary(
    ours: float, spread: float, runs: int, mean: float, std: float | None, unit: str, slack: float = 1e-9
) -> Comparison:
    """The same rule where only the mean and the population deviation of `runs` samples are left, rounded by `slack`."""
    pooled = spread if std is None else math.sqrt((spread**2 + std**2) / 2)
    difference = ours - mean
    tolerance = max(2 * pooled, LEAST.get(unit, math.nan))
    agrees = abs(difference) <= tolerance + slack if unit in LEAST else None
    z = difference / pooled if pooled > 0 else None
    return Comparison(ours, spread, runs, mean, std, difference, pooled, tolerance, z, agrees)


def share(verdicts: Sequence[bool | None]) -> tuple[int, int]:
    """(agreeing, judged): cells without a verdict are not counted."""
    judged = [v for v in verdicts if v is not None]
    return sum(judged), len(judged)
