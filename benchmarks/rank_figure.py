"""A critical-difference figure: average ranks on a line, and which methods Nemenyi's test cannot tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import studentized_range

__all__ = ["critical_difference", "draw", "groups"]

LEFT, WIDE, TOP, STEP = 40, 520, 74, 22


def critical_difference(methods: int, blocks: int, level: float) -> float:
    """Average ranks further apart than this differ (Demsar, JMLR 2006): q sqrt(k (k + 1) / (6 N))."""
    quantile = studentized_range.ppf(1 - level, methods, np.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(methods * (methods + 1) / (6 * blocks)))


def groups(mean: NDArray[np.float64], apart: float) -> list[tuple[int, int]]:
    """Longest stretches (first, last) of sorted average ranks that span no more than the critical difference."""
    order, found = np.sort(mean), []
    for first in range(len(order)):
        last = int(np.searchsorted(order, order[first] + apart, side="right")) - 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def draw(methods: Sequence[str], mean: NDArray[np.float64], apart: float, ours: Sequence[str]) -> str:
    """The figure as SVG; smaller is better."""
    k, order = len(methods), np.argsort(mean)
    bars = groups(mean, apart)
    height = TOP + STEP * k + 12 * len(bars) + 8

    def at(rank: float) -> float:
        return LEFT + WIDE * (rank - 1) / (k - 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" font-family="sans-serif" font-size="13">',
        "<title>Average ranks of the defences with the critical difference</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<path d="M{at(1):.0f} 30H{at(1 + apart):.0f}" stroke="black" stroke-width="3"/>',
        f'<text x="{at(1):.0f}" y="20">critical difference {apart:.2f}</text>',
        f'<path d="M{at(1):.0f} 50H{at(k):.0f}" stroke="black"/>',
        *(f'<text x="{at(r) - 4:.0f}" y="46">{r}</text>' for r in range(1, k + 1)),
    ]
    for place, i in enumerate(order):
        y, x = TOP + STEP * place, at(mean[i])
        colour = "#0b6e4f" if methods[i] in ours else "#444"
        parts.append(f'<path d="M{x:.1f} 50V{y - 4}" stroke="{colour}"/>')
        parts.append(f'<text x="{x + 4:.1f}" y="{y}" fill="{colour}">{methods[i]} {mean[i]:.2f}</text>')
    for number, (first, last) in enumerate(bars):
        y = TOP + STEP * k + 12 * number
        low, high = at(mean[order[first]]) - 3, at(mean[order[last]]) + 3
        parts.append(f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="#888" stroke-width="4"/>')
    return "\n".join([*parts, "</svg>\n"])
