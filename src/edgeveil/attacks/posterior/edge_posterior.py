"""One calibrated probability per pair, through the noise of a published graph.

The noisy graph (read from the release, or recovered by flatroot) shows each pair by a law that is public. What else
speaks for an edge (similar features, noisy neighbours in common, noisy degrees) is weighed by `prior` from everything
that is shown in the whole graph, whichever pairs are asked for: no edge need be known. Bits are independent given the
edges, so a pair's neighbours say nothing about its own coin. Predicted classes are left out: a model trained on the
noisy graph makes pairs that only the noise joined agree, which would count a bit twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.attack import ATTACKS, Access, Attack, Scored, check_prior
from edgeveil.attacks.counts.levels import unit_rows
from edgeveil.attacks.flatroot import FlatRoot
from edgeveil.attacks.posterior.laws import CoinLaw, Law, describes, law_of
from edgeveil.attacks.posterior.pair_evidence import PairEvidence, Shown
from edgeveil.attacks.posterior.prior import Prior, learn
from edgeveil.errors import InputError, TooLarge, UnknownNameError
from edgeveil.release.target import AttackerView, Target
from edgeveil.seeds import stream

__all__ = ["EdgePosterior"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
MOST = 30_000  # nodes: all pairs are weighed
NO_LAW = (
    "edge-posterior needs the public law of the mechanism (none, edgerand, lapgraph, gp-m, gp-t, rr), and this "
    "target's is {}; use stored-graph or flatroot"
)
NO_GRAPH = "no noisy graph could be recovered, so only the features speak"


@ATTACKS.register("edge-posterior")
@dataclass(frozen=True, kw_only=True)
class EdgePosterior(Attack):
    """`source` of the noisy graph: ``stored`` (white box), ``questions`` (flatroot's), ``auto`` prefers stored.

    `prior`: probability of the asked `pairs` before their bits are seen, whatever their features say (1/2 for pairs
    that coins decided). `keep`: how many best pairs a whole-graph run lists (default 20 per node).
    """

    source: str = "auto"
    prior: float | None = None
    keep: int | None = None

    reference: ClassVar[str] = "this package; Bayes through the public law of the mechanism, prior by empirical Bayes"
    strength: ClassVar[int] = 5
    calibrated: ClassVar[bool] = True
    assumes: ClassVar[str] = "holds the release, knows the law of its noise and every node's features"
    needs: ClassVar[frozenset[str]] = frozenset({"mechanism"})

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Weigh all pairs among the view's nodes."""
        check_prior(self.prior, view)
        count = len(view.nodes)
        if count > MOST:
            raise TooLarge(
                f"edge-posterior weighs all pairs of at most {MOST:,} nodes, got {count:,}; name fewer nodes"
            )
        lists, access, notes = self._noisy(target, seed)
        evidence = _evidence(target, view, lists)
        law = law_of(target.mechanism, lists)
        if law.independent and not law.noiseless and self.prior is None:
            prior = learn(evidence, law, lists, stream(seed, "attack", "edge-posterior"))
        else:
            before = law.density if self.prior is None else self.prior
            prior = Prior(math.log(before / (1 - before)))
        told = {"law": law.source} | ({"kept": law.kept, "false": law.false} if isinstance(law, CoinLaw) else {})
        return self._report(evidence, law, prior, view, Scored(np.empty(0), access=access, notes=notes, facts=told))

    def lacks(self, target: Target, view: AttackerView | None = None) -> str:
        """Also the law of the mechanism."""
        if not describes(target.mechanism):
            return NO_LAW.format((target.mechanism or {}).get("name", "not described"))
        return super().lacks(target, view)

    def idle(self, target: Target) -> str:
        """Without noise there is nothing to see through, and a black box would be asked as flatroot asks it."""
        if describes(target.mechanism) == "none":
            return "no noise to see through"
        return "" if target.stored_graph is not None else "the noisy graph must be recovered by flatroot first"

    def _noisy(self, target: Target, seed: int) -> tuple[Any, Access, tuple[str, ...]]:
        """The stored lists, CSR of ones without a diagonal: row i names whom i lists."""
        if self.source not in ("auto", "stored", "questions"):
            raise UnknownNameError("source of edge-posterior", self.source, ("auto", "stored", "questions"))
        if self.source == "stored" and target.stored_graph is None:
            raise InputError("this target shows no stored graph; use source='questions'")
        n = target.num_nodes
        if self.source != "questions" and target.stored_graph is not None:
            kept = sp.csr_matrix(target.stored_graph(), dtype=np.float64)
            if ((target.mechanism or {}).get("params", {})).get("variant") == "published":
                kept = kept.T.tocsr()  # the authors' messages run from a node to its list
            kept = sp.csr_matrix(kept - sp.diags(kept.diagonal()))
            kept.eliminate_zeros()
            kept.data = np.ones(kept.nnz)
            return kept, "white-box", ()
        whole = AttackerView(nodes=np.arange(n), features=None, whole_graph=True)
        found = FlatRoot(mode="query").run(target, whole, seed).found if target.answer_kind != "labels" else None
        if found is None or not found.size:
            return sp.csr_matrix((n, n)), "black-box", (NO_GRAPH,)
        ones = np.ones(2 * found.shape[1])
        ends = (np.r_[found[0], found[1]], np.r_[found[1], found[0]])
        return sp.csr_matrix((ones, ends), shape=(n, n)), "black-box", ()

    def _report(self, evidence: PairEvidence, law: Law, prior: Prior, view: AttackerView, told: Scored) -> Scored:
        place = np.full(int(evidence.nodes.max()) + 1, -1)
        place[evidence.nodes] = np.arange(evidence.count)
        at = place[view.nodes]
        if not view.whole_graph:
            i, j = view.pair_positions()
            value = _posterior(evidence.of_pairs(at[i], at[j]), law, prior)
            return Scored(value, access=told.access, notes=told.notes, facts=told.facts)
        n = len(view.nodes)
        total = n * (n - 1) // 2
        keep = min(20 * n if self.keep is None else self.keep, total)
        best, ends = np.empty(0), np.empty((2, 0), np.int64)
        for shown in evidence.blocks():
            best = np.r_[best, _posterior(shown, law, prior)]
            ends = np.concatenate([ends, np.stack([shown.i, shown.j])], axis=1)
            if len(best) > keep:
                top = np.sort(np.argpartition(-best, keep - 1)[:keep])
                best, ends = best[top], ends[:, top]
        floor = float(best.min(initial=0.0)) if len(best) < total else 0.0
        return Scored(best, ends, told.access, told.notes, told.facts, total - len(best), floor)


def _evidence(target: Target, view: AttackerView, lists: Any) -> PairEvidence:
    """Of the whole graph, if its features are known or no features are; else of the view's nodes."""
    everyone = np.arange(target.num_nodes)
    whole = len(view.nodes) == target.num_nodes
    if view.features is None or (target.features is not None and not whole):
        features = None if view.features is None else target.features
        return PairEvidence(everyone, lists, None if features is None else unit_rows(features))
    return PairEvidence(view.nodes, lists, unit_rows(view.rows(np.arange(len(view.nodes)))))


def _posterior(shown: Shown, law: Law, prior: Prior) -> Float:
    """P(edge | what is shown, evidence); pairs of one level are told apart by their features."""
    edge, none = law.likelihood(shown)
    with np.errstate(divide="ignore"):
        odds = prior.odds(shown) + np.log(edge) - np.log(none)
    out: Float = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
    if law.noiseless or not prior.cuts or len(shown.kinds) < 3:
        return np.round(out) if law.noiseless else out
    return np.clip(out * (1 + 1e-6 * (shown.kinds[2] - 1)), 0.0, 1.0)
