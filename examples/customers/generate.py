"""A customer graph as an owner might have it: 2,000 customers, payments between them, columns of mixed scales.

    python examples/customers/generate.py customers
    edgeveil inspect --edges customers/payments.csv --features customers/customers.csv --labels customers/segments.csv
    edgeveil audit --edges customers/payments.csv --features customers/customers.csv --labels customers/segments.csv

The segment is told by a small column (visits) that a row sum over income would drown.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path

import numpy as np

CUSTOMERS, PAYMENTS = 2_000, 6_000
REGIONS = ("north", "east", "south", "west")


def main(folder: Path, seed: int = 0) -> None:
    """Write payments.csv, customers.csv and segments.csv."""
    rng = np.random.default_rng(seed)
    ids = [f"CUST-{i:05d}" for i in range(CUSTOMERS)]
    keen = rng.random(CUSTOMERS) < 0.3
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "customers.csv", ["customer", "income", "age", "visits", "region", "vip", "since"],
           _customers(rng, ids, keen))  # fmt: skip
    _write(folder / "segments.csv", ["customer", "segment"], zip(ids, np.where(keen, "keen", "calm"), strict=True))
    _write(folder / "payments.csv", ["payment_id", "sender", "receiver", "amount"], _payments(rng, ids, keen))


def _customers(rng: np.random.Generator, ids: list[str], keen: np.ndarray) -> Iterable[list[object]]:
    income, age = rng.lognormal(10.5, 0.6, CUSTOMERS), rng.integers(18, 90, CUSTOMERS)
    visits = 0.2 + 0.6 * keen + 0.17 * rng.normal(size=CUSTOMERS)
    for i, customer in enumerate(ids):
        known = "" if rng.random() < 0.05 else f"{income[i]:.2f}"
        since = date(2015, 1, 1) + timedelta(days=int(rng.integers(0, 3000)))
        vip = "yes" if rng.random() < 0.1 else "no"
        yield [customer, known, age[i], f"{visits[i]:.4f}", REGIONS[rng.integers(4)], vip, since.isoformat()]


def _payments(rng: np.random.Generator, ids: list[str], keen: np.ndarray) -> Iterable[list[object]]:
    """Four in five payments stay inside a segment."""
    groups = [np.flatnonzero(~keen), np.flatnonzero(keen)]
    for number in range(PAYMENTS):
        sender = int(rng.integers(CUSTOMERS))
        inside = rng.random() < 0.8
        receiver = int(rng.choice(groups[int(keen[sender]) if inside else int(not keen[sender])]))
        if receiver != sender:
            yield [f"P{number}", ids[sender], ids[receiver], f"{rng.lognormal(4, 1):.2f}"]


def _write(path: Path, names: list[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "customers"))
