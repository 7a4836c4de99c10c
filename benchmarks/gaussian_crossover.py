"""From how many composed degree-vector queries on is Gaussian noise smaller than Laplace noise?

Run: python benchmarks/gaussian_crossover.py [--delta 1e-6] [--write]. Nothing is drawn: both scales follow from epsilon,
delta and the number of queries. `--write` puts the table into docs/theory.md.
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from itertools import count
from pathlib import Path

import numpy as np

from edgeveil.defences.lpgnet.degree_vectors import noise_scale
from edgeveil.graph.cluster_degrees import CELLS
from edgeveil.privacy.budget import Budget

PAGE = Path(__file__).parents[1] / "docs" / "theory.md"
START, END = "<!-- crossover -->\n\n", "\n<!-- end of crossover -->\n"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
QUERIES = (1, 2, 3, 4, 6, 8, 12, 24)


def laplace_spread(epsilon: float, queries: int) -> float:
    """Standard deviation of the discrete Laplace noise on a count when so many queries share epsilon."""
    q = math.exp(-1 / noise_scale(Budget(epsilon).cap / queries))
    return math.sqrt(2 * q) / (1 - q)


def gaussian_spread(epsilon: float, queries: int, delta: float, accountant: str = "gaussian") -> float:
    """Standard deviation of the discrete Gaussian noise with which so many queries fit."""
    scale: Fraction = Budget(epsilon, delta=delta, accountant=accountant).gaussian_scale(queries, cells=CELLS)
    reach = math.ceil(12 * scale)
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-((values / float(scale)) ** 2) / 2)
    return math.sqrt(float(values**2 @ weights / weights.sum()))


def crossover(epsilon: float, delta: float, accountant: str = "gaussian") -> int:
    """The smallest number of queries at which Gaussian noise is the smaller one."""
    return next(k for k in count(1) if gaussian_spread(epsilon, k, delta, accountant) < laplace_spread(epsilon, k))


def table(delta: float = 1e-6) -> str:
    """Markdown: standard deviation of Gaussian over that of Laplace noise, and where it falls below 1."""
    head = "| ε | " + " | ".join(map(str, QUERIES)) + " | smaller from (`gaussian`) | from (`zcdp`) |"
    lines = [head, "|" + "---|" * (len(QUERIES) + 3)]
    for epsilon in EPSILONS:
        ratios = [gaussian_spread(epsilon, k, delta) / laplace_spread(epsilon, k) for k in QUERIES]
        ends = [crossover(epsilon, delta, name) for name in ("gaussian", "zcdp")]
        lines.append("| " + " | ".join([f"{epsilon:g}", *(f"{r:.2f}" for r in ratios), *map(str, ends)]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    found = table(chosen.delta)
    print(found, end="")
    if chosen.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(START)
        after = rest.split(END)[1]
        PAGE.write_text(f"{before}{START}{found}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
