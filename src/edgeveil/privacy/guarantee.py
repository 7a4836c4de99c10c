"""What a release promises about one edge, in numbers for programs and in a paragraph for people."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from edgeveil.errors import InputError
from edgeveil.privacy.accountants import accountant
from edgeveil.privacy.charges import Charge

__all__ = ["DERIVED_FEATURES", "ONE_EDGE", "SECURE", "SEEDED", "Guarantee", "Status"]

Status = Literal["sound", "refuted", "none"]
ONE_EDGE = "one undirected edge"
SEEDED = "seeded: reproducible, not private"
SECURE = "operating-system entropy"
EDGE_NEIGHBOURS = "graphs on the same nodes, features and labels that differ in one undirected edge"
DERIVED_FEATURES = (
    "Node features and labels must not be computed from the edges: degree, PageRank or embeddings among them carry "
    "edges past the noise and void this claim."
)
NOT_PROTECTED = ("node features", "node labels", "the set of nodes", "the number of nodes")


@dataclass(frozen=True, kw_only=True, repr=False)
class Guarantee:
    """`epsilon` is a number only for a ``sound`` promise about one undirected edge, so that all of them compare.

    A claim that fails, or one in another `unit`, keeps its figure as `claimed_epsilon`.
    """

    status: Status
    claimed_epsilon: float | None = None
    delta: float = 0.0
    accountant: str = "pure"  # how the charges were added up; see edgeveil.privacy.accountants
    unit: str = ONE_EDGE
    neighbouring: str = EDGE_NEIGHBOURS
    not_protected: tuple[str, ...] = NOT_PROTECTED
    charges: tuple[Charge, ...] = ()
    composition: str = ""
    randomness: str = "no noise"
    reason: str = ""
    reference: str = ""
    also: tuple[Guarantee, ...] = ()  # promises in other units, e.g. epsilon of one node's features
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        epsilon = self.claimed_epsilon
        if self.status not in get_args(Status):
            raise InputError(f"status must be one of {', '.join(get_args(Status))}, got {self.status!r}")
        if self.status == "sound" and (epsilon is None or not math.isfinite(epsilon)):
            raise InputError(f"a sound guarantee must state a finite epsilon, got {epsilon}")
        if (epsilon is not None and not epsilon >= 0) or not 0 <= self.delta < 1:
            raise InputError(f"a guarantee needs epsilon >= 0 and 0 <= delta < 1, got {epsilon} and {self.delta}")
        accountant(self.accountant)
        if self.status == "refuted" and not self.reason:
            raise InputError("a refuted guarantee must say why: pass reason=")

    @property
    def epsilon(self) -> float | None:
        """The epsilon one may rely on for one undirected edge: None unless the guarantee is sound and in that unit."""
        return self.claimed_epsilon if self.status == "sound" and self.unit == ONE_EDGE else None

    def __repr__(self) -> str:
        claim = "" if self.claimed_epsilon is None else f", claimed epsilon {self.claimed_epsilon:g}"
        number = claim if self.epsilon is None else f", epsilon {self.epsilon:g}"
        number += f" at delta {self.delta:g}" if number and self.delta else ""
        return f"Guarantee({self.status}{number} for {self.unit}, {self.randomness})"

    def _repr_html_(self) -> str:
        return f"<p><b>{self.status}</b>: {html.escape(self.statement())}</p>"

    def statement(self) -> str:
        """One paragraph for people; every command and report prints it."""
        parts = [self._claim()]
        if self.charges:
            spent = "; ".join(f"{c.what} ({c.on}): {c.price}" for c in self.charges)
            parts.append(f"Epsilon was spent on: {spent}.")
            parts.append(f"Accounting ({self.accountant}): {accountant(self.accountant).words}.")
        if self.composition:
            parts.append(f"Composition: {self.composition}.")
        if self.status == "sound":
            parts.append(f"Not protected: {', '.join(self.not_protected)}.")
            parts += self._edges_in_words() if self.unit == ONE_EDGE else self._group_in_words()
            parts.append(f"Randomness: {self.randomness}.")
            if self.randomness == SEEDED:
                parts.append("Whoever knows or guesses the seed can undo the noise, so this run must not be published.")
        parts += [f"{note.rstrip('.')}." for note in self.notes]
        parts += [other.statement() for other in self.also]
        if self.reference:
            parts.append(f"Reference: {self.reference}.")
        return " ".join(parts)

    def _edges_in_words(self) -> list[str]:
        """What epsilon of one edge means for a person, and what would void it."""
        derived = DERIVED_FEATURES
        if not self.claimed_epsilon:
            return [derived]
        group = f"k times {self.claimed_epsilon:g}"
        if self.delta:
            group += f", and delta becomes k e^((k-1) {self.claimed_epsilon:g}) times {self.delta:g}"
        return [f"Group privacy: hiding all k edges of one person costs k times epsilon ({group}).", derived]

    def _group_in_words(self) -> list[str]:
        """The same for a promise in another unit, which says nothing of edges."""
        if not self.claimed_epsilon:
            return []
        return [f"Group privacy: k times {self.unit} cost k times epsilon (k times {self.claimed_epsilon:g})."]

    def _claim(self) -> str:
        reason = f" {self.reason.rstrip('.')}." if self.reason else ""
        if self.status == "none":
            return f"No privacy guarantee for {self.unit}.{reason}"
        if self.status == "refuted":
            claim = "" if self.claimed_epsilon is None else f" of epsilon {self.claimed_epsilon:g}"
            return f"No privacy guarantee for {self.unit}: the published claim{claim} is refuted.{reason}"
        if self.claimed_epsilon == 0:
            return f"Perfect privacy (epsilon 0) for {self.unit}.{reason}"
        dp = f"{self.claimed_epsilon:g}-differential privacy"
        if self.delta:
            dp = f"({self.claimed_epsilon:g}, {self.delta:g})-differential privacy"
            dp += f" (no event is more likely than e^epsilon times as likely on a neighbour, plus {self.delta:g})"
        return f"{dp} for {self.unit} (neighbouring inputs: {self.neighbouring}).{reason}"

    def to_json(self) -> dict[str, Any]:
        """Plain data for manifests and APIs; `from_json` reads it back."""
        data = asdict(self)
        data["charges"] = [c.to_json() for c in self.charges]
        data["also"] = [other.to_json() for other in self.also]
        return data | {"epsilon": self.epsilon, "statement": self.statement()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Guarantee:
        """Inverse of `to_json`; derived entries are ignored."""
        fields = {k: v for k, v in data.items() if k in cls.__dataclass_fields__}
        fields["charges"] = tuple(Charge.from_json(c) for c in data.get("charges", ()))
        fields["also"] = tuple(cls.from_json(other) for other in data.get("also", ()))
        for key in ("not_protected", "notes"):
            fields[key] = tuple(data.get(key, ()))
        return cls(**fields)
