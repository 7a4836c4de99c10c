"""Chi-square checks of laws. Each rejects a correct sampler with probability at most FALSE_ALARM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import chi2_contingency, chisquare, norm

FALSE_ALARM = 1e-6


def fits(sample: Any, mass: Mapping[int, float]) -> None:
    """Goodness of fit of integers to a mass function; the mass outside it is one more cell."""
    values = np.asarray(sample)
    keys = np.array(sorted(mass))
    observed = np.array([(values == k).sum() for k in keys] + [0.0])
    observed[-1] = len(values) - observed.sum()
    expected = len(values) * np.array([mass[k] for k in keys] + [max(0.0, 1 - sum(mass.values()))])
    assert not observed[expected == 0].any()
    seen, hoped = _pool(observed, expected)
    if len(seen) > 1:
        assert chisquare(seen, hoped * seen.sum() / hoped.sum()).pvalue > FALSE_ALARM


def same_law(first: Any, second: Any) -> None:
    """Two samples of integers come from one law."""
    a, b = np.asarray(first), np.asarray(second)
    keys = np.unique(np.concatenate([a, b]))
    counts = np.array([[(a == k).sum(), (b == k).sum()] for k in keys], dtype=float)
    rows = [_pool(column, counts.sum(axis=1) / 2)[0] for column in counts.T]
    if len(rows[0]) > 1:
        assert chi2_contingency(np.array(rows)).pvalue > FALSE_ALARM


def same_rates(first: Any, second: Any) -> None:
    """Columns of two 0/1 matrices have the same rates (all together at FALSE_ALARM)."""
    a, b = np.asarray(first, float), np.asarray(second, float)
    pooled = np.concatenate([a, b]).mean(axis=0)
    spread = np.sqrt(pooled * (1 - pooled) * (1 / len(a) + 1 / len(b))) + 1e-12
    z = np.abs(a.mean(axis=0) - b.mean(axis=0)) / spread
    assert z.max() < norm.isf(FALSE_ALARM / (2 * a.shape[1]))


def _pool(observed: np.ndarray, expected: np.ndarray, least: float = 30.0) -> tuple[np.ndarray, np.ndarray]:
    """Join cells, in order, until each expects at least `least` counts."""
    groups = np.zeros(len(expected), int)
    total, group = 0.0, 0
    for i, e in enumerate(expected):
        groups[i], total = group, total + e
        if total >= least:
            group, total = group + 1, 0.0
    groups = np.minimum(groups, max(group - 1, 0))
    return np.bincount(groups, observed), np.bincount(groups, expected)
