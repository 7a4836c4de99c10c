"""LinkTeller (Wu et al., S&P 2022, Alg. 1): who moves whose prediction?

Influence of v on u: the norm of the change of u's answer per delta when v's features are scaled by 1 + delta. Two
nodes more than k hops apart have none on a k-layer GCN (Theorem 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.attacks.density import from_known_edges
from edgeveil.attacks.probing import Probe
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.release.target import AttackerView, Target

__all__ = ["BLIND", "LinkTeller", "check_variant", "score_influence"]

Int = NDArray[np.int64]
Float = NDArray[np.float64]
MODES = ("auto", "exact", "query")
VARIANTS = ("correct", "published")
BLIND = (
    "no node influences another: this model's answers do not depend on other nodes' features at query time (or are too "
    "coarse to show it), so LinkTeller is blind here. That is not evidence of privacy"
)

BY_QUERIES = (
    "this model offers no exact influence although its answers may depend on other nodes, so it was asked by queries"
)


@ATTACKS.register("linkteller")
@dataclass(frozen=True, kw_only=True)
class LinkTeller(Attack):
    """`mode`: ``query`` asks n + 1 questions; ``exact`` uses the derivative of a model at hand; ``auto`` prefers exact.

    `variant="correct"` adds a pair's two directions; ``published`` takes the influence of the later node on the
    earlier one only. `delta` None suits the answers' resolution. `repeats` > 1 averages a randomised model.
    """

    mode: str = "auto"
    delta: float | None = None
    variant: str = "correct"
    repeats: int = 1

    reference: ClassVar[str] = "Wu et al., LinkTeller, IEEE S&P 2022, Algorithm 1"
    strength: ClassVar[int] = 2
    assumes: ClassVar[str] = "alters one node's features at a time and sees graded answers"
    needs: ClassVar[frozenset[str]] = frozenset({"answers", "graded answers"})
    watches: ClassVar[bool] = True
    each_node: ClassVar[dict[str, Any] | None] = {"mode": "query"}

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Influence among the view's nodes, turned into pair scores."""
        check_variant(self.variant)
        if self._mode(target, view) == "exact":
            assert target.influence is not None
            return score_influence(target.influence(view.nodes), view, self.variant, "white-box", {"mode": "exact"})
        probe = Probe(target, view, self.delta, self.repeats)
        matrix = self._influence(probe, view)
        facts = {"mode": "query", "delta": probe.delta, "resolution": probe.resolution.step}
        scored = score_influence(matrix, view, self.variant, "black-box", facts)
        if probe.stirred:
            scored = replace(scored, notes=tuple(note for note in scored.notes if note != BLIND))
        return replace(scored, notes=(*scored.notes, BY_QUERIES)) if target.influence_missing else scored

    def _influence(self, probe: Probe, view: AttackerView) -> sp.csr_matrix:
        """Of the asked pairs alone where they can be asked together."""
        if view.pairs is not None and probe.offers_apart:
            first, second = view.pair_positions()
            both = self.variant == "correct"
            sender, listener = (np.append(second, first), np.append(first, second)) if both else (second, first)
            return pair_influence(probe, len(view.nodes), sender, listener)
        return query_influence(probe, view, self._senders(view))

    def _mode(self, target: Target, view: AttackerView) -> str:
        if self.mode not in MODES:
            raise UnknownNameError("mode of linkteller", self.mode, MODES)
        black_box = self.repeats > 1 or self.delta is not None or view.controlled_features is not None
        if self.mode == "exact":
            if target.influence is None:
                raise InputError("this target offers no exact influence (it is a black box); use mode='query'")
            if view.controlled_features is not None:
                raise InputError("the exact mode scales whole feature rows; use mode='query' with controlled_features")
            return "exact"
        if self.mode == "auto" and target.influence is not None and not black_box:
            return "exact"
        return "query"

    def _senders(self, view: AttackerView) -> Int:
        """Positions that must be perturbed: the published score of a pair needs its second node only."""
        if view.pairs is not None and self.variant == "published":
            return np.unique(view.pair_positions()[1])
        return np.arange(len(view.nodes))


def check_variant(variant: str) -> None:
    """Refuse an unknown way of forming a pair's score."""
    if variant not in VARIANTS:
        raise UnknownNameError("variant of linkteller", variant, VARIANTS)


def query_influence(probe: Probe, view: AttackerView, senders: Int) -> sp.csr_matrix:
    """One probe per sender; row i holds the influence of node i on every own node, exact zeros left out."""
    indptr, indices, values = [0], [], []
    rows = np.zeros(len(view.nodes), bool)
    rows[senders] = True
    for position in range(len(view.nodes)):
        if rows[position]:
            norm = np.linalg.norm(probe.respond(position), axis=1)
            hit = np.flatnonzero(norm)
            indices.append(hit)
            values.append(norm[hit])
        indptr.append(indptr[-1] + (len(indices[-1]) if rows[position] else 0))
    n = len(view.nodes)
    return sp.csr_matrix((np.concatenate(values), np.concatenate(indices), indptr), shape=(n, n))


def pair_influence(probe: Probe, count: int, sender: Int, listener: Int) -> sp.csr_matrix:
    """Influence of sender[p] on listener[p] for every p, exact zeros left out."""
    order = np.lexsort((listener, sender))
    senders, start = np.unique(sender[order], return_index=True)
    heard = [np.unique(own) for own in np.split(listener[order], start[1:])]
    parts = [
        (senders[at], heard[at], np.linalg.norm(change, axis=1)) for at, change in probe.respond_apart(senders, heard)
    ]
    rows = np.concatenate([np.full(len(own), who) for who, own, _ in parts])
    columns, values = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    matrix = sp.csr_matrix((values, (rows, columns)), shape=(count, count))
    matrix.eliminate_zeros()
    return matrix


def score_influence(matrix: Any, view: AttackerView, variant: str, access: Any, facts: dict[str, Any]) -> Scored:
    """Pair scores of an influence matrix ([i, j]: of node i on node j); sparse for a whole graph.

    Edges known from elsewhere turn into a density belief unless the view states one.
    """
    scored = _pair_scores(matrix, view, variant, access, facts)
    if view.known_edges is None or view.density is not None:
        return scored
    pairs = view.nodes[np.stack(view.pair_positions())] if scored.pairs is None else scored.pairs
    belief = from_known_edges(scored.scores, pairs, view.known_edges, unlisted=scored.unlisted)
    return replace(scored, density=belief.density)


def _pair_scores(matrix: Any, view: AttackerView, variant: str, access: Any, facts: dict[str, Any]) -> Scored:
    notes = () if matrix.count_nonzero() > np.count_nonzero(matrix.diagonal()) else (BLIND,)
    if not view.whole_graph:
        i, j = view.pair_positions()
        scores = _entries(matrix, j, i)
        if variant == "correct":
            scores = scores + np.where(i == j, 0.0, _entries(matrix, i, j))
        return Scored(scores, access=access, facts=facts, notes=notes)
    both = (matrix + matrix.T if variant == "correct" else matrix.T).tocsr()
    upper = sp.triu(both, 1, format="coo")
    keep = upper.data > 0
    order = np.lexsort((upper.col[keep], upper.row[keep]))
    pairs = view.nodes[np.stack([upper.row[keep][order], upper.col[keep][order]])]
    n = len(view.nodes)
    unlisted = n * (n - 1) // 2 - pairs.shape[1]
    return Scored(upper.data[keep][order], pairs, access, notes, facts, unlisted)


def _entries(matrix: Any, i: Int, j: Int) -> Float:
    if matrix.shape[0] <= 3000:
        return np.asarray(matrix.todense(), np.float64)[i, j]
    return np.asarray(matrix.tocsr()[i, j], np.float64).ravel()
