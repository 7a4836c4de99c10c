"""Reading the graph that a release keeps: what anyone who holds the release sees, and the ceiling of black boxes.

For a release without a defence that is the private graph. A mechanism that publishes a noisy graph (EdgeRand, LapGraph,
GraphPrivatizer, randomised response) keeps that one; its entries are scored by their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.release.target import AttackerView, Target

__all__ = ["StoredGraph"]


@ATTACKS.register("stored-graph")
@dataclass(frozen=True, kw_only=True)
class StoredGraph(Attack):
    """A pair's weight in the release over the largest one, half of it if one direction alone is stored, else 0."""

    reference: ClassVar[str] = "this package; the white-box ceiling of attacks on a published noisy graph"
    strength: ClassVar[int] = 3
    assumes: ClassVar[str] = "holds the release and reads the graph it keeps"
    needs: ClassVar[frozenset[str]] = frozenset({"stored graph"})

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Look pairs up in the stored graph; nothing is asked."""
        assert target.stored_graph is not None
        kept = sp.csr_matrix(target.stored_graph(), dtype=np.float64)
        kept.data = kept.data / max(abs(kept.data).max(initial=0.0), 1e-300)
        upper = sp.triu((kept + kept.T) / 2, 1).tocsr()
        mine = np.zeros(upper.shape[0], dtype=bool)
        mine[view.nodes] = True
        listed = upper.tocoo()
        keep = mine[listed.row] & mine[listed.col]
        pairs = np.stack([listed.row[keep], listed.col[keep]]).astype(np.int64)
        order = np.lexsort((pairs[1], pairs[0]))
        pairs, scores = pairs[:, order], listed.data[keep][order]
        if view.whole_graph:
            count = len(view.nodes)
            unlisted = count * (count - 1) // 2 - pairs.shape[1]
            return Scored(scores, pairs, access="white-box", unlisted=unlisted, found=pairs)
        i, j = view.pair_positions()
        u, v = np.sort(np.stack([view.nodes[i], view.nodes[j]]), axis=0)
        return Scored(np.asarray(upper[u, v], np.float64).ravel(), access="white-box", found=pairs)
