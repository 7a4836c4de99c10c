"""What the owner keeps beside a release to measure its utility: labels and masks, and nothing else of the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Split

__all__ = ["Evaluation"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Labels (int64 [n], -1 = unlabelled, or uint8 [n, L]) and masks of the nodes a release answers for.

    Edges and features have no place here, so that a release never carries the private graph by the way.
    """

    y: NDArray[Any]
    masks: Split | None = None

    @classmethod
    def of(cls, graph: Graph) -> Evaluation | None:
        """The labels and the active masks of a graph; None for one without labels."""
        return None if graph.y is None else cls(graph.y, graph.masks)

    def select(self, name: str) -> NDArray[np.bool_]:
        """The mask ``train``, ``val``, ``test`` or ``all``; a graph without masks is all test."""
        everything = np.ones(len(self.y), dtype=bool)
        if name == "all":
            return everything
        if name not in ("train", "val", "test"):
            raise InputError(f"unknown mask {name!r}; use train, val, test, all or a boolean array")
        if self.masks is None:
            return everything if name == "test" else ~everything
        mask: NDArray[np.bool_] = getattr(self.masks, name)
        return mask
