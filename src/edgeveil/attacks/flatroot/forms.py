"""What a network computes on flat features (every row equal): a power, or a mix of powers, of a matrix P of the graph.

On flat features every unit of a layer is in the same state at every node and attention is uniform, so answers are
linear in the rows: logits = P^k X W. Layers that also read the node itself (GraphSAGE, GraphConv, transformer, skips)
give sum_j P^j X W_j instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from edgeveil.errors import InputError, UnknownNameError

__all__ = ["NORMS", "Form", "form_of"]

NORMS = ("aug", "aug-rwalk", "bingge", "first-order", "mean", "sum")


@dataclass(frozen=True)
class Form:
    """P by its normalisation (LinkTeller App. F3; mean = D^-1 A, sum = A) and the number of layers.

    `own`: layers also read the node itself. `attends`: P depends on the features, but not on flat ones.
    """

    norm: str = "aug"
    layers: int = 2
    own: bool = False
    attends: bool = False

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise UnknownNameError("form of the propagation matrix", self.norm, NORMS)
        if self.layers < 1:
            raise InputError(f"layers must be at least 1, got {self.layers!r}")

    @property
    def loops(self) -> bool:
        """Whether P's neighbourhoods are closed (A + I)."""
        return self.norm in ("aug", "aug-rwalk", "bingge")

    @property
    def shift(self) -> int:
        """P = shift I + the normalised adjacency."""
        return 1 if self.norm in ("first-order", "bingge") else 0

    @property
    def symmetric(self) -> bool:
        """Whether P equals its transpose."""
        return self.norm in ("aug", "bingge", "first-order", "sum")

    @property
    def positive(self) -> bool:
        """Whether P is positive semi-definite for every graph, so that P^k determines P."""
        return self.norm in ("first-order", "bingge")

    @property
    def from_zero(self) -> bool:
        """Whether a node's degree would decide its units' states on flat features other than zero.

        With zero features the biases alone decide, alike everywhere.
        """
        return self.norm == "sum" or (self.own and self.symmetric)

    def matrix(self, adjacency: Any) -> sp.csr_matrix:
        """P of a symmetric 0/1 adjacency without loops."""
        n = adjacency.shape[0]
        a = sp.csr_matrix(adjacency, dtype=np.float64)
        if self.norm == "sum":
            return a
        a = (a + sp.identity(n, format="csr")).tocsr() if self.loops else a
        degree = np.asarray(a.sum(axis=1)).ravel()
        share = np.divide(1.0, degree, out=np.zeros(n), where=degree > 0)
        if self.norm in ("aug-rwalk", "mean"):
            return (sp.diags(share) @ a).tocsr()
        out = sp.diags(np.sqrt(share)) @ a @ sp.diags(np.sqrt(share))
        return (out + sp.identity(n)).tocsr() if self.shift else out.tocsr()

    def power(self, adjacency: Any) -> sp.csr_matrix:
        """P^k."""
        p = self.matrix(adjacency)
        out = p
        for _ in range(self.layers - 1):
            out = (out @ p).tocsr()
        return out


def form_of(facts: Mapping[str, Any] | None) -> Form | None:
    """The form that a model's public description implies; None where there is none (no edges, KProp, nothing said)."""
    norm = facts.get("propagation") if facts and not facts.get("kprop") else None
    if facts is None or norm not in NORMS:
        return None
    own = bool(facts.get("skip") or facts.get("reads_itself"))
    if norm in ("mean", "sum") and not own:
        return None  # P^k without any loop: edges and two-step walks cannot be told apart
    return Form(str(norm), int(facts["layers"]), own=own, attends=bool(facts.get("attends")))
