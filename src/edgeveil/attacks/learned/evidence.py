"""All that other attacks say about a pair, as numbers that mean the same on any graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.attack import Attack
from edgeveil.attacks.counts import CountInference
from edgeveil.attacks.linkteller import LinkTeller
from edgeveil.attacks.lsa2 import DISTANCES, Lsa2, posteriors
from edgeveil.attacks.posterior import EdgePosterior
from edgeveil.attacks.stored_graph import StoredGraph
from edgeveil.release.target import AttackerView, Target

__all__ = ["Evidence", "ingredients"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]


def ingredients(target: Target, view: AttackerView) -> list[Attack]:
    """The attacks whose scores are weighed: every distance of answers and features, influences, what is stored.

    Influences are used where the model at hand gives them: asking for them would cost a question per node.
    """
    found: list[Attack] = [Lsa2(distance=d) for d in DISTANCES]
    if view.features is not None:
        found += [Lsa2(source="attr", distance=d) for d in ("cosine", "euclidean", "correlation")]
    if target.influence is not None:
        found.append(LinkTeller(mode="exact"))
    stored: tuple[Attack, ...] = (StoredGraph(), EdgePosterior(), CountInference())
    found += [a for a in stored if not a.lacks(target) and not a.idle(target)]
    return found


class Evidence:
    """Scores of pairs by each ingredient, entropies and classes of the answers."""

    def __init__(
        self, target: Target, nodes: Int, features: Any, pairs: Int, which: Sequence[Attack], seed: int
    ) -> None:
        view = AttackerView(nodes=nodes, features=features, pairs=pairs)
        self._scores = [attack.run(target, view, seed).scores for attack in which]
        answers = posteriors(target, nodes)
        at = np.argsort(nodes)
        i, j = (at[np.searchsorted(nodes[at], end)] for end in pairs)
        entropy = -(answers * np.log(np.maximum(answers, 1e-12))).sum(axis=1)
        self._plain = np.stack(
            [entropy[i] + entropy[j], np.abs(entropy[i] - entropy[j]), answers.argmax(1)[i] == answers.argmax(1)[j]],
            axis=1,
        ).astype(np.float64)

    def table(self, reference: Any) -> Float:
        """One row per pair. A score counts by how rare one as large is among the pairs of `reference` (a mask)."""
        lifts = []
        for score in self._scores:
            ordered = np.sort(score[reference])
            above = len(ordered) - np.searchsorted(ordered, score, side="left")
            lifts.append(-np.log((above + 0.5) / (len(ordered) + 1)))
        return np.column_stack([*lifts, self._plain])
