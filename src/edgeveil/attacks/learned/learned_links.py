"""Link stealing with knowledge: weigh every attack's word by what it was worth on pairs whose truth is known.

He et al. (USENIX Security 2021) name eight attackers by what they have: features F, some known edges A*, a shadow graph
D'. Attack-0 and Attack-2 learn nothing (`lsa2-post`, `lsa2-attr`); the other six are this one, by what its view holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.attacks.learned.evidence import Evidence, ingredients
from edgeveil.attacks.learned.shadow_model import ShadowTarget
from edgeveil.attacks.learner import fit_learner, labelled_pairs
from edgeveil.errors import InputError, TooLarge
from edgeveil.release.target import AttackerView, Target
from edgeveil.seeds import stream

__all__ = ["LearnedLinks", "setting_of"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
MOST = 4000
SHADOW_PAIRS = 4000
NEGATIVES = 20  # pairs taken for non-edges per known edge, where no non-edge is known
NEEDS = "learned-links learns from known edges (known_edges=, --knows 5%) or a public graph (shadow=, --shadow GRAPH)"


def setting_of(features: bool, known: bool, shadow: bool) -> int:
    """He et al.'s number of an attacker who has these."""
    return {
        (False, False, False): 0, (False, False, True): 1, (True, False, False): 2, (False, True, False): 3,
        (False, True, True): 4, (True, False, True): 5, (True, True, False): 6, (True, True, True): 7,
    }[features, known, shadow]  # fmt: skip


@ATTACKS.register("learned-links")
@dataclass(frozen=True, kw_only=True)
class LearnedLinks(Attack):
    """Logistic regression on distances of answers and features, entropies, classes, influences and stored evidence.

    Trained on known edges of the graph, on a shadow graph with a model of its own, or on both. `with_features=False`
    leaves features out (Attack-1, 3, 4). Known pairs are not among the scored ones.
    `penalty`: weight of the squared coefficients in the regression.
    """

    with_features: bool = True
    penalty: float = 1e-3

    reference: ClassVar[str] = "after He et al., Stealing Links from Graph Neural Networks, USENIX Security 2021"
    needs: ClassVar[frozenset[str]] = frozenset({"answers", "knowledge"})
    assumes: ClassVar[str] = "knows some edges or a public graph like this one"

    def lacks(self, target: Target, view: AttackerView | None = None) -> str:
        """Something to learn from."""
        if view is not None and view.known_edges is None and view.shadow is None:
            return NEEDS
        return super().lacks(target, view)

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Train, then weigh the view's pairs."""
        if len(view.nodes) > MOST:
            raise TooLarge(f"learned-links weighs all pairs of at most {MOST:,} nodes, got {len(view.nodes):,}")
        rng = stream(seed, "attack", "learned-links")
        asked, positive, negative = self._pairs(view, rng)
        pairs = np.concatenate([asked, positive, negative], axis=1)
        nodes = np.unique(pairs)
        rows = _rows_of(target, view, nodes) if self.with_features else None
        which = ingredients(target, AttackerView(nodes=nodes, features=rows))
        if view.shadow is not None:
            which = [a for a in which if not a.needed & {"stored graph", "stored counts", "mechanism"}]
        own = Evidence(target, nodes, rows, pairs, which, seed)
        reference = np.arange(pairs.shape[1]) < asked.shape[1]
        table = own.table(reference)
        truth = np.r_[np.ones(positive.shape[1]), np.zeros(negative.shape[1])].astype(np.int64)
        x, y = table[~reference], truth
        if view.shadow is not None:
            sx, sy = _from_shadow(view.shadow, which, self.with_features and rows is not None, rng, seed)
            x, y = np.concatenate([x, sx]), np.concatenate([y, sy])
        learner = fit_learner(x, y, self.penalty)
        scores = learner.log_probabilities(table[reference])
        number = setting_of(rows is not None, view.known_edges is not None, view.shadow is not None)
        white = target.influence is not None or any(a.needed & {"stored graph", "stored counts"} for a in which)
        facts = {"setting": f"Attack-{number}", "learned_from": len(y)}
        return Scored(scores[:, 1] - scores[:, 0], asked, "white-box" if white else "black-box", facts=facts)

    def _pairs(self, view: AttackerView, rng: np.random.Generator) -> tuple[Int, Int, Int]:
        """Pairs to score (known ones left out), known edges, known or supposed non-edges."""
        i, j = view.pair_positions()
        asked = np.sort(np.stack([view.nodes[i], view.nodes[j]]), axis=0)
        none = np.empty((2, 0), np.int64)
        edges = none if view.known_edges is None else np.unique(np.sort(view.known_edges, axis=0), axis=1)
        others = none if view.known_non_edges is None else np.unique(np.sort(view.known_non_edges, axis=0), axis=1)
        base = int(max(asked.max(initial=0), edges.max(initial=0), others.max(initial=0))) + 1
        keys = asked[0] * base + asked[1]
        known = np.concatenate([edges, others], axis=1)
        free = ~np.isin(keys, known[0] * base + known[1])
        if edges.size and not others.size:
            many = min(NEGATIVES * edges.shape[1], int(free.sum()) // 2)
            drawn = rng.choice(np.flatnonzero(free), many, replace=False)
            others = asked[:, drawn]  # mostly non-edges: edges are rare
        if edges.size and not others.size:
            raise InputError("learned-links needs pairs that are no edges; pass known_non_edges=")
        return asked[:, free], edges, others


def _rows_of(target: Target, view: AttackerView, nodes: Int) -> Any:
    """Features of the nodes: the target's, where its owner shares them, else the view's if it covers them."""
    if target.features is not None:
        return AttackerView(nodes=np.arange(target.num_nodes), features=target.features).rows(nodes)
    if view.features is None or not np.isin(nodes, view.nodes).all():
        return None
    order = np.argsort(view.nodes)
    return view.rows(order[np.searchsorted(view.nodes[order], nodes)])


def _from_shadow(shadow: Any, which: list[Attack], features: bool, rng: np.random.Generator, seed: int) -> Any:
    """Evidence and truth of pairs of the public graph, through a model that Bob trained on it."""
    pairs, truth = labelled_pairs(shadow, SHADOW_PAIRS, rng)
    target = ShadowTarget(shadow)
    nodes = np.unique(pairs)
    rows = target.features[nodes] if features else None
    table = Evidence(target, nodes, rows, np.sort(pairs, axis=0), which, seed).table(truth == 0)
    return table, truth
