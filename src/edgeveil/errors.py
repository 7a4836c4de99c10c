"""Every error a user can meet, in one tree.

    EdgeveilError
    ├── InputError            a value the caller gave is wrong (also a ValueError)
    │   ├── GraphError        edges, features, labels or masks do not form a graph
    │   ├── UnknownNameError  no attack, defence, model or dataset of that name
    │   └── UsageError        the command line or a file of settings asks for nonsense
    ├── DatasetUnavailable    no source could give the dataset
    ├── BudgetExceeded        a spend that the privacy budget does not cover
    ├── LedgerUnavailable     the ledger cannot be reached or did not confirm
    ├── TooLarge              the result would not fit in memory
    ├── TrainingError         training cannot go on (NaN loss, nothing to learn from)
    ├── TargetError           a target answered nonsense or not at all
    ├── StorageError          a file is corrupt, of another version, or cannot be written
    └── MissingExtra          an optional dependency is absent (also an ImportError)

A message says what is wrong (with the value), why it matters, and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fractions import Fraction

__all__ = [
    "BudgetExceeded",
    "DatasetUnavailable",
    "EdgeveilError",
    "GraphError",
    "InputError",
    "LedgerUnavailable",
    "MissingExtra",
    "StorageError",
    "TargetError",
    "TooLarge",
    "TrainingError",
    "UnknownNameError",
    "UsageError",
]


class EdgeveilError(Exception):
    """Base of everything this package raises on purpose."""


class InputError(EdgeveilError, ValueError):
    """A value given by the caller is wrong."""


class GraphError(InputError):
    """Edges, features, labels or masks that do not form a valid graph."""


class UsageError(InputError):
    """A command line or a settings file that asks for something impossible."""


class UnknownNameError(InputError):
    """A name that no registry knows; the message lists the nearest ones and all choices."""

    def __init__(self, kind: str, name: str, choices: Iterable[str]) -> None:
        known = sorted(choices)
        near = get_close_matches(name, known, n=2, cutoff=0.5)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__(f"unknown {kind} {name!r}.{hint} Known: {', '.join(known)}.")
        self.kind, self.name, self.choices = kind, name, known


class DatasetUnavailable(EdgeveilError):
    """No source could provide a dataset; the message lists what was tried."""


class BudgetExceeded(EdgeveilError):
    """A spend that would break the privacy budget. Nothing was spent."""

    def __init__(self, cap: Fraction, spent: Fraction, asked: Fraction, what: str = "this query") -> None:
        short = spent + asked - cap
        super().__init__(
            f"budget exceeded: {what} asks for epsilon {float(asked):g}, but of the cap {float(cap):g} "
            f"{float(spent):g} is already spent, so it is short by {float(short):g}. "
            "Ask for less, or start a new release with its own, separately stated budget."
        )
        self.cap, self.spent, self.asked, self.short = cap, spent, asked, short


class LedgerUnavailable(EdgeveilError):
    """The ledger cannot be reached or did not confirm; nothing is answered (fail closed)."""


class TooLarge(EdgeveilError):
    """The output would not fit in memory; the message gives its size and what would fit."""


class TrainingError(EdgeveilError):
    """Training cannot continue; the message says at which epoch and why."""


class TargetError(EdgeveilError):
    """A queried model answered something that is not a prediction, or nothing."""


class StorageError(EdgeveilError):
    """A file that is corrupt, of an unknown version, or cannot be written."""


class MissingExtra(EdgeveilError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'edgeveil[{extra}]'")
        self.extra = extra
