"""An attack that learns from a public graph, in one file outside the package.

After He et al. (USENIX Security 2021): Bob has another graph with its edges. He trains a small model on it, sees how
alike the answers and features of linked and of unlinked nodes are there, and scores pairs of Alice's graph by what he
learnt. Similarities have no dimension, so the two graphs may have different features and classes.

Python:        ev.load_plugin("examples/shadow_attack.py"); ev.attack(release, "shadow-pairs", shadow=public_graph)
Command line:  edgeveil audit cora-twin --plugin examples/shadow_attack.py --attack shadow-pairs --shadow citeseer-twin
Run:           python examples/shadow_attack.py
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

import edgeveil as ev
from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.attacks.learner import fit_learner, labelled_pairs
from edgeveil.errors import InputError
from edgeveil.release.target import AttackerView, PublicGraph, Target
from edgeveil.seeds import stream


@ATTACKS.register("shadow-pairs")
@dataclass(frozen=True, kw_only=True)
class ShadowPairs(Attack):
    """Similarities of two nodes' answers and features, weighed as a shadow graph teaches."""

    examples: int = 2000
    """Edges of the shadow graph to learn from, and as many non-edges."""
    hops: int = 2
    """How far Bob's own model averages features over the shadow graph's edges."""

    reference: ClassVar[str] = "after He et al., Stealing Links from Graph Neural Networks, USENIX Security 2021"
    needs: ClassVar[frozenset[str]] = frozenset({"answers", "graded answers", "features", "shadow graph"})

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """One query; everything else is learnt from the shadow graph."""
        assert view.shadow is not None
        rng = stream(seed, "attack", "shadow pairs")
        pairs, linked = labelled_pairs(view.shadow, self.examples, rng)
        shadow_rows = dense(view.shadow.features)
        learnt = similarities(self._shadow_answers(view.shadow, shadow_rows), shadow_rows, *pairs)
        learner = fit_learner(learnt, linked)
        answers = target.query(nodes=view.nodes)
        if target.answer_kind == "probabilities":
            answers = np.log(np.maximum(answers, 1e-12))
        rows = view.rows(np.arange(len(view.nodes)))
        found = similarities(answers, rows, *view.pair_positions())
        return Scored(learner.log_probabilities(found)[:, 1], facts={"shadow_nodes": view.shadow.num_nodes})

    def _shadow_answers(self, shadow: PublicGraph, rows: Any) -> Any:
        """Answers of Bob's own model of his own graph: averaged features, then the small learner."""
        if shadow.labels is None or shadow.labels.ndim != 1:
            raise InputError("shadow-pairs needs a shadow graph with one label per node")
        n, (u, v) = shadow.num_nodes, shadow.edges
        links = sp.csr_matrix((np.ones(2 * len(u)), (np.r_[u, v], np.r_[v, u])), shape=(n, n)) + sp.identity(n)
        mean = sp.diags(1 / np.asarray(links.sum(axis=1)).ravel()) @ links
        for _ in range(self.hops):
            rows = mean @ rows
        known = shadow.labels >= 0
        return fit_learner(rows[known], shadow.labels[known], penalty=1e-2).log_probabilities(rows)


def dense(features: Any) -> Any:
    """Features as a dense array."""
    if features is None:
        raise InputError("shadow-pairs needs a shadow graph with features")
    return np.asarray(features.todense() if sp.issparse(features) else features, np.float64)


def similarities(answers: Any, rows: Any, i: Any, j: Any) -> Any:
    """Cosine of centred log-answers, agreement of the likeliest class, and cosine of features, per pair."""
    centred = answers - answers.mean(axis=1, keepdims=True)
    same = (answers.argmax(axis=1)[i] == answers.argmax(axis=1)[j]).astype(float)
    return np.stack([cosine(centred, i, j), same, cosine(rows, i, j)], axis=1)


def cosine(vectors: Any, i: Any, j: Any) -> Any:
    """Cosine per pair; 0 where a vector is 0."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return np.einsum("ij,ij->i", unit[i], unit[j])


if __name__ == "__main__":
    graph, public = ev.load("cora-twin"), ev.load("citeseer-twin")
    release = ev.defend(graph, "none", seed=0)
    nodes = np.random.default_rng(0).choice(graph.num_nodes, 300, replace=False)
    for name, known in (("lsa2-post", {}), ("shadow-pairs", {"shadow": public})):
        result = ev.attack(release, name, nodes=nodes, **known)
        print(result, ev.metrics.ranking(result.scores, graph.has_edges(*result.pairs))["auc"])
