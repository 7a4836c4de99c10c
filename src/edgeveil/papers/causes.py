"""Why groups of figures lie outside the tolerance, as far as it is known: docs/fidelity.md explains each in words."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["OPEN", "cause_of"]

OPEN = "open"


@dataclass(frozen=True)
class _Cause:
    """Holds for the figures of a paper that have all of `words` among what identifies them."""

    paper: str
    words: frozenset[str]
    cause: str


def _cause(paper: str, words: str, cause: str) -> _Cause:
    return _Cause(paper, frozenset(words.split(", ")), cause)


CAUSES = (  # the first that fits counts
    _cause("linkteller", "VI", "three layers that hardly train"),
    _cause("linkteller", "VII", "three layers that hardly train"),
    _cause("linkteller", "low", "one draw of noise, few edges"),
    _cause("lpgnet", "cora, lpgnet-1", "unpublished settings"),
    _cause("lpgnet", "lapgraph, lpa", "two classes: rounding"),
    _cause("lpgnet", "lapgraph, low", "few seeds, few edges"),
    _cause("graphprivatizer", "amazon-photo", "label propagation K_y"),
    _cause("graphprivatizer", "facebook, auc", "saturated probabilities"),
    _cause("graphprivatizer", "cora, auc", "saturated probabilities (likely)"),
    _cause("graphprivatizer", "cora, delta auc", "saturated probabilities (likely)"),
)


def cause_of(paper: str, words: Collection[str]) -> str:
    """The known cause of a difference, or that it is open. `words`: tables and whatever identifies the figures."""
    known = set(words)
    return next((c.cause for c in CAUSES if c.paper == paper and c.words <= known), OPEN)
