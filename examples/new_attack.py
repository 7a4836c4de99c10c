"""A new attack in one file: nodes whose features have a large inner product are called neighbours.

Run: python examples/new_attack.py
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import edgeveil as ev
from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.release.target import AttackerView, Target


@ATTACKS.register("feature-dot")
@dataclass(frozen=True)
class FeatureDot(Attack):
    """Inner product of features; asks the target nothing."""

    centre: bool = True

    reference: ClassVar[str] = "an example"
    needs: ClassVar[frozenset[str]] = frozenset({"features"})

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Score every pair of the view."""
        x = view.rows(np.arange(len(view.nodes)))
        if self.centre:
            x = x - x.mean(axis=0)
        first, second = view.pair_positions()
        return Scored(np.einsum("ij,ij->i", x[first], x[second]), access="none")


if __name__ == "__main__":
    graph = ev.load("cora-twin")
    release = ev.defend(graph, "mlp", model="mlp", seed=0)
    nodes = np.random.default_rng(0).choice(graph.num_nodes, 300, replace=False)
    result = ev.attack(release, "feature-dot", nodes=nodes)
    print(result, ev.metrics.ranking(result.scores, graph.has_edges(*result.pairs))["auc"])
