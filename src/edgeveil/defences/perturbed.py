"""The outcome of a local mechanism: a graph whose lists, features and labels have each been privatised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import freeze

__all__ = ["PerturbedGraph", "directed_csr"]


@final
@dataclass(frozen=True, eq=False, repr=False)
class PerturbedGraph(Graph):
    """The symmetrised, loop-free noisy graph, together with what local mechanisms really produce.

    `directed`: CSR whose row v lists whom v aggregates from; the models consume this one. `dropped`: counts of
    duplicates, self-loops and entries that were certain to stay. `features`: the noisy features in model space; `x`
    holds the same less the constant mid-point, so that it stays sparse. Graphs derived from it are plain ones.
    """

    directed: Any = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    features: FeatureMatrix | None = None

    @classmethod
    def of(
        cls,
        graph: Graph,
        directed: Any,
        dropped: Mapping[str, int],
        features: FeatureMatrix,
        y: NDArray[np.int64] | None,
    ) -> PerturbedGraph:
        """Symmetrise `directed` and put it in the place of the private edges, features and labels."""
        own = directed.tocoo()
        noisy = graph.with_edges(np.stack([own.row, own.col]).astype(np.int64))
        kept = {f.name: getattr(noisy, f.name) for f in fields(Graph)}
        kept["x"] = freeze(features.values) if features.values is not graph.x else graph.x
        kept["y"] = None if y is None else freeze(np.asarray(y))
        return cls(**kept, directed=freeze(directed), dropped=dict(dropped), features=features)

    def _replace(self, **changes: Any) -> Graph:
        return Graph(**{f.name: getattr(self, f.name) for f in fields(Graph)} | changes)


def directed_csr(row: NDArray[Any], column: NDArray[Any], n: int) -> tuple[Any, int]:
    """A 0/1 CSR matrix of the given places and how many of them were repeats."""
    keys = np.unique(row.astype(np.int64) * n + column)
    rows, columns = np.divmod(keys, max(n, 1))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    out = sp.csr_matrix((np.ones(len(keys), np.float32), columns, indptr), shape=(n, n))
    return out, len(row) - len(keys)
